// slice_rows: rows that nobody reads are not computed.
//
//   %y = qcg.linear([%x], weights = [@w], …)           %s = aten.slice(%x, dim = 1, start = -1)
//   %last = aten.slice(%y, dim = 1, start = -1)   ->   %y = qcg.linear([%s], weights = [@w], …)
//
// The logits of a prompt's last token are the usual case: the other rows are a fifth of the work of a small language
// model. A slice or select of rows moves in front of a linear, and on its way there over pointwise operations, casts,
// quantizations with constant parameters and reshapes that add or drop axes of one element. Each of these must have no
// other reader.
//
// Why here: behind recognition, which gives every spelling of a linear one form; before siblings are merged and
// epilogues are folded, because a linear with one reader is simpler to prove.
#include <algorithm>

#include "graph/passes/linear_node.h"
#include "graph/passes/pass_list.h"
#include "graph/rewrite/op_emitter.h"
#include "graph/rewrite/pointwise.h"

namespace qcg {

namespace {

constexpr int kLongestChain = 16;  // of operations between a slice and the linear

// What a slice or a select takes of an axis.
struct Window {
  size_t axis = 0;
  Arg start, end, step;
  friend bool operator==(const Window&, const Window&) = default;
};

class RowSlicer {
 public:
  RowSlicer(Graph& graph, PassContext& context) : graph_(graph), context_(context), readers_(graph) {}

  Status run() {
    // A slice in front is raised in turn, and one that was another reader may have become the same.
    for (bool changed = true; changed;) {
      changed = false;
      for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
        QCG_TRY(is_raised, raise(id));
        changed = changed || is_raised;
      }
    }
    QCG_CHECK(sort_nodes(graph_));
    graph_.remove_dead();
    return {};
  }

 private:
  const Shape& shape_of(ValueId id) const { return graph_.value(id).shape; }

  static std::optional<Window> window_of(const Graph& graph, const Node& node) {
    const bool selects = is_op(node, "aten.select.int");
    if (node.outputs.empty() || (!selects && !is_op(node, "aten.slice.Tensor"))) return std::nullopt;
    const size_t rank = graph.value(node.tensor("self")).shape.size();
    const auto axis = as_axis(node.arg("dim"), rank);
    if (!axis || *axis + 1 == rank) return std::nullopt;
    if (!selects) return Window{*axis, node.arg("start"), node.arg("end"), node.arg("step")};
    const auto* index = node.arg("index").get<Dim>();
    if (!index || !index->is_constant()) return std::nullopt;
    const int64_t at = index->constant();
    return Window{*axis, Dim(at), at == -1 ? Arg() : Arg(Dim(at + 1)), Dim(1)};
  }

  // Axes of one element aside, both shapes are the same: the place of `axis` of `to` in `from`.
  static std::optional<size_t> axis_before(const Shape& from, const Shape& to, size_t axis) {
    const auto longer = [](const Shape& shape) {
      std::vector<size_t> axes;
      for (size_t i = 0; i < shape.size(); ++i)
        if (!shape[i].is_constant(1)) axes.push_back(i);
      return axes;
    };
    const std::vector<size_t> ours = longer(from), theirs = longer(to);
    if (!std::ranges::equal(ours, theirs, [&](size_t a, size_t b) { return from[a] == to[b]; })) return std::nullopt;
    const auto at = std::ranges::find(theirs, axis);
    if (at == theirs.end() || ours[size_t(at - theirs.begin())] + 1 == from.size()) return std::nullopt;
    return ours[size_t(at - theirs.begin())];
  }

  // The producer if all it makes is one value with one reader and its rows come from the same rows of its operands.
  const Node* maker_of_rows(ValueId id, size_t axis) const {
    const Node* node = producer_of(graph_, id);
    if (!node || readers_.uses()[id] != 1 || readers_.is_returned(id) || node->outputs.size() != 1) return nullptr;
    const Shape& shape = shape_of(id);
    if (is_linear(*node)) {
      const LinearNode linear = read_linear(*node);
      if (linear.xs.size() != 1 || !linear.operands.empty()) return nullptr;
      const Shape& x = shape_of(linear.xs[0]);
      return x.size() == shape.size() && x[axis] == shape[axis] ? node : nullptr;
    }
    if (is_op(*node, "aten.reshape.default"))
      return axis_before(shape_of(node->tensor("self")), shape, axis) ? node : nullptr;
    return as_elementwise(graph_, *node) ? node : nullptr;
  }

