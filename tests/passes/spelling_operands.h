// The two sides of a random product: rows of activations, quantized or not, and weights in the spellings of exporters.
//
// Why here: random_spelling.h multiplies them; a new spelling of either is added here.
//
//   const ValueId x = activation();                              // [..., K] of floats
//   const ValueId w = arithmetic_weight(n, k);                   // (codes - zero) * scale + offset by hand, [N, K]
#pragma once

#include "tests/passes/spelling_writer.h"

namespace qcg {

class SpellingOperands : protected SpellingWriter {
 protected:
  SpellingOperands(uint64_t seed, int64_t most_rows) : SpellingWriter(seed), most_rows_(most_rows) {
    const int64_t base = one_of<int64_t>({1, 2, 4, 8, 8, 16, 32});
    k_ = one_of<int64_t>({base, base, base, 2 * base, 1, 6});
    n_ = one_of<int64_t>({base, base, base, k_, 2 * base, 1, 7});
    m_ = one_of<int64_t>({base, base, n_, k_, 1, 3, 5});
    symbolic_ = one_in(2);
    dtype_ = exact_ && !one_in(4) ? half_ : DType::f32;
    if (symbolic_) graph_.symbols.push_back({"s0", 1, most_rows_});
  }

  Dim m() const { return symbolic_ ? Dim::symbol("s0") : Dim(m_); }
  int64_t some_group(int64_t k) {
    const int64_t group = one_of<int64_t>({k, k, n_, m_, k / 2, 1, 2, 4});
    return group > 0 && k % group == 0 ? group : k;
  }
  Shape numbers(std::initializer_list<int64_t> sizes) const { return {sizes.begin(), sizes.end()}; }

  static Shape joined(Shape lead, Dim last) {
    lead.push_back(std::move(last));
    return lead;
  }

  // ---- rows ----

  // [..., K] of floats.
  ValueId activation() {
    switch (below(7)) {
      case 0: return maybe(dynamically_quantized());
      case 1: return maybe(statically_quantized());
      case 2: return cat();
      default: return maybe(plain_rows(), 4);
    }
  }

  Shape rows_shape(int64_t k) {
    switch (below(5)) {
      case 0: return {Dim(1), m(), Dim(k)};
      case 1: return {m(), Dim(one_of<int64_t>({1, 2, n_})), Dim(k)};
      default: return {m(), Dim(k)};
    }
  }

  ValueId plain_rows() {
    const Shape shape = rows_shape(k_);
    switch (below(8)) {
      case 0: return slice(input(dtype_, with_last(shape, Dim(2 * k_))), -1, k_);
      case 1: return transpose(input(dtype_, swapped(shape)));
      case 2: return expand(input(dtype_, fewer_axes(shape)), shape);  // rows may all be one
      case 3: return view(input(dtype_, {product(shape)}), shape);
      case 4: return unary("aten.relu.default", input(dtype_, shape));
      default: return input(dtype_, shape);
    }
  }
  ValueId slice(ValueId x, int64_t axis, int64_t size) {
    const Dim start(one_of<int64_t>({0, size}));
    return call("aten.slice.Tensor", {{"self", x}, {"dim", Dim(axis)}, {"start", start}, {"end", start + Dim(size)}});
  }

  ValueId cat() {
    const Shape shape = rows_shape(k_);
    const Dim axis(one_of<int64_t>({-1, -1, static_cast<int64_t>(shape.size()) - 1, 0}));
    std::vector<ValueId> parts;
    for (int64_t i = 0, count = 2 + below(2); i < count; ++i)
      parts.push_back(one_in(3) && i > 0 ? parts[0] : maybe(input(dtype_, shape)));
    return call("aten.cat.default", {{"tensors", parts}, {"dim", axis}});
  }

  struct Quantized {
    ValueId x, q, scale, zero;
    Shape block;
  };

