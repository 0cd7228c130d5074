// rotate_halves: the two halves of an axis that change places, one of them negated perhaps, are read by a loop where they
// lie: an index that walks the halves backwards takes the place of the concatenation.
//
//   %a = aten.slice(%x [s0, 16], dim = 1, 8, 16)                    %f = aten.reshape(%x, [s0, 2, 8])
//   %n = qcg.loop([%a], [neg(in0)])                        ->       %r = aten.flip(%f, [1])
//   %b = aten.slice(%x, dim = 1, 0, 8)                              %z = qcg.loop([%f, …, %r], [… where(gt(pos1, 0), in2, neg(in2)) …])
//   %c = aten.cat([%n, %b], dim = 1)                                %y = aten.reshape(%z, [s0, 16])
//   %y = qcg.loop([%x, %c, …], [add(mul(in0, …), mul(in1, …))])
//
// So rotary position embeddings are one kernel for queries and one for keys, which write no half twice.
//
// Why here: after fuse_loops, so that one loop reads the concatenation and all that goes with it; the views that this
// adds would be in the way of fusing.
#include <algorithm>

#include "graph/passes/pass_list.h"
#include "graph/rewrite/op_emitter.h"
#include "graph/rewrite/pointwise.h"

namespace qcg {

namespace {

// A value that is one half of an axis of `base`, as it is or negated.
struct Half {
  ValueId base = kNoValue;
  Dim start;
  bool negated = false;
};

class HalfRotator {
 public:
  HalfRotator(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  Status run() {
    const auto count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = 0; id < count; ++id) {
      if (!is_op(graph_.nodes[id], "qcg.loop")) continue;
      if (*graph_.nodes[id].arg("arithmetic").get<DType>() != DType::f32) continue;
      const auto operands = *graph_.nodes[id].arg("operands").get<std::vector<ValueId>>();
      for (size_t i = 0; i < operands.size(); ++i)
        if (const auto rotated = find_rotated(graph_.nodes[id], operands[i])) {
          QCG_CHECK(rewrite(id, i, *rotated));
          break;
        }
    }
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  struct Rotated {
    ValueId base;
    size_t axis;  // of the loop
    Dim half;
    bool negates[2];  // by half of the result
  };

  std::optional<Half> half_of(ValueId id, size_t axis) const {
    Half out;
    if (const Node* loop = producer_if(graph_, id, "qcg.loop")) {
      const auto& operands = *loop->arg("operands").get<std::vector<ValueId>>();
      const auto& exprs = *loop->arg("exprs").get<std::vector<Expr>>();
      const bool negates = operands.size() == 1 && exprs.size() == 1 && exprs[0] == Expr::call("neg", {Expr::in(0)}) &&
                           graph_.value(operands[0]).dtype == graph_.value(id).dtype &&
                           graph_.value(operands[0]).shape == graph_.value(id).shape;
      if (!negates) return std::nullopt;
      out.negated = true;
      id = operands[0];
    }
    const Node* part = producer_of(graph_, id);
    if (!part) return std::nullopt;
    const size_t rank = graph_.value(id).shape.size();
    if (is_op(*part, "aten.slice.Tensor")) {
      if (as_axis(part->arg("dim"), rank) != axis || as_integer(part->arg("step")) != 1) return std::nullopt;
      const Dim* start = part->arg("start").get<Dim>();
      out.start = start ? *start : Dim(0);
    } else if (is_op(*part, "aten.split.Tensor") || is_op(*part, "aten.chunk.default")) {
      if (as_axis(part->arg("dim"), rank) != axis) return std::nullopt;
      out.start = Dim(graph_.value(id).output) * graph_.value(id).shape[axis];
    } else {
      return std::nullopt;
    }
    out.base = part->tensor("self");
    return out;
  }

  std::optional<Rotated> find_rotated(const Node& loop, ValueId operand) const {
    const Node* cat = producer_if(graph_, operand, "aten.cat.default");
    if (!cat) return std::nullopt;
    const auto& parts = *cat->arg("tensors").get<std::vector<ValueId>>();
    const Shape &whole = graph_.value(operand).shape, &shape = graph_.value(loop.outputs[0]).shape;
    const auto axis = as_axis(cat->arg("dim"), whole.size());
    if (parts.size() != 2 || !axis || whole.size() != shape.size() || whole[*axis] != shape[*axis]) return std::nullopt;
    const auto first = half_of(parts[0], *axis), second = half_of(parts[1], *axis);
    if (!first || !second || first->base != second->base || graph_.value(first->base).shape != whole)
      return std::nullopt;
    const Dim half = graph_.value(parts[0]).shape[*axis];
    if (!half.is_constant()) return std::nullopt;
    const bool swapped = graph_.value(parts[1]).shape[*axis] == half && half + half == whole[*axis] &&
                         first->start == half && second->start.is_constant(0);
    if (!swapped) return std::nullopt;
    return Rotated{first->base, *axis, half, {first->negated, second->negated}};
  }

  // The axis in two: halves, and what is in each.
  static Shape split(Shape shape, size_t axis, const Dim& half) {
    const bool repeats = shape[axis].is_constant(1);
    shape[axis] = repeats ? Dim(1) : Dim(2);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, repeats ? Dim(1) : half);
    return shape;
  }

