// Random spellings of quantized linears: those that the patterns of graph/patterns/ know, and what nearly is one of
// them. Sizes coincide on purpose (M = N = K = group, N = 1, K = 1), so that what belongs to rows may be taken for what
// belongs to columns.
//
// Why here: the passes must keep what is written (tests/passes), and compiled programs must give it
// (tests/random_programs). No pass knows what a spelling was meant to be: the oracle says what it means.
//
//   RandomSpelling spelling(seed);
//   Graph graph = spelling.build();          // parameters have their bytes; the same seed gives the same graph
//   for (int64_t m : spelling.rows()) …      // sizes of s0 that coincide with others
#pragma once

#include <set>

#include "tests/passes/spelling_operands.h"

namespace qcg {

class RandomSpelling : SpellingOperands {
 public:
  explicit RandomSpelling(uint64_t seed, int64_t most_rows = 64) : SpellingOperands(seed, most_rows) {}

  Graph build() {
    for (int i = 0, count = one_in(4) ? 2 : 1; i < count; ++i) add_linears();
    if (symbolic_) graph_.outputs.push_back(input(DType::f32, {m()}));  // shows s0
    for (size_t i = 0; i < graph_.outputs.size(); ++i) graph_.output_names.push_back("out" + std::to_string(i));
    return graph_;
  }

  // Of s0, if there is one.
  std::set<int64_t> rows() const {
    if (!symbolic_) return {m_};
    return {1, std::min<int64_t>(3, most_rows_), std::min(m_, most_rows_), std::min(n_, most_rows_),
            std::min(k_, most_rows_)};
  }

 private:
  // ---- the whole ----

  void add_linears() {
    std::vector<ValueId> results;
    const bool integers = one_in(4);
    const int family = static_cast<int>(below(8));
    ValueId rows = integers ? kNoValue : attempt([&] { return activation(); }, kNoValue);
    if (rows == kNoValue) rows = input(dtype_, {m(), Dim(k_)});
    for (int i = 0, count = static_cast<int>(one_of({1, 1, 2, 3})); i < count; ++i) {
      const int64_t n = i == 0 ? n_ : one_of({n_, n_, int64_t{1}, k_});
      const ValueId y = attempt(
          [&] {
            return integers ? integer_product(n) : linear(rows, n, one_in(4) ? static_cast<int>(below(8)) : family);
          },
          kNoValue);
      if (y != kNoValue) results.push_back(y);
    }
    if (results.empty()) {
      const ValueId w = reals(dtype_of(rows), {n_, shape_of(rows).back().constant()}, 0.5);
      results.push_back(call("aten.linear.default", {{"input", rows}, {"weight", w}}));
    }
    for (ValueId& y : results)
      for (int64_t i = below(3); i > 0; --i) y = attempt([&] { return epilogue(y); }, y);
    for (int64_t i = below(2); i > 0 && results.size() > 1; --i)
      results.push_back(attempt([&] { return join(results); }, results[0]));
    for (ValueId y : results)
      if (dtype_of(y) != DType::boolean) graph_.outputs.push_back(y);
    if (graph_.outputs.empty()) graph_.outputs.push_back(to(results[0], DType::f32));
  }

  ValueId join(const std::vector<ValueId>& ys) {
    const ValueId a = ys[random_() % ys.size()], b = ys[random_() % ys.size()];
    if (one_in(3))
      return call("aten.cat.default",
                  {{"tensors", std::vector<ValueId>{a, b}}, {"dim", Dim(one_of<int64_t>({-1, 0, 1}))}});
    return binary(one_of<std::string_view>({"aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor"}), a, b);
  }

  // ---- products with floats ----

  ValueId linear(ValueId x, int64_t n, int family) {
    const int64_t k = shape_of(x).back().constant();
    const DType d = dtype_of(x);
    switch (family) {
      case 0: return multiply(x, maybe(reals(d, {n, k}, 0.5)));
      case 1:
      case 2: return multiply(x, maybe(to(affine_weight(n, k, d), d)));
      case 3:
      case 4: return multiply(x, maybe(to(arithmetic_weight(n, k), d)));
      case 5: return scaled_behind(x, n);
      case 6: return multiply(x, maybe(decomposed_weight(n, k, d)));
      default: return packed(x, n);
    }
  }

