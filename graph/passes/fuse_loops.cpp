// fuse_loops: a loop that only another loop of the same shape reads is computed inside it.
//
//   %a = qcg.loop([%x, %y], [add(in0, in1)])
//   %b = qcg.loop([%a], [relu(in0)])            ->   %b = qcg.loop([%x, %y], [relu(add(in0, in1))])
//
// One that reads no tensor is computed inside all loops that read it, through views too (loop_positions.h):
//
//   %i = qcg.loop([], [pos0], shape = [s0])
//   %m = qcg.loop([%i, %p], [ge(in1, in0)])     ->   %m = qcg.loop([%p], [ge(in0, pos1)], shape = [s1, s0])
//
// Intermediates are not rounded, unless they have fewer bits than the result, decide a step (graph/ops/steps.h: a
// quantization, its scale or zero point) or --emulate-precision-casts asks for it; intermediates of
// integers always keep the cast to their dtype, and loops over integers fuse only among themselves. Gates: epilogue_max_nodes and
// epilogue_max_operands, as for epilogues.
//
// Why last but for dce: it needs every pointwise op to be a loop already.
#include <algorithm>

#include "graph/ops/steps.h"
#include "graph/passes/loop_positions.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/pointwise.h"
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

  // A loop of one result, or what its reader sees of it.
  struct Inner {
    Expr expr;
    Ids operands;
    std::vector<Dim> sizes;
    ValueId result;
    std::optional<NodeId> gone;  // nobody else reads it
  };

  bool fuse_one(NodeId id) {
    const Node& loop = graph_.nodes[id];
    const Ids operands = *loop.arg("operands").get<Ids>();
    // Fusing takes one operand away at most.
    if (static_cast<int64_t>(operands.size()) > context_.options.gates.epilogue_max_operands + 1) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto inner = inner_of(loop, operands[i]);
      if (inner && fuse(id, i, *inner)) return true;
    }
    return false;
  }

  std::optional<Inner> inner_of(const Node& loop, ValueId operand) const {
    const Shape& shape = graph_.value(loop.outputs[0]).shape;
    if (const auto seen = see_positions(graph_, operand, shape)) {
      if (!(seen->loop->arg("arithmetic") == loop.arg("arithmetic"))) return std::nullopt;
      return Inner{seen->expr, {}, seen->sizes, seen->loop->outputs[0], std::nullopt};
    }
    const Node* inner = producer_if(graph_, operand, "qcg.loop");
    if (!inner || inner->outputs.size() != 1 || readers_.uses()[operand] != 1) return std::nullopt;
    if (!(inner->arg("arithmetic") == loop.arg("arithmetic")) || graph_.value(operand).shape != shape)
      return std::nullopt;
    return Inner{inner->arg("exprs").get<Exprs>()->front(), *inner->arg("operands").get<Ids>(),
                 *inner->arg("sizes").get<std::vector<Dim>>(), operand, graph_.value(operand).producer};
  }

  bool fuse(NodeId id, size_t position, const Inner& inner) {
    Node& loop = graph_.nodes[id];
    const Ids outer_operands = *loop.arg("operands").get<Ids>();
    Ids operands;
    std::vector<Dim> sizes = *loop.arg("sizes").get<std::vector<Dim>>();
    const auto number_of = [](auto& met, const auto& value) {
      auto it = std::find(met.begin(), met.end(), value);
      if (it == met.end()) it = met.insert(met.end(), value);
      return static_cast<int>(it - met.begin());
    };
    Exprs inner_ins, outer_ins;
    for (ValueId value : inner.operands) inner_ins.push_back(Expr::in(number_of(operands, value)));
    const DType dtype = graph_.value(inner.result).dtype;
    const DType arithmetic = *loop.arg("arithmetic").get<DType>();
    const Exprs outer = *loop.arg("exprs").get<Exprs>();
    const bool keep_casts = context_.options.emulate_precision_casts || ends_in_step(loop) || arithmetic == DType::f64;
    Expr value = substitute_inputs(inner.expr, inner_ins).map_leaves([&](const Expr& leaf) {
      return leaf.kind == ExprKind::size ? Expr::size(number_of(sizes, inner.sizes[static_cast<size_t>(leaf.index)]))
                                         : leaf;
    });
    if (dtype != arithmetic) value = Expr::cast(dtype, std::move(value));
    if (arithmetic == DType::f64 && !value.has_f64()) return false;
    for (size_t i = 0; i < outer_operands.size(); ++i)
      outer_ins.push_back(i == position ? value : Expr::in(number_of(operands, outer_operands[i])));
    Exprs exprs;
    for (size_t i = 0; i < outer.size(); ++i)
      exprs.push_back(
          simplify(substitute_inputs(outer[i], outer_ins), graph_.value(loop.outputs[i]).dtype, keep_casts));
    const PassGates& gates = context_.options.gates;
    if (static_cast<int64_t>(operands.size()) > gates.epilogue_max_operands) return false;
    for (const Expr& expr : exprs)
      if (expr.count_nodes() > gates.epilogue_max_nodes) return false;
    loop.origins = join_origins(graph_.nodes[graph_.value(inner.result).producer].origins, loop.origins);
    readers_.remove(id);
    if (inner.gone) {
      readers_.remove(*inner.gone);
      graph_.nodes[*inner.gone].arg("operands") = Ids{};  // dead: it must not count as a reader of its operands
    }
    loop.arg("shape") = shape_beyond(graph_, operands, graph_.value(loop.outputs[0]).shape);
    loop.arg("operands") = std::move(operands);
    loop.arg("sizes") = std::move(sizes);
    loop.arg("exprs") = std::move(exprs);
    readers_.add(id);
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