  bool reaches_linear(ValueId id, size_t axis, int left = kLongestChain) const {
    const Node* node = maker_of_rows(id, axis);
    if (!node || left == 0) return false;
    if (is_linear(*node)) return true;
    if (is_op(*node, "aten.reshape.default"))
      return reaches_linear(node->tensor("self"), *axis_before(shape_of(node->tensor("self")), shape_of(id), axis),
                            left - 1);
    const Pointwise pointwise = *as_pointwise(graph_, *node);
    return std::ranges::any_of(pointwise.operands, [&](ValueId operand) {
      const size_t missing = shape_of(id).size() - shape_of(operand).size();
      return axis >= missing && reaches_linear(operand, axis - missing, left - 1);
    });
  }

  // What has rows to slice: of a pointwise operation every operand, of which its formula may have read one as a number.
  std::vector<ValueId> operands_with_rows(const Node& node) const {
    std::vector<ValueId> operands;
    for_each_input(node, [&](ValueId operand) { operands.push_back(operand); });
    if (!is_linear(node)) return operands;
    const LinearNode linear = read_linear(node);
    return {linear.xs[0], linear.x_scale, linear.x_zero};
  }

  // The rows of an operand that has the window's axis `missing` places further left, or the operand if it has one row.
  ValueId sliced(OpEmitter& e, ValueId operand, const Window& window, size_t missing) {
    if (operand == kNoValue || window.axis < missing) return operand;
    const size_t axis = window.axis - missing;
    if (shape_of(operand)[axis].is_constant(1)) return operand;
    const Window wanted{axis, window.start, window.end, window.step};
    for (const NodeId reader : readers_.of(operand)) {
      const Node& node = graph_.nodes[reader];
      if (is_op(node, "aten.slice.Tensor") && window_of(graph_, node) == wanted) return node.outputs[0];
    }
    const ValueId rows = e.op("aten.slice.Tensor", {{"self", operand},
                                                    {"dim", axis_number(axis)},
                                                    {"start", window.start},
                                                    {"end", window.end},
                                                    {"step", window.step}});
    readers_.catch_up();
    return rows;
  }

  // Whether there was something to do.
  Result<bool> raise(NodeId id) {
    const auto window = window_of(graph_, graph_.nodes[id]);
    if (!window) return false;
    const ValueId whole = graph_.nodes[id].tensor("self");
    if (shape_of(whole)[window->axis].is_constant(1) || !reaches_linear(whole, window->axis)) return false;
    const NodeId maker = graph_.value(whole).producer;
    const Node before = graph_.nodes[maker];
    OpEmitter e(graph_, before);
    Node changed = before;
    Shape shape = shape_of(whole);
    if (is_linear(before)) {
      context_.report.groups.push_back({linear_name(graph_, before)});
      ++context_.report.fired;
    }
    if (is_op(before, "aten.reshape.default")) {
      const ValueId self = before.tensor("self");
      Window inner = *window;
      inner.axis = *axis_before(shape_of(self), shape, window->axis);
      const ValueId rows = sliced(e, self, inner, 0);
      QCG_CHECK(Status(e.status()));
      shape[window->axis] = shape_of(rows)[inner.axis];
      changed.args = make_args(*before.op, {{"self", rows}, {"shape", shape}});
    } else {
      const std::vector<ValueId> with_rows = operands_with_rows(changed);
      for_each_input(changed, [&](ValueId& operand) {
        if (std::ranges::find(with_rows, operand) == with_rows.end()) return;
        const size_t missing = shape.size() - shape_of(operand).size();
        const ValueId rows = sliced(e, operand, *window, missing);
        if (e.status().ok() && rows != operand) shape[window->axis] = shape_of(rows)[window->axis - missing];
        operand = rows;
      });
      QCG_CHECK(Status(e.status()));
      fit_block_size(graph_, changed);
    }
    finish(id, maker, std::move(changed), whole, shape);
    return true;
  }

  // The maker takes its new arguments; what sliced its result reads all of it now.
  void finish(NodeId id, NodeId maker, Node changed, ValueId whole, const Shape& shape) {
    readers_.catch_up();
    const Node before = graph_.nodes[maker];
    graph_.nodes[maker].args = std::move(changed.args);
    readers_.exchange(maker, before);
    graph_.value(whole).shape = shape;
    const Node taker = graph_.nodes[id];
    if (is_op(taker, "aten.select.int")) {
      replace_node(graph_, id, "aten.select.int",
                   make_args(*taker.op, {{"self", whole}, {"dim", taker.arg("dim")}, {"index", Dim(0)}}));
      readers_.exchange(id, taker);
    } else {
      readers_.replace(taker.outputs[0], whole);
      graph_.nodes[id].args.clear();
      graph_.nodes[id].outputs.clear();
      readers_.exchange(id, taker);
    }
  }

  Graph& graph_;
  PassContext& context_;
  Readers readers_;
};

}  // namespace

Status slice_rows(Graph& graph, PassContext& context) { return RowSlicer(graph, context).run(); }

}  // namespace qcg