  // x times a weight [N, K], in one of the five spellings, with a bias of any shape that fits.
  ValueId multiply(ValueId x, ValueId w) {
    const DType d = dtype_of(x);
    if (dtype_of(w) != d) throw Refused{};
    const Shape lead(shape_of(x).begin(), shape_of(x).end() - 1);
    const Dim n = shape_of(w)[0];
    switch (below(6)) {
      case 0: return call("aten.matmul.default", {{"self", x}, {"other", transpose(w)}});
      case 1:
      case 2: {
        const ValueId rows = shape_of(x).size() == 2 ? x : view(x, {product(lead), shape_of(x).back()});
        const ValueId y =
            one_in(2) ? call("aten.mm.default", {{"self", rows}, {"mat2", transpose(w)}}) : addmm(rows, w);
        return rows == x ? y : maybe(view(y, joined(lead, n)));
      }
      case 3:
        if (shape_of(x).size() == 3)
          return call("aten.bmm.default",
                      {{"self", x}, {"mat2", transpose(expand(w, {shape_of(x)[0], n, shape_of(x)[2]}))}});
        [[fallthrough]];
      default:
        return call("aten.linear.default",
                    {{"input", x}, {"weight", w}, {"bias", one_in(2) ? kNoValue : bias(d, joined(lead, n))}});
    }
  }
  // One number per column, or of any shape that fits the result.
  ValueId bias(DType dtype, const Shape& result) {
    if (one_in(2)) return reals(dtype, {result.back().constant()}, 1);
    return operand(dtype, result, 1, one_in(2) && constant_shape(result));
  }
  ValueId addmm(ValueId rows, ValueId w) {
    const Shape result = {shape_of(rows)[0], shape_of(w)[0]};
    return call("aten.addmm.default", {{"self", bias(dtype_of(rows), result)},
                                       {"mat1", rows},
                                       {"mat2", transpose(w)},
                                       {"beta", one_of<Arg>({Arg(Dim(1)), Arg(Dim(1)), Arg(Dim(0)), Arg(0.5)})},
                                       {"alpha", one_of<Arg>({Arg(Dim(1)), Arg(Dim(1)), Arg(2.0)})}});
  }

  // The product first, then the scale, which may have any shape that fits the product.
  ValueId scaled_behind(ValueId x, int64_t n) {
    const DType d = dtype_of(x);
    const ValueId w = codes(one_of({DType::i8, DType::i8, DType::f8e4m3, DType::f8e5m2, DType::u8}),
                            {n, shape_of(x).back().constant()});
    return scaled(multiply(x, to(maybe(w), d)), n);
  }
  ValueId scaled(ValueId y, int64_t n) {
    const DType d = one_of({dtype_of(y), DType::f32});
    const ValueId scale = one_in(2) ? spelled(d, one_in(2) ? numbers({n}) : numbers({1, n}), 0.01, true)
                                    : operand(d, shape_of(y), 0.01, one_in(2) && constant_shape(shape_of(y)));
    return commuted("aten.mul.Tensor", maybe(y), maybe(scale, 10));
  }

  // Ops that come with their weights packed.
  ValueId packed(ValueId x, int64_t n) {
    const int64_t k = shape_of(x).back().constant();
    const DType d = dtype_of(x);
    switch (below(4)) {
      case 3: return int4_packed(x, n);
      case 0:
        return call("aten._weight_int8pack_mm.default", {{"self", rank_two(x)},
                                                         {"mat2", codes(DType::i8, {n, k})},
                                                         {"scales", spelled(d, numbers({n}), 0.01, true)}});
      case 1: return scaled_fp8(x, n);
      default: return multiply(x, four_bits(n, k, d));
    }
  }
  ValueId int4_packed(ValueId x, int64_t n) {
    const int64_t k = shape_of(x).back().constant(), group = some_group(k);
    if (n % 16 != 0 || k % 2 != 0) throw Refused{};
    return call("aten._weight_int4pack_mm_for_cpu.default",
                {{"self", rank_two(x)},
                 {"mat2", integers(DType::u8, {n, k / 2}, 0, 255)},
                 {"qGroupSize", Dim(group)},
                 {"qScaleAndZeros", reals(dtype_of(x), {k / group, n, 2}, 0.01)}});
  }
  ValueId rank_two(ValueId x) {
    const Shape& shape = shape_of(x);
    return shape.size() == 2 ? x : view(x, {product(Shape(shape.begin(), shape.end() - 1)), shape.back()});
  }
  ValueId scaled_fp8(ValueId x, int64_t n) {
    const ValueId rows = rank_two(x), w = reals(DType::f8e4m3, {n, k_}, 0.5);
    const bool wide = one_in(2);
    const Shape whole = numbers({1}), per_row = {shape_of(rows)[0], Dim(1)}, per_column = numbers({1, n});
    return call("aten._scaled_mm.default", {{"self", input(DType::f8e4m3, shape_of(rows))},
                                            {"mat2", transpose(w)},
                                            {"scale_a", leaf(DType::f32, wide ? whole : per_row, 0.5, false)},
                                            {"scale_b", spelled(DType::f32, wide ? whole : per_column, 0.5, true)},
                                            {"bias", one_in(2) ? kNoValue : reals(dtype_, {n}, 1)},
                                            {"out_dtype", dtype_}});
  }

  // ---- products of integers ----