  Status rewrite(NodeId id, size_t position, const Rotated& rotated) {
    OpEmitter e(graph_, graph_.nodes[id]);
    const Shape shape = graph_.value(graph_.nodes[id].outputs[0]).shape;
    std::vector<ValueId> operands = *graph_.nodes[id].arg("operands").get<std::vector<ValueId>>();
    const ValueId halves = e.reshape(rotated.base, split(graph_.value(rotated.base).shape, rotated.axis, rotated.half));
    for (size_t i = 0; i < operands.size(); ++i) {
      const Shape own = graph_.value(operands[i]).shape;
      const size_t missing = shape.size() - own.size();
      if (i == position) {
        operands[i] = e.op("aten.flip.default",
                           {{"self", halves}, {"dims", std::vector<Dim>{Dim(static_cast<int64_t>(rotated.axis))}}});
      } else if (operands[i] == rotated.base) {
        operands[i] = halves;
      } else if (rotated.axis >= missing) {
        operands[i] = e.reshape(operands[i], split(own, rotated.axis - missing, rotated.half));
      }
    }
    QCG_CHECK(Status(e.status()));
    Node& loop = graph_.nodes[id];
    std::vector<Expr> exprs = *loop.arg("exprs").get<std::vector<Expr>>();
    for (Expr& expr : exprs) expr = expr.map_leaves([&](const Expr& leaf) { return leaf_of(leaf, position, rotated); });
    loop.arg("exprs") = std::move(exprs);
    loop.arg("operands") = operands;
    loop.arg("shape") = shape_beyond(graph_, operands, split(shape, rotated.axis, rotated.half));
    for (size_t o = 0; o < graph_.nodes[id].outputs.size(); ++o) give_shape_back(id, o, shape, rotated);
    ++context_.report.fired;
    return {};
  }

  static Expr leaf_of(const Expr& leaf, size_t position, const Rotated& rotated) {
    const int axis = static_cast<int>(rotated.axis);
    if (leaf.kind == ExprKind::in && static_cast<size_t>(leaf.index) == position) {
      const Expr negative = Expr::call("neg", {leaf});
      const bool first = rotated.negates[0], second = rotated.negates[1];
      if (first == second) return first ? negative : leaf;
      return Expr::call("where", {Expr::call("gt", {Expr::pos(axis), Expr::number(0)}), second ? negative : leaf,
                                  first ? negative : leaf});
    }
    if (leaf.kind != ExprKind::pos || leaf.index < axis) return leaf;
    if (leaf.index > axis) return Expr::pos(leaf.index + 1);
    return Expr::call("add",
                      {Expr::call("mul", {Expr::pos(axis), Expr::number(static_cast<double>(rotated.half.constant()))}),
                       Expr::pos(axis + 1)});
  }

  // The loop makes a value of its own, of which its old result is a view.
  void give_shape_back(NodeId id, size_t output, const Shape& shape, const Rotated& rotated) {
    const ValueId old = graph_.nodes[id].outputs[output];
    Value value = graph_.value(old);
    value.name = graph_.unique_name(value.name + ".halves");
    value.shape = split(shape, rotated.axis, rotated.half);
    const auto made = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(std::move(value));
    graph_.nodes[id].outputs[output] = made;
    const OpSchema* reshape = Op("aten.reshape.default").schema();
    const NodeId view = graph_.add_node(reshape, make_args(*reshape, {{"self", made}, {"shape", shape}}), {});
    graph_.nodes[view].where = graph_.nodes[id].where;
    graph_.nodes[view].origins = graph_.nodes[id].origins;
    graph_.nodes[view].outputs = {old};
    graph_.value(old).producer = view, graph_.value(old).output = 0;
  }

  Graph& graph_;
  PassContext& context_;
};

}  // namespace

Status rotate_halves(Graph& graph, PassContext& context) { return HalfRotator(graph, context).run(); }

}  // namespace qcg
