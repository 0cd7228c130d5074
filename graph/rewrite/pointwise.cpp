#include "graph/rewrite/pointwise.h"

#include "graph/ops/op_table.h"
#include "graph/ops/steps.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Expr shifted(std::string_view function, Expr x, double zero) {
  return zero == 0 ? x : Expr::call(function, {std::move(x), Expr::number(zero)});
}

std::optional<Pointwise> quantize_per_tensor(const Graph& graph, const Node& node) {
  const double inverse = static_cast<float>(1 / *as_number(node.arg("scale")));
  const auto low = as_number(node.arg("quant_min")), high = as_number(node.arg("quant_max"));
  if (!low || !high) return std::nullopt;
  Expr q = Expr::call("round_even", {Expr::call("mul", {Expr::in(0), Expr::number(inverse)})});
  q = shifted("add", std::move(q), *as_number(node.arg("zero_point")));
  q = Expr::call("clamp", {std::move(q), Expr::number(*low), Expr::number(*high)});
  return Pointwise{Expr::cast(graph.value(node.outputs[0]).dtype, std::move(q)), {node.tensor("input")}};
}

// With one constant scale for the whole tensor. Other dequantizations need their shape looked at (decompose).
std::optional<Pointwise> dequantize(const Graph& graph, const Node& node) {
  const auto* block = node.arg("block_size").get<std::vector<Dim>>();
  const ValueId zero = node.tensor("zero_point");
  const auto scale = constant_number(graph, node.tensor("scale"));
  const auto shift = zero == kNoValue ? std::optional(0.0) : constant_number(graph, zero);
  if (!block || *block != graph.value(node.tensor("input")).shape || !scale || !shift) return std::nullopt;
  return Pointwise{Expr::call("mul", {shifted("sub", Expr::in(0), *shift), Expr::number(*scale)}),
                   {node.tensor("input")}};
}

}  // namespace

bool is_call(const Expr& expr, std::string_view function) {
  return expr.kind == ExprKind::call && expr.function == function;
}

std::optional<Pointwise> as_pointwise(const Graph& graph, const Node& node) {
  if (is_op(node, "quantized_decomposed.quantize_per_tensor.default")) return quantize_per_tensor(graph, node);
  if (is_op(node, "torchao.dequantize_affine.default")) return dequantize(graph, node);
  FormulaReader reader;
  reader.uniform = [&](ValueId id) {
    const Node* expand = producer_if(graph, id, "aten.expand.default");
    return expand ? constant_number(graph, expand->tensor("self")) : std::nullopt;
  };
  return read_formula(graph, node, reader);
}

std::optional<Pointwise> as_elementwise(const Graph& graph, const Node& node) {
  auto pointwise = as_pointwise(graph, node);
  if (pointwise && !pointwise->expr.leaves(ExprKind::pos).empty()) pointwise.reset();
  return pointwise;
}

void fit_block_size(const Graph& graph, Node& node) {
  if (!is_op(node, "torchao.dequantize_affine.default")) return;
  const Shape& shape = graph.value(node.tensor("input")).shape;
  node.args[static_cast<size_t>(node.op->arg_index("block_size"))] = std::vector<Dim>(shape.begin(), shape.end());
}

Shape shape_beyond(const Graph& graph, const std::vector<ValueId>& operands, const Shape& result) {
  Shape spanned;
  for (ValueId id : operands) spanned = broadcast_shapes(spanned, graph.value(id).shape).value_or(Shape());
  return spanned == result ? Shape() : result;
}

Expr substitute_inputs(const Expr& expr, std::span<const Expr> with) {
  return expr.map_leaves(
      [&](const Expr& leaf) { return leaf.kind == ExprKind::in ? with[static_cast<size_t>(leaf.index)] : leaf; });
}

Expr renumber(const Expr& expr, std::span<const int> acc_map, std::span<const int> in_map) {
  return expr.map_leaves([&](Expr leaf) {
    if (leaf.kind != ExprKind::acc && leaf.kind != ExprKind::in) return leaf;
    const auto& map = leaf.kind == ExprKind::acc ? acc_map : in_map;
    leaf.index = map[static_cast<size_t>(leaf.index)];
    return leaf;
  });
}

Expr simplify(Expr out, DType result, bool keep_casts) {
  const bool step = is_step(out);
  for (Expr& arg : out.args) arg = simplify(std::move(arg), result, keep_casts || step);
  if (out.kind == ExprKind::cast) {
    Expr& inner = out.args[0];
    if (inner.kind == ExprKind::cast && inner.dtype == out.dtype) return Expr(std::move(inner));
    const bool shows = is_floating(result) && dtype_bytes(out.dtype) < dtype_bytes(result);
    if (!keep_casts && !shows && is_floating(out.dtype) && !is_float8(out.dtype)) return Expr(std::move(inner));
  }
  if (is_call(out, "mul")) {
    const Expr &a = out.args[0], &b = out.args[1];
    if (is_call(b, "sigmoid") && b.args[0] == a) return Expr::call("silu", {a});
    if (is_call(a, "sigmoid") && a.args[0] == b) return Expr::call("silu", {b});
  }
  return out;
}

}  // namespace qcg