  // Of an input of the graph, so that what is rounded to integers is the same numbers in any order of operations.
  Quantized quantize_rows() {
    const ValueId x = input(dtype_, rows_shape(k_));
    Shape block(shape_of(x).size(), Dim(1));
    block.back() = shape_of(x).back();
    if (one_in(8)) block = shape_of(x);
    const bool narrow = one_in(4);
    const Dim low(narrow ? -127 : -128), high(127);
    const DType zero = one_of({DType::i8, DType::i8, DType::i32, DType::i64});
    const auto chosen = call_all("torchao.choose_qparams_affine.default",
                                 {{"input", x},
                                  {"mapping_type", std::string(one_in(2) ? "SYMMETRIC" : "ASYMMETRIC")},
                                  {"block_size", block},
                                  {"target_dtype", DType::i8},
                                  {"quant_min", low},
                                  {"quant_max", high},
                                  {"eps", one_of<Arg>({Arg(), Arg(0x1p-23)})},
                                  {"scale_dtype", one_of({DType::f32, dtype_})},
                                  {"zero_point_dtype", zero},
                                  {"keepdim", !one_in(4)}});
    const ValueId q = call("torchao.quantize_affine.default", {{"input", x},
                                                               {"block_size", block},
                                                               {"scale", chosen[0]},
                                                               {"zero_point", one_in(8) ? kNoValue : chosen[1]},
                                                               {"output_dtype", DType::i8},
                                                               {"quant_min", low},
                                                               {"quant_max", high}});
    return {x, q, chosen[0], chosen[1], block};
  }

  ValueId dynamically_quantized() {
    if (one_in(4)) return quantized_per_token();
    const Quantized a = quantize_rows();
    const ValueId scale = maybe(a.scale, 10), zero = one_in(8) ? kNoValue : maybe(a.zero, 10);
    if (one_in(4))  // taken apart
      return binary(
          "aten.mul.Tensor",
          zero == kNoValue ? to(a.q, DType::f32) : binary("aten.sub.Tensor", to(a.q, DType::f32), to(zero, DType::f32)),
          scale);
    return call("torchao.dequantize_affine.default", {{"input", maybe(a.q, 10)},
                                                      {"block_size", a.block},
                                                      {"scale", scale},
                                                      {"zero_point", zero},
                                                      {"input_dtype", DType::i8},
                                                      {"quant_min", Dim(-128)},
                                                      {"quant_max", Dim(127)},
                                                      {"output_dtype", dtype_}});
  }

  ValueId quantized_per_token() {
    const ValueId x = input(dtype_, rows_shape(k_));
    const auto chosen = call_all(one_in(2) ? "quantized_decomposed.choose_qparams_per_token.default"
                                           : "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
                                 {{"input", x}, {"dtype", DType::i8}});
    const Dim low(-128), high(127);
    const ValueId q = call("quantized_decomposed.quantize_per_token.default", {{"input", x},
                                                                               {"scales", chosen[0]},
                                                                               {"zero_points", chosen[1]},
                                                                               {"quant_min", low},
                                                                               {"quant_max", high},
                                                                               {"dtype", DType::i8}});
    return call("quantized_decomposed.dequantize_per_token.default", {{"input", q},
                                                                      {"scales", chosen[0]},
                                                                      {"zero_points", chosen[1]},
                                                                      {"quant_min", low},
                                                                      {"quant_max", high},
                                                                      {"dtype", DType::i8},
                                                                      {"output_dtype", dtype_}});
  }

  // With scales that nobody measured: powers of two, or numbers per row, per column or for all.
  ValueId statically_quantized() {
    const Shape shape = rows_shape(k_);
    const Dim low(-128), high(127);
    if (one_in(3)) {
      const double scale = one_of({0.0625, 0.25});
      const Dim zero(one_of<int64_t>({0, 0, 3, -7}));
      const ValueId q = call("quantized_decomposed.quantize_per_tensor.default", {{"input", input(dtype_, shape)},
                                                                                  {"scale", scale},
                                                                                  {"zero_point", zero},
                                                                                  {"quant_min", low},
                                                                                  {"quant_max", high},
                                                                                  {"dtype", DType::i8}});
      return call("quantized_decomposed.dequantize_per_tensor.default", {{"input", maybe(q, 8)},
                                                                         {"scale", scale},
                                                                         {"zero_point", zero},
                                                                         {"quant_min", low},
                                                                         {"quant_max", high},
                                                                         {"dtype", DType::i8}});
    }
    const ValueId q = maybe(input(one_of({DType::i8, DType::i8, DType::u8}), shape), 8);
    Shape per_row = with_last(shape, Dim(1)), block(shape.size(), Dim(1)), whole(1, Dim(1));
    block.back() = shape.back();
    const bool rows = one_in(2);
    const Shape many = rows ? one_of<Shape>({per_row, {product(per_row)}}) : whole;
    const bool fixed = constant_shape(many).has_value() && one_in(2);
    const ValueId zero = one_in(2) ? kNoValue
                         : fixed   ? integers(DType::i32, *constant_shape(many), -3, 3)
                                   : input(DType::i32, many);
    const ValueId scale = spelled(DType::f32, many, 0.01, fixed);
    return call("torchao.dequantize_affine.default", {{"input", q},
                                                      {"block_size", rows ? block : shape},
                                                      {"scale", scale},
                                                      {"zero_point", zero},
                                                      {"input_dtype", dtype_of(q)},
                                                      {"output_dtype", dtype_}});
  }