  ValueId integer_product(int64_t n) {
    const ValueId w = codes(DType::i8, {n, k_});
    if (one_in(4)) return static_quant_linear(n);
    if (one_in(4))
      return maybe(
          scaled(to(int_mm(input(one_of({DType::i8, DType::u8}), {m(), Dim(k_)}), w), one_of({DType::f32, dtype_})), n),
          4);
    Quantized a = quantize_rows();
    const Shape rows = {product(Shape(shape_of(a.q).begin(), shape_of(a.q).end() - 1)), Dim(k_)};
    const ValueId q = shape_of(a.q) == rows ? a.q : view(a.q, rows);
    const ValueId scale = one_in(2) ? view(a.scale, {rows[0], Dim(1)}) : maybe(a.scale);
    const ValueId sum =
        to(one_in(3) ? shifted_int_mm(q, w) : int_mm(q, w), one_in(3) && dtype_of(scale) == half_ ? half_ : DType::f32);
    ValueId y = one_in(4) ? scaled(sum, n) : to(commuted("aten.mul.Tensor", sum, scale), one_of({dtype_, DType::f32}));
    if (one_in(3)) {
      const ValueId sums =
          call("aten.sum.dim_IntList",
               {{"self", w}, {"dim", std::vector<Dim>{Dim(one_in(6) ? 0 : 1)}}, {"dtype", DType::i32}});
      const ValueId zeros = binary("aten.mul.Tensor", to(view(a.zero, {rows[0], Dim(1)}), DType::f32), scale);
      y = binary("aten.sub.Tensor", y, to(commuted("aten.mul.Tensor", zeros, to(sums, DType::f32)), dtype_of(y)));
    }
    return scaled(y, n);
  }
  ValueId int_mm(ValueId x, ValueId w) {
    return call("aten._int_mm.default", {{"self", x}, {"mat2", maybe(transpose(w), 10)}});
  }
  ValueId shifted_int_mm(ValueId q, ValueId w) {
    const Dim shift(one_in(8) ? 127 : 128);
    const ValueId wt = transpose(w);
    const ValueId u = to(binary("aten.add.Tensor", to(q, DType::i32), Arg(Dim(128))), DType::u8);
    const ValueId sums = call(
        "aten.sum.dim_IntList",
        {{"self", wt}, {"dim", std::vector<Dim>{Dim(one_in(8) ? 1 : 0)}}, {"keepdim", true}, {"dtype", DType::i32}});
    return binary("aten.sub.Tensor", call("aten._int_mm.default", {{"self", u}, {"mat2", wt}}),
                  binary("aten.mul.Tensor", sums, Arg(shift)));
  }
  ValueId static_quant_linear(int64_t n) {
    const int64_t group = some_group(k_);
    const bool four = one_in(2), rows = one_in(2);
    const Shape per_row = one_of<Shape>({{m(), Dim(1)}, {m()}}), whole = numbers({1});
    const std::vector<int64_t> blocks = one_of<std::vector<int64_t>>({{n, k_ / group}, {n}, {1}});
    return call(four ? "tensor_cast.static_quant_linear_int4.default" : "tensor_cast.static_quant_linear.default",
                {{"x", input(DType::i8, {m(), Dim(k_)})},
                 {"w", four ? integers(DType::i8, {k_, n}, -8, 7) : codes(DType::i8, {k_, n})},
                 {"w_scale", reals(one_of({DType::f32, dtype_}), blocks, 0.01)},
                 {"w_offset", one_in(2) ? kNoValue : integers(one_of({DType::i32, DType::f32}), blocks, -3, 3)},
                 {"x_scale", leaf(DType::f32, rows ? per_row : whole, 0.1, false)},
                 {"x_offset", one_in(2) ? kNoValue : input(DType::i32, rows ? per_row : whole)},
                 {"bias", one_in(2) ? kNoValue : reals(DType::f32, {n}, 1)},
                 {"out_dtype", one_of({DType::f32, dtype_})}});
  }

  // ---- behind a product ----

  ValueId epilogue(ValueId y) {
    const Shape shape = shape_of(y);
    const DType d = one_in(4) ? DType::f32 : dtype_of(y);
    const auto other = [&] { return operand(d, shape, 1, one_in(2) && constant_shape(shape)); };
    switch (below(12)) {
      case 0:
      case 1: return commuted("aten.add.Tensor", y, other());
      case 2:
      case 3: return commuted("aten.mul.Tensor", y, other());
      case 4: return binary("aten.sub.Tensor", y, other());
      case 5: return binary("aten.div.Tensor", y, other());
      case 6:
        return unary(one_of<std::string_view>(
                         {"aten.relu.default", "aten.silu.default", "aten.tanh.default", "aten.neg.default"}),
                     y);
      case 7: return binary("aten.mul.Tensor", y, symbolic_ ? Arg(m()) : Arg(0.5));
      case 8:
        return call("aten.sum.dim_IntList",
                    {{"self", y}, {"dim", std::vector<Dim>{Dim(one_of<int64_t>({-1, 0}))}}, {"keepdim", true}});
      case 9:
        return binary(
            "aten.add.Tensor", y,
            one_in(2)
                ? transpose(y)
                : expand(
                      call("aten.slice.Tensor",
                           {{"self", y}, {"dim", Dim(one_of<int64_t>({0, -1}))}, {"start", Dim(0)}, {"end", Dim(1)}}),
                      shape));
      default: return changed(y);
    }
  }
};

}  // namespace qcg
