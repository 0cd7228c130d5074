// lower_loops: every pointwise operation that no linear took becomes a qcg.loop of one expression.
//
//   %y = aten.gelu(%x, approximate = "tanh")   ->   %y = qcg.loop([%x], [gelu_tanh(in0)])
//   %i = aten.arange(end = s0)                 ->   %i = qcg.loop([], [pos0], shape = [s0])
//   %z = aten.div(%x, 2*s0)                    ->   %z = qcg.loop([%x], [div(in0, size0)], sizes = [2*s0])
//
// Integers of integers are computed as integers, which f32 holds only to 2^24; what integers have no function for is
// refused. What torch computes in f64 is computed in f64, but for functions that kernels have in f32 alone.
//
// Why here: after fold_epilogue, which gets the first pick; the planner then knows one kind of pointwise work, printed
// by the same expression printer as epilogues.
#include <algorithm>

#include "graph/passes/pass_list.h"
#include "graph/rewrite/pointwise.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

bool all_integers(const Graph& graph, const std::vector<ValueId>& operands) {
  return std::none_of(operands.begin(), operands.end(), [&](ValueId id) { return is_floating(graph.value(id).dtype); });
}

// Operations, unlike casts, quantizations and comparisons, of which a float is not the exact result.
bool needs_integers(const Node& node, DType dtype) {
  return !is_floating(dtype) && dtype != DType::boolean && node.op->role != OpRole::quantize &&
         !is_op(node, "aten.to.dtype");
}

// As torch promotes: an f64 tensor without axes does not make floats with axes f64.
bool is_of_f64(const Graph& graph, const Node& node, const std::vector<ValueId>& operands) {
  const DType result = graph.value(node.outputs[0]).dtype;
  if (result == DType::f64) return true;
  if (node.op->role == OpRole::quantize || (is_floating(result) && !is_op(node, "aten.to.dtype"))) return false;
  bool f64 = false, numbers = false, others = false;
  for (ValueId id : operands) {
    const Value& v = graph.value(id);
    if (v.dtype == DType::f64) (v.shape.empty() ? numbers : f64) = true;
    else if (is_floating(v.dtype) && !v.shape.empty()) others = true;
  }
  return f64 || (numbers && !others);
}

DType arithmetic_of(const Graph& graph, const Node& node, const Expr& expr, const std::vector<ValueId>& operands) {
  if (!is_floating(graph.value(node.outputs[0]).dtype) && all_integers(graph, operands) && expr.is_integer())
    return DType::i64;
  return is_of_f64(graph, node, operands) && expr.has_f64() ? DType::f64 : DType::f32;
}

}  // namespace

Status lower_loops(Graph& graph, PassContext& context) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.op->role == OpRole::internal) continue;
    auto pointwise = as_pointwise(graph, node);
    if (!pointwise) continue;
    const DType dtype = graph.value(node.outputs[0]).dtype;
    Expr expr = simplify(pointwise->expr, dtype, /*keep_casts=*/true);
    // A floating output rounds when it is stored; casts to integers truncate and stay.
    if (expr.kind == ExprKind::cast && expr.dtype == dtype && is_floating(dtype)) expr = Expr(expr.args[0]);
    Shape shape = shape_beyond(graph, pointwise->operands, graph.value(node.outputs[0]).shape);
    const DType arithmetic = arithmetic_of(graph, node, expr, pointwise->operands);
    if (arithmetic != DType::i64 && needs_integers(node, dtype))
      return Error::unsupported(node.where,
                                node.op->name + " of " + std::string(dtype_name(dtype)) + " has no exact kernel",
                                "cast to f32 before it, or keep to sums, products, minima and maxima");
    const std::string was = node.op->name;
    replace_node(
        graph, id, "qcg.loop",
        {pointwise->operands, std::vector<Expr>{std::move(expr)}, arithmetic, pointwise->sizes, std::move(shape)});
    ++context.report.fired;
    ++context.report.counters[was];
  }
  return {};
}

}  // namespace qcg
