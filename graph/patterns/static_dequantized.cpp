// static_dequantized: both operands dequantized around a float linear, the activation with a scale that nobody measured
// from its rows, as PyTorch 2 Export's static (and its own dynamic) quantization has it.
//
//   %xd     = torchao.dequantize_affine(%xq, block_size = all of %xq, @s, @z)     one scale for all rows
//   %wd     = torchao.dequantize_affine(@w, block_size = [1, K], @scale)
//   %linear = aten.linear(%xd, %wd)
//
// %xq may come from anywhere. Its scale may also be computed at run time, one element or one per row.
#include "graph/patterns/dequantized_weight.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern static_dequantized_pattern() {
  return gemm(maybe_rows(op({"torchao.dequantize_affine.default"}, {{"input", any("q")}}, "x_dequantized")), any("w"));
}

// One element, or one per row in the shape qcg.linear wants.
bool fits_rows(const Graph& graph, ValueId id, const Shape& x, bool per_row) {
  const Shape& shape = graph.value(id).shape;
  Shape rows = x;
  rows.back() = Dim(1);
  return product(shape).is_constant(1) || (per_row && shape == rows);
}

std::optional<std::string> take_activation(Graph& graph, const Node& dequantize, LinearSpec& spec) {
  spec.x = dequantize.tensor("input");
  spec.x_scale = dequantize.tensor("scale");
  spec.x_zero = dequantize.tensor("zero_point");
  const DType dtype = graph.value(spec.x).dtype;
  const Shape shape = graph.value(spec.x).shape;
  if (dtype != DType::i8 && dtype != DType::u8)
    return "the activation is " + std::string(dtype_name(dtype)) + ", not an 8-bit integer";
  if (is_parameter(graph, spec.x)) return "the left operand is a weight; only x times weight is a linear";
  const bool per_row = is_row_block(graph, dequantize);
  if (!per_row && *dequantize.arg("block_size").get<std::vector<Dim>>() != shape)
    return "the activation's scales are neither one for all nor one per row";
  if (is_parameter(graph, spec.x_scale)) spec.x_scale = cast_parameter(graph, spec.x_scale, DType::f32);
  if (graph.value(spec.x_scale).dtype != DType::f32) return "the activation's scale is not f32";
  if (!fits_rows(graph, spec.x_scale, shape, per_row))
    return "the activation's scales have another shape than its rows";
  if (spec.x_zero == kNoValue) return std::nullopt;
  if (is_parameter(graph, spec.x_zero) && is_all_zero(graph, spec.x_zero)) {
    spec.x_zero = kNoValue;
    return std::nullopt;
  }
  if (is_floating(graph.value(spec.x_zero).dtype)) return "the activation's zero point is not an integer";
  if (is_parameter(graph, spec.x_zero)) spec.x_zero = cast_parameter(graph, spec.x_zero, DType::i32);
  if (graph.value(spec.x_zero).dtype != DType::i32) return "the activation's zero point is not i32";
  if (!fits_rows(graph, spec.x_zero, shape, per_row))
    return "the activation's zero points have another shape than its rows";
  return std::nullopt;
}

Outcome build_static_dequantized(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  const Node x_dequantize = *producer_of(graph, m.value("x_dequantized"));
  LinearSpec spec;
  if (auto missing = take_activation(graph, x_dequantize, spec)) return Outcome::miss(*missing);
  if (!(graph.value(spec.x).shape.back() == graph.value(gemm.x).shape.back()))
    return Outcome::miss("the rows were cut or joined");
  if (auto missing = take_integer_weight(graph, gemm.w, gemm.weight_kn, spec)) return Outcome::miss(*missing);
  if (auto missing = add_gemm_bias(graph, gemm, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kStaticDequantized = {"int8 activation, dequantized", static_dequantized_pattern,
                                       build_static_dequantized};

}  // namespace qcg
