#include <fmt/format.h>

#include <algorithm>

#include "codegen/plan/planner.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/ops/strides.h"

namespace qcg {

namespace {

// Whether two elements of the view may be one in memory: those of an axis that is repeated, windows that overlap.
// Axes are placed from the innermost on: each must step over all that those before it span.
bool may_share_elements(const View& view, std::span<const Symbol> symbols) {
  struct Axis {
    Dim size, step;
  };
  std::vector<Axis> left;
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    const Dim& stride = view.strides[axis];
    if (!view.shape[axis].is_constant(1))
      left.push_back({view.shape[axis], range_of(stride, symbols).max < 0 ? Dim(0) - stride : stride});
  }
  Dim span = 1;
  while (!left.empty()) {
    // One that leaves no gap; else the nearest, of equals the last: a size known only at run time may be 1.
    auto next = std::ranges::find(left, span, &Axis::step);
    int64_t nearest = INT64_MAX;
    if (next == left.end())
      for (auto axis = left.begin(); axis != left.end(); ++axis) {
        const int64_t gap = range_of(axis->step - span, symbols).min;
        if (gap >= 0 && gap <= nearest) next = axis, nearest = gap;
      }
    if (next == left.end()) return true;
    span = span + (next->size - Dim(1)) * next->step;
    left.erase(next);
  }
  return false;
}

ValueId same_order_source(const Graph& graph, ValueId id) {
  while (graph.value(id).kind == ValueKind::node) {
    const Node& node = graph.nodes[graph.value(id).producer];
    if (!keeps_order(node)) break;
    id = node.tensor("self");
  }
  return id;
}

// By node: the state whose next value it writes a part of, or -1. A chain of writes leads from the old value to the
// next.
std::vector<int> find_chains(const Graph& graph) {
  std::vector<int> out(graph.nodes.size(), -1);
  for (size_t s = 0; s < graph.states.size(); ++s) {
    std::vector<NodeId> chain;
    ValueId at = same_order_source(graph, graph.state_output(s));
    while (graph.value(at).kind == ValueKind::node && writes_part(graph.nodes[graph.value(at).producer])) {
      chain.push_back(graph.value(at).producer);
      at = same_order_source(graph, graph.nodes[chain.back()].tensor("self"));
    }
    if (at != graph.state_input(s)) continue;
    for (NodeId n : chain) out[n] = static_cast<int>(s);
  }
  return out;
}

}  // namespace

bool writes_at_positions(const Node& node) {
  constexpr Op kWrites[] = {"aten.index_copy.default", "aten.index_put.default",   "aten.scatter.src",
                            "aten.index_add.default",  "aten.scatter_add.default", "qcg.combine_at"};
  return is_any_op(node, kWrites);
}

bool writes_part(const Node& node) { return is_op(node, "aten.slice_scatter.default") || writes_at_positions(node); }

// Decides which writes of a part go into the memory of what they change. A version is a value with its views: a write
// begins a new one, and the old one must have no reader behind it.
void Planner::find_writes() {
  copied_writes_.assign(graph_.nodes.size(), "");
  const std::vector<int> chains = find_chains(graph_);
  std::vector<ValueId> version(graph_.values.size());
  for (ValueId id = 0; id < version.size(); ++id) version[id] = id;
  std::vector<NodeId> last_reader(graph_.values.size(), 0);  // by version
  for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    for_each_input(node, [&](ValueId id) { last_reader[version[id]] = n; });
    if (node.op->role == OpRole::view)
      for (ValueId out : node.outputs) version[out] = version[node.tensor("self")];
  }
  std::vector<bool> returned(graph_.values.size(), false);
  for (ValueId id : graph_.outputs) returned[version[id]] = true;
  std::vector<int> memory(graph_.values.size(), -1);  // by version: the state whose memory it has
  for (size_t s = 0; s < graph_.states.size(); ++s) memory[graph_.state_input(s)] = static_cast<int>(s);
  for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    if (!writes_part(node)) continue;
    const ValueId old = version[node.tensor("self")];
    const Value& root = graph_.value(old);
    int reads = 0;
    for_each_input(node, [&](ValueId id) { reads += version[id] == old; });
    std::string& why = copied_writes_[n];
    if (reads > 1) why = "it reads what it overwrites";
    else if (returned[old]) why = "the old value is returned";
    else if (last_reader[old] > n) why = "the old value is read later";
    else if (memory[old] >= 0 && chains[n] != memory[old]) why = "the state becomes something else";
    else if (memory[old] < 0 && root.kind != ValueKind::node) why = "it is an input or a constant";
    else if (memory[old] < 0 && placed_[old]) why = "the old value is part of another";
    if (why.empty()) memory[node.outputs[0]] = memory[old];
  }
}

// What a node writes a part of: the memory of its first tensor, or a copy of that.
View Planner::memory_to_write(const Node& node) {
  const ValueId self = node.tensor("self"), out = node.outputs[0];
  std::string why = copied_writes_[static_cast<size_t>(&node - graph_.nodes.data())];
  const View whole = view(self);
  if (why.empty() && may_share_elements(whole, graph_.symbols)) why = "its elements share memory";
  if (why.empty()) return whole;
  const View copy = output_view(out, [](const View&) { return true; });
  add_copy(whole, copy, graph_.value(out).dtype, fmt::format("of {} ({})", graph_.value(self).name, why));
  return copy;
}

// The value that is changed, with the part that is written as a view of it.
Status Planner::lower_slice_scatter(const Node& node) {
  const ValueId out = node.outputs[0];
  const DType dtype = graph_.value(out).dtype;
  const View whole = memory_to_write(node);
  const ValueId src = node.tensor("src");
  const OpArgs args{graph_, node};
  QCG_TRY(axis, args.axis("dim", whole.shape.size()));
  QCG_TRY(part, sliced(args, {whole.shape, whole.strides, whole.offset}, "start", args.dim("step"),
                       graph_.value(src).shape[axis]));
  add_copy(view(src), {whole.buffer, part.offset, part.shape, part.strides}, dtype, "into " + graph_.value(out).name);
  views_[out] = whole;
  return {};
}

}  // namespace qcg
