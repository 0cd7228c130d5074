// fuse_loops: a loop that only another loop of the same shape reads is computed inside it.
//
//   %a = qcg.loop([%x, %y], [add(in0, in1)])
//   %b = qcg.loop([%a], [relu(in0)])            ->   %b = qcg.loop([%x, %y], [relu(add(in0, in1))])
//
// Intermediates are not rounded, unless they have fewer bits than the result, decide a step (graph/ops/steps.h: a
// quantization, its scale or zero point) or --emulate-precision-casts asks for it; integer intermediates always keep
// their cast, which truncates, and loops over integers fuse only among themselves. Gates: epilogue_max_nodes and
// epilogue_max_operands, as for epilogues.
//
// Why last but for dce: it needs every pointwise op to be a loop already.
#include <algorithm>

#include "graph/ops/steps.h"
#include "graph/passes/pass_list.h"
#include "graph/passes/pointwise.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

using Ids = std::vector<ValueId>;
using Exprs = std::vector<Expr>;

class LoopFuser {
 public:
  LoopFuser(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), decides_step_(find_step_inputs(graph)), readers_(graph) {}

  Status run() {
    // Forward: when a loop is reached, the loops before it hold their chains already.
    for (NodeId id = 0; id < graph_.nodes.size(); ++id)
      if (is_op(graph_.nodes[id], "qcg.loop"))
        while (fuse_one(id)) {
        }
    graph_.remove_dead();
    return {};
  }

 private:
  bool ends_in_step(const Node& loop) const {
    return std::any_of(loop.outputs.begin(), loop.outputs.end(),
                       [&](ValueId id) { return decides_step_[id] || is_code(graph_.value(id).dtype); });
  }

  bool fuse_one(NodeId id) {
    const Node& loop = graph_.nodes[id];
    const Ids operands = *loop.arg("operands").get<Ids>();
    // Fusing takes one operand away at most.
    if (static_cast<int64_t>(operands.size()) > context_.options.gates.epilogue_max_operands + 1) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Node* inner = producer_if(graph_, operands[i], "qcg.loop");
      if (!inner || inner->outputs.size() != 1 || readers_.uses()[operands[i]] != 1) continue;
      if (!(inner->arg("integers") == loop.arg("integers"))) continue;
      if (graph_.value(operands[i]).shape != graph_.value(loop.outputs[0]).shape) continue;
      if (fuse(id, i, *inner)) return true;
    }
    return false;
  }

  bool fuse(NodeId id, size_t position, const Node& inner) {
    Node& loop = graph_.nodes[id];
    const Ids outer_operands = *loop.arg("operands").get<Ids>(), inner_operands = *inner.arg("operands").get<Ids>();
    Ids operands;
    auto in = [&](ValueId value) {
      auto it = std::find(operands.begin(), operands.end(), value);
      if (it == operands.end()) it = operands.insert(operands.end(), value);
      return Expr::in(static_cast<int>(it - operands.begin()));
    };
    Exprs inner_ins, outer_ins;
    for (ValueId value : inner_operands) inner_ins.push_back(in(value));
    const DType dtype = graph_.value(inner.outputs[0]).dtype;
    const Exprs outer = *loop.arg("exprs").get<Exprs>();
    const bool keep_casts = context_.options.emulate_precision_casts || ends_in_step(loop);
    Expr value = substitute_inputs((*inner.arg("exprs").get<Exprs>())[0], inner_ins);
    if (dtype != DType::f32) value = Expr::cast(dtype, std::move(value));
    for (size_t i = 0; i < outer_operands.size(); ++i)
      outer_ins.push_back(i == position ? value : in(outer_operands[i]));
    Exprs exprs;
    for (size_t i = 0; i < outer.size(); ++i)
      exprs.push_back(
          simplify(substitute_inputs(outer[i], outer_ins), graph_.value(loop.outputs[i]).dtype, keep_casts));
    const PassGates& gates = context_.options.gates;
    if (static_cast<int64_t>(operands.size()) > gates.epilogue_max_operands) return false;
    for (const Expr& expr : exprs)
      if (expr.count_nodes() > gates.epilogue_max_nodes) return false;
    loop.origins = join_origins(inner.origins, loop.origins);
    const NodeId gone = graph_.value(outer_operands[position]).producer;
    readers_.remove(id);
    readers_.remove(gone);
    loop.arg("operands") = std::move(operands);
    graph_.nodes[gone].arg("operands") = Ids{};  // dead: it must not count as a reader of its operands
    readers_.add(id);
    loop.arg("exprs") = std::move(exprs);
    ++context_.report.fired;
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<bool> decides_step_;  // by value
  Readers readers_;
};

}  // namespace

Status fuse_loops(Graph& graph, PassContext& context) { return LoopFuser(graph, context).run(); }

}  // namespace qcg