  // ---- weights ----

  // [N, K] codes as an exporter stores them.
  ValueId codes(DType dtype, const std::vector<int64_t>& shape) {
    const auto [low, high] = one_of<std::pair<int64_t, int64_t>>(
        {{-8, 7}, {-8, 7}, {0, 15}, {exact_ ? -30 : -128, exact_ ? 30 : 127}, {1, 1}, {0, 1}, {-2, 1}});
    return integers(dtype, shape, low, high);
  }

  ValueId affine_weight(int64_t n, int64_t k, DType d) {
    const int64_t group = some_group(k), block_rows = one_in(6) && n % 2 == 0 ? 2 : 1;
    const std::vector<int64_t> blocks = {n / block_rows, k / group};
    const DType dtype = one_of({DType::i8, DType::i8, DType::u8});
    const auto [low, high] =
        one_of<std::pair<Arg, Arg>>({{Arg(), Arg()}, {Arg(Dim(-8)), Arg(Dim(7))}, {Arg(Dim(0)), Arg(Dim(15))}});
    const DType zero = one_of({DType::i8, DType::i32, DType::f32});
    return call("torchao.dequantize_affine.default",
                {{"input", maybe(codes(dtype, {n, k}), 10)},
                 {"block_size", numbers({block_rows, group})},
                 {"scale", spelled(one_of({DType::f32, d}), {Dim(blocks[0]), Dim(blocks[1])}, 0.01, true)},
                 {"zero_point", one_in(2)   ? kNoValue
                                : one_in(6) ? reals(DType::f32, blocks, 1)
                                            : integers(zero, blocks, -2, 5)},
                 {"input_dtype", dtype},
                 {"quant_min", low},
                 {"quant_max", high},
                 {"output_dtype", one_of({d, d, DType::f32})}});
  }

  ValueId decomposed_weight(int64_t n, int64_t k, DType d) {
    const Dim low(-128), high(127);
    const bool by_column = one_in(2);
    const ValueId w = codes(DType::i8, by_column ? std::vector<int64_t>{k, n} : std::vector<int64_t>{n, k});
    if (one_in(3))
      return to(
          call("quantized_decomposed.dequantize_per_tensor.default", {{"input", by_column ? transpose(w) : w},
                                                                      {"scale", exact_ ? 0x1p-7 : 0.01},
                                                                      {"zero_point", Dim(one_of<int64_t>({0, 2}))},
                                                                      {"quant_min", low},
                                                                      {"quant_max", high},
                                                                      {"dtype", DType::i8}}),
          d);
    if (one_in(3)) {
      const int64_t group = some_group(k);
      return call("quantized_decomposed.dequantize_per_channel_group.default",
                  {{"input", by_column ? transpose(w) : w},
                   {"scales", reals(DType::f32, {n, k / group}, 0.01)},
                   {"zero_points", one_in(2) ? kNoValue : integers(DType::i32, {n, k / group}, -2, 2)},
                   {"quant_min", low},
                   {"quant_max", high},
                   {"dtype", DType::i8},
                   {"group_size", Dim(group)},
                   {"output_dtype", d}});
    }
    const bool columns = by_column != one_in(8);  // now and then the axis of K
    const int64_t axis = columns ? 1 : 0, count = shape_of(w)[static_cast<size_t>(axis)].constant();
    const ValueId out = call("quantized_decomposed.dequantize_per_channel.default",
                             {{"input", w},
                              {"scales", reals(DType::f32, {count}, 0.01)},
                              {"zero_points", one_in(2) ? kNoValue : integers(DType::i32, {count}, -2, 2)},
                              {"axis", Dim(axis)},
                              {"quant_min", low},
                              {"quant_max", high},
                              {"dtype", DType::i8}});
    return to(by_column ? transpose(out) : out, d);
  }

