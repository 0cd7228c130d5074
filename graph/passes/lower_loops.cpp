// lower_loops: every pointwise operation that no linear took becomes a qcg.loop of one expression.
//
//   %y = aten.gelu(%x, approximate = "tanh")   ->   %y = qcg.loop([%x], [gelu_tanh(in0)])
//
// Why here: after fold_epilogue, which gets the first pick; the planner then knows one kind of pointwise work, printed by
// the same expression printer as epilogues.
#include "graph/passes/pass_list.h"
#include "graph/passes/pointwise.h"
#include "graph/passes/rewrite.h"

namespace qcg {

Status lower_loops(Graph& graph, PassContext& context) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.op->role == OpRole::internal) continue;
    auto pointwise = as_pointwise(graph, node);
    if (!pointwise) continue;
    const DType dtype = graph.value(node.outputs[0]).dtype;
    Expr expr = simplify(pointwise->expr, /*keep_casts=*/true);
    // A floating output rounds when it is stored; casts to integers truncate and stay.
    if (expr.kind == ExprKind::cast && expr.dtype == dtype && is_floating(dtype)) expr = Expr(expr.args[0]);
    const std::string was = node.op->name;
    if ((dtype == DType::i32 || dtype == DType::i64) && was != "aten.to.dtype")
      context.report.notes.push_back((node.origins.empty() ? was : node.origins.back()) + " computes integers in f32: exact below 2^24");
    replace_node(graph, id, "qcg.loop", {pointwise->operands, std::vector<Expr>{std::move(expr)}});
    ++context.report.fired;
    ++context.report.counters[was];
  }
  return {};
}

}  // namespace qcg
