// fold_windows: the loop that reads windows that slide moves into their kernel.
//
//   %w = qcg.windows(%x, @k, op = "product", …)
//   %y = qcg.loop([%w, @a, @b], [relu(add(mul(in0, in1), in2))])
//                               ->  %y = qcg.windows(%x, @k, …, operands = [@a, @b], epilogue = [relu(add(mul(acc0, in0), in1))])
//
// The loop is the only reader of the windows, computes in f32, reads floats and gives one floating result of their shape.
// A result of windows that has 16 bits is still rounded to them, so that the bits of y stay the same.
//
// Gates: epilogue_max_operands, epilogue_max_nodes, as for epilogues of linears.
//
// Why here: behind fuse_loops, so that bias, normalization and activation are one loop; before fuse_rows, which takes
// loops that reductions read.
#include <algorithm>

#include "graph/ops/op_table.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/pointwise.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

using Ids = std::vector<ValueId>;
using Exprs = std::vector<Expr>;

struct SlidEpilogue {
  Expr expr;
  Ids operands;
};

// The loop's expression of what the windows give.
SlidEpilogue as_epilogue(const Graph& graph, ValueId windows, const Node& loop) {
  SlidEpilogue out;
  const DType dtype = graph.value(windows).dtype;
  std::vector<Expr> with;
  for (const ValueId id : *loop.arg("operands").get<Ids>()) {
    if (id == windows) {
      with.push_back(is_half(dtype) ? Expr::cast(dtype, Expr::acc(0)) : Expr::acc(0));
      continue;
    }
    const auto it = std::ranges::find(out.operands, id);
    with.push_back(Expr::in(static_cast<int>(it - out.operands.begin())));
    if (it == out.operands.end()) out.operands.push_back(id);
  }
  out.expr = substitute_inputs((*loop.arg("exprs").get<Exprs>())[0], with);
  return out;
}

bool has_same_elements(const Graph& graph, ValueId windows, const Node& loop) {
  const Value &from = graph.value(windows), &to = graph.value(loop.outputs[0]);
  return from.shape == to.shape && is_compute_float(from.dtype) && is_compute_float(to.dtype);
}

bool computes_floats(const Graph& graph, const Node& loop) {
  return loop.outputs.size() == 1 && *loop.arg("arithmetic").get<DType>() == DType::f32 &&
         loop.arg("sizes").get<std::vector<Dim>>()->empty() &&
         (*loop.arg("exprs").get<Exprs>())[0].leaves(ExprKind::pos).empty() &&
         std::ranges::all_of(*loop.arg("operands").get<Ids>(),
                             [&](ValueId id) { return is_compute_float(graph.value(id).dtype); });
}

bool is_within(const PassGates& gates, const SlidEpilogue& e) {
  return static_cast<int64_t>(e.operands.size()) <= gates.epilogue_max_operands &&
         e.expr.count_nodes() <= gates.epilogue_max_nodes;
}

}  // namespace

Status fold_windows(Graph& graph, PassContext& context) {
  const Readers readers(graph);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node windows = graph.nodes[id];
    if (!is_op(windows, "qcg.windows") || !windows.arg("epilogue").get<Exprs>()->empty()) continue;
    const ValueId slid = windows.outputs[0];
    const auto& all = readers.of(slid);
    if (all.empty() || readers.is_returned(slid) || std::ranges::count(all, all[0]) != std::ssize(all)) continue;
    const Node& loop = graph.nodes[all[0]];
    if (!is_op(loop, "qcg.loop") || !has_same_elements(graph, slid, loop) || !computes_floats(graph, loop)) continue;
    SlidEpilogue e = as_epilogue(graph, slid, loop);
    if (!is_within(context.options.gates, e)) continue;
    std::vector<Arg> args = windows.args;
    args[static_cast<size_t>(windows.op->arg_index("operands"))] = std::move(e.operands);
    args[static_cast<size_t>(windows.op->arg_index("epilogue"))] = Exprs{std::move(e.expr)};
    args[static_cast<size_t>(windows.op->arg_index("dtype"))] = graph.value(loop.outputs[0]).dtype;
    std::vector<std::string> origins = join_origins(windows.origins, loop.origins);
    replace_node(graph, all[0], windows.op, std::move(args));
    graph.nodes[all[0]].origins = std::move(origins);
    ++context.report.fired;
  }
  graph.remove_dead();
  return {};
}

}  // namespace qcg
