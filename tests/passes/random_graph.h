// Random graphs of linears, concatenations and pointwise operations over f32 rows; some linears have quantized rows.
//
// Why here: the passes must keep their values (tests/passes), and compiled programs must give them
// (tests/random_programs).
//
//   Graph graph = RandomGraph(seed).build(12);           // 12 steps; the same seed gives the same graph
#pragma once

#include <random>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/op_table.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

// Grows a graph in which everything is [s0, width]: values of one width can be added, all can be concatenated and
// multiplied by weights.
class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed, int64_t m_min = 1, int64_t m_max = 64) : random_(seed) {
    graph_.symbols.push_back({"s0", m_min, m_max});
    for (int i = 0; i < 3; ++i) {
      const int64_t width = widths_[random_() % widths_.size()];
      values_.push_back(graph_.add_input("x" + std::to_string(i), DType::f32, {Dim::symbol("s0"), Dim(width)}));
    }
  }

  Graph build(int steps) {
    for (int i = 0; i < steps; ++i) step();
    for (int i = 0; i < 3; ++i)
      graph_.outputs.push_back(values_[values_.size() - 1 - random_() % (values_.size() / 2)]);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) graph_.output_names.push_back("out" + std::to_string(i));
    return std::move(graph_);
  }

 private:
  ValueId pick() { return values_[values_.size() - 1 - random_() % std::min<size_t>(values_.size(), 6)]; }
  int64_t width(ValueId id) const { return graph_.value(id).shape.back().constant(); }

  ValueId node(std::string_view op, std::vector<Arg> args, int64_t width, DType dtype = DType::f32, Shape shape = {}) {
    Value out;
    out.name = graph_.unique_name("v");
    out.dtype = dtype;
    out.shape = shape.empty() ? Shape{Dim::symbol("s0"), Dim(width)} : shape;
    return graph_.nodes[graph_.add_node(find_op(op), std::move(args), {out})].outputs[0];
  }
  ValueId parameter(DType dtype, std::vector<int64_t> shape) {
    Tensor t;
    t.dtype = dtype;
    t.strides = Tensor::row_major_strides(shape);
    t.shape = std::move(shape);
    return graph_.add_parameter(graph_.unique_name("p"), std::move(t));
  }

  void step() {
    switch (random_() % 12) {
      case 0:
      case 1: return add_siblings();
      case 2: return add_cat();
      case 3:
      case 4: return add_unary();
      case 5:
      case 6: return add_binary();
      case 7: return add_dynamic();
      case 8: return add_static_chain();
      case 9: return add_row_and_column();
      case 10: return add_positions();
      default: return add_residual();
    }
  }

  // What reads where elements stand, how many rows there are, or what stood before them.
  void add_positions() {
    const ValueId x = pick();
    const int64_t n = width(x);
    switch (random_() % 4) {
      case 0: return values_.push_back(node("aten.triu.default", {x, Dim(static_cast<int64_t>(random_() % 9) - 4)}, n));
      case 1: return values_.push_back(node("aten.div.Scalar", {x, Dim::symbol("s0") + Dim(1)}, n));
      case 2: {
        const ValueId sum = node("aten.cumsum.default", {x, Dim(static_cast<int64_t>(random_() % 2)), Arg()}, n);
        return values_.push_back(node("aten.mul.Scalar", {sum, 0.125}, n));
      }
      default: {
        const Dim rows = Dim::symbol("s0");
        const Shape column = {rows, Dim(1)}, both = {rows, Dim(n)};
        const ValueId i = node("aten.arange.default", {rows, Arg(), Arg(), Arg(), Arg()}, 0, DType::i64, {rows});
        const ValueId j = node("aten.arange.default", {Dim(n), Arg(), Arg(), Arg(), Arg()}, 0, DType::i64, {Dim(n)});
        const ValueId at = node("aten.unsqueeze.default", {i, Dim(1)}, 0, DType::i64, column);
        const ValueId mask = node("aten.le.Tensor", {j, at}, n, DType::boolean, both);
        return values_.push_back(node("aten.where.ScalarOther", {mask, x, 0.5}, n));
      }
    }
  }

  void add_siblings() {
    const ValueId x = pick();
    const int count = 1 + static_cast<int>(random_() % 3), scheme = static_cast<int>(random_() % 4);
    for (int i = 0; i < count; ++i) values_.push_back(add_linear(x, scheme, widths_[random_() % widths_.size()]));
  }

  ValueId add_linear(ValueId x, int scheme, int64_t n) {
    const int64_t k = width(x);
    const ValueId bias = random_() % 2 ? parameter(DType::f32, {n}) : kNoValue;
    if (scheme == 0) return node("aten.linear.default", {x, parameter(DType::f32, {n, k}), bias}, n);
    const ValueId w = scheme == 3 ? float8_weight(n, k) : integer_weight(n, k, scheme == 2);
    return node("aten.linear.default", {x, w, bias}, n);
  }

  ValueId integer_weight(int64_t n, int64_t k, bool int4) {
    const int64_t group = int4 ? k / 2 : k;
    const ValueId zero = random_() % 2 ? parameter(DType::i8, {n, k / group}) : kNoValue;
    const ValueId w = parameter(DType::i8, {n, k}), s = parameter(DType::f32, {n, k / group});
    const Dim low = int4 ? -8 : -128, high = int4 ? 7 : 127;
    return node("torchao.dequantize_affine.default",
                {w, std::vector<Dim>{Dim(1), Dim(group)}, s, zero, DType::i8, low, high}, k, DType::f32,
                {Dim(n), Dim(k)});
  }

  ValueId float8_weight(int64_t n, int64_t k) {
    const ValueId w = parameter(random_() % 2 ? DType::f8e4m3 : DType::f8e5m2, {n, k}),
                  s = parameter(DType::f32, {n, 1});
    const Shape shape = {Dim(n), Dim(k)};
    return node("aten.mul.Tensor", {node("aten.to.dtype", {w, DType::f32}, k, DType::f32, shape), s}, k, DType::f32,
                shape);
  }

  // Rows of an input of the graph, so that what is rounded to int8 is the same numbers in any order of operations.
  void add_dynamic() {
    const ValueId x = values_[random_() % 3];
    const int64_t k = width(x);
    const Shape block = {Dim(1), Dim(k)}, rows = {Dim::symbol("s0"), Dim(1)};
    const OpSchema* choose = find_op("torchao.choose_qparams_affine.default");
    const std::string mapping = random_() % 2 ? "SYMMETRIC" : "ASYMMETRIC";
    Value scale, zero;
    scale.name = graph_.unique_name("scale"), zero.name = graph_.unique_name("zero");
    scale.shape = zero.shape = rows;
    scale.dtype = DType::f32, zero.dtype = DType::i8;
    const NodeId chosen = graph_.add_node(choose,
                                          make_args(*choose, {{"input", x},
                                                              {"mapping_type", mapping},
                                                              {"block_size", block},
                                                              {"target_dtype", DType::i8},
                                                              {"eps", 0x1p-23},
                                                              {"scale_dtype", DType::f32},
                                                              {"zero_point_dtype", DType::i8},
                                                              {"keepdim", true}}),
                                          {scale, zero});
    const ValueId s = graph_.nodes[chosen].outputs[0], z = graph_.nodes[chosen].outputs[1];
    const ValueId q = node("torchao.quantize_affine.default", {x, block, s, z, DType::i8}, k, DType::i8);
    const ValueId d = node("torchao.dequantize_affine.default", {q, block, s, z, DType::i8}, k);
    const bool int4 = random_() % 2;
    for (uint64_t i = 0, count = 1 + random_() % 2; i < count; ++i) {
      const int64_t n = widths_[random_() % widths_.size()];
      values_.push_back(node("aten.linear.default", {d, integer_weight(n, k, int4)}, n));
    }
  }

  // PyTorch 2 Export's static quantization, int8 between two linears. All scales are powers of two and nothing is
  // added, so that the numbers that are rounded to int8 in between are exact in f32.
  void add_static_chain() {
    ValueId x = values_[random_() % 3];
    for (const double scale : {0.0625, 0.25}) {
      const int64_t k = width(x), n = widths_[random_() % widths_.size()];
      const Dim zero(static_cast<int64_t>(random_() % 3) * 20 - 20), low(-128), high(127);
      const ValueId q = node("quantized_decomposed.quantize_per_tensor.default", {x, scale, zero, low, high, DType::i8},
                             k, DType::i8);
      const ValueId d =
          node("quantized_decomposed.dequantize_per_tensor.default", {q, scale, zero, low, high, DType::i8}, k);
      const ValueId w =
          node("quantized_decomposed.dequantize_per_tensor.default",
               {parameter(DType::i8, {n, k}), 0x1p-7, Dim(0), low, high, DType::i8}, k, DType::f32, {Dim(n), Dim(k)});
      x = node("aten.linear.default", {d, w}, n);
    }
    values_.push_back(x);
  }

  void add_cat() {
    std::vector<ValueId> parts;
    int64_t total = 0;
    for (size_t i = 0, count = 2 + random_() % 3; i < count; ++i) {
      parts.push_back(pick());
      total += width(parts.back());
    }
    if (total > 128) return;
    const Dim axis = random_() % 2 ? Dim(1) : Dim(-1);
    const ValueId cat = node("aten.cat.default", {parts, axis}, total);
    values_.push_back(add_linear(cat, static_cast<int>(random_() % 2), widths_[random_() % widths_.size()]));
    if (random_() % 4 == 0) values_.push_back(cat);
  }

  void add_unary() {
    static constexpr std::string_view kOps[] = {"aten.relu.default",    "aten.silu.default", "aten.tanh.default",
                                                "aten.sigmoid.default", "aten.neg.default",  "aten.gelu.default"};
    const ValueId x = pick();
    values_.push_back(node(kOps[random_() % std::size(kOps)], {x}, width(x)));
  }

  void add_binary() {
    const ValueId a = pick(), b = pick();
    if (width(a) != width(b)) return;
    values_.push_back(random_() % 2 ? node("aten.mul.Tensor", {a, b}, width(a))
                                    : node("aten.sub.Tensor", {a, b}, width(a)));
  }

  // The first row beside every row, and one number per row beside siblings of which one has a single column.
  void add_row_and_column() {
    const ValueId x = pick();
    const int64_t k = width(x), n = widths_[random_() % widths_.size()];
    const ValueId row = node("aten.slice.Tensor", {x, Dim(0), Dim(0), Dim(1)}, k, DType::f32, {Dim(1), Dim(k)});
    const ValueId every = node("aten.expand.default", {row, Shape{Dim::symbol("s0"), Dim(k)}}, k);
    values_.push_back(random_() % 2 ? node("aten.add.Tensor", {x, every}, k) : every);
    const ValueId g = node("aten.slice.Tensor", {values_[random_() % 3], Dim(1), Dim(0), Dim(1)}, 1);
    const ValueId wide = node("aten.mul.Tensor", {add_linear(x, 0, n), g}, n),
                  column = node("aten.mul.Tensor", {add_linear(x, 0, 1), g}, 1);
    values_.push_back(node("aten.add.Tensor", {wide, column}, n));
  }

  void add_residual() {
    const ValueId x = pick();
    const int64_t n = width(x);
    if (random_() % 2) {
      values_.push_back(node("aten.add.Tensor", {x, parameter(DType::f32, {n})}, n));
      return;
    }
    const Dim axis(1), start(0), end(n);
    const ValueId whole = node("aten.slice.Tensor", {x, axis, start, end}, n);
    const Shape cube = {Dim(1), Dim::symbol("s0"), Dim(n)};
    const ValueId view = node("aten.unsqueeze.default", {whole, Dim(0)}, n, DType::f32, cube);
    const ValueId y = node("aten.relu.default", {view}, n, DType::f32, cube);
    values_.push_back(node("aten.reshape.default", {y, Shape{Dim::symbol("s0"), Dim(n)}}, n));
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<ValueId> values_;
  std::vector<int64_t> widths_ = {8, 16, 24};
};

}  // namespace qcg