  // (codes - zero) * scale + offset by hand, in two axes or with groups in a third, the weight as [N, K] or [K, N].
  ValueId arithmetic_weight(int64_t n, int64_t k) {
    const bool turned = one_in(3);
    const int64_t group = some_group(k), rows = turned ? k : n, columns = turned ? n : k;
    const bool grouped = !turned && one_in(2);
    Shape shape = numbers({rows, columns});
    ValueId w = maybe(codes(one_of({DType::i8, DType::i8, DType::u8, DType::i32, DType::i64, DType::i16, DType::f32,
                                    DType::f8e4m3, DType::f8e5m2, half_}),
                            {rows, columns}));
    if (grouped) w = view(w, shape = numbers({n, k / group, group}));
    const auto term = [&](DType dtype, double unit) {
      return maybe(weight_term(shape, turned, group, dtype, unit), 8);
    };
    if (!is_floating(dtype_of(w)) && one_in(3))
      w = maybe(shifted(to(w, one_of({dtype_of(w), DType::i32})), term(one_of({DType::i32, DType::i8}), 1)), 4);
    const DType d = one_of({DType::f32, DType::f32, dtype_});
    w = maybe(to(maybe(w), d));
    if (one_in(3)) w = shifted(w, one_in(2) ? term(d, 1) : to(term(DType::i8, 1), d));
    w = one_in(4) ? binary("aten.div.Tensor", w, term(d, 64)) : commuted("aten.mul.Tensor", w, term(d, 0.01));
    if (one_in(4)) w = binary("aten.mul.Tensor", w, one_in(2) ? Arg(0.5) : Arg(term(d, 0.5)));
    if (one_in(5)) w = commuted("aten.add.Tensor", w, term(d, 0.02));
    w = maybe(w);
    if (grouped) w = view(w, numbers({n, k}));
    return turned ? transpose(w) : w;
  }
  ValueId shifted(ValueId w, ValueId by) {
    if (one_in(3))
      return one_in(2) ? binary("aten.sub.Tensor", w, Arg(Dim(8)))
                       : binary("aten.add.Tensor", w, Arg(Dim(one_of<int64_t>({-8, 3, exact_ ? 64 : 128}))));
    return one_in(2) ? binary("aten.sub.Tensor", w, by) : commuted("aten.add.Tensor", w, by);
  }
  // Usually a number per output channel or group, at times any that broadcast, and now and then with a size in it.
  ValueId weight_term(const Shape& shape, bool turned, int64_t group, DType dtype, double unit) {
    if (symbolic_ && one_in(30)) return binary("aten.mul.Tensor", operand(dtype, shape, unit / 16, true), Arg(m()));
    if (one_in(5)) return operand(dtype, shape, unit, true);
    if (shape.size() == 3) return spelled(dtype, {shape[0], one_in(4) ? Dim(1) : shape[1], Dim(1)}, unit, true);
    if (turned) return spelled(dtype, one_in(2) ? Shape{shape[1]} : Shape{Dim(1), shape[1]}, unit, true);
    if (one_in(2)) return spelled(dtype, {shape[0], Dim(1)}, unit, true);
    const ValueId groups = spelled(dtype, {shape[0], Dim(shape[1].constant() / group)}, unit, true);
    if (one_in(2))
      return call("aten.repeat_interleave.self_int", {{"self", groups}, {"repeats", Dim(group)}, {"dim", Dim(1)}});
    const Shape blocks = joined(shape_of(groups), Dim(group));
    return view(expand(call("aten.unsqueeze.default", {{"self", groups}, {"dim", Dim(-1)}}), blocks), shape);
  }

  ValueId four_bits(int64_t n, int64_t k, DType d) {
    if (k % 2 != 0) throw Refused{};
    const std::string format = one_of({"mxfp4", "nvfp4", exact_ ? "nvfp4" : "nf4"});
    const int64_t group = format == "mxfp4" ? 32 : format == "nvfp4" ? 16 : 64, groups = (k + group - 1) / group;
    const ValueId scales =
        format == "mxfp4" ? integers(DType::u8, {n, groups}, 118, 122) : reals(DType::f32, {n, groups}, 0.1);
    return call("qcg.dequantize_4bit", {{"packed", integers(DType::u8, {n, k / 2}, 0, 255)},
                                        {"scales", scales},
                                        {"format", format},
                                        {"shape", numbers({n, k})},
                                        {"global_scale", format == "nvfp4" ? reals(DType::f32, {1}, 0.5) : kNoValue},
                                        {"dtype", d}});
  }

  const int64_t most_rows_;  // that s0 stands for
  int64_t m_, n_, k_;
  bool symbolic_;
  DType dtype_;  // of activations
};

}  // namespace qcg
