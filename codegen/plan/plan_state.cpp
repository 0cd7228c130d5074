#include <fmt/format.h>

#include <algorithm>

#include "codegen/plan/planner.h"
#include "graph/ops/op_table.h"

namespace qcg {

namespace {

// What reads a state's old value, as far as writing the next value over it is concerned.
class OldValue {
 public:
  OldValue(const Graph& graph, ValueId state) : graph_(graph), kind_(graph.values.size(), Alias::none) {
    kind_[state] = Alias::same_order;
    for (const Node& node : graph.nodes) {
      if (node.op->role != OpRole::view) continue;
      const Alias in = kind_[node.tensor("self")];
      if (in == Alias::none) continue;
      const bool keeps = in == Alias::same_order && keeps_order(node);
      for (ValueId out : node.outputs) kind_[out] = keeps ? Alias::same_order : Alias::view;
    }
  }

  bool is_read_by(const Node& node) const {
    bool reads = false;
    for_each_input(node, [&](ValueId id) { reads = reads || aliases(id); });
    return reads;
  }
  bool aliases(ValueId id) const { return kind_[id] != Alias::none; }

  // Whether a loop that writes `out` over the old value reads each of its elements before, and none that it wrote:
  // every operand is in the order of the output, and no other output is a plain copy, which kernels make last
  // (loop.cpp.j2, loop.cu.j2).
  bool suits(const Node& loop, ValueId out) const {
    const auto& operands = *loop.arg("operands").get<std::vector<ValueId>>();
    const auto& exprs = *loop.arg("exprs").get<std::vector<Expr>>();
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!aliases(operands[i])) continue;
      if (kind_[operands[i]] != Alias::same_order || graph_.value(operands[i]).shape != graph_.value(out).shape)
        return false;
      for (size_t o = 0; o < exprs.size(); ++o)
        if (loop.outputs[o] != out && exprs[o] == Expr::in(static_cast<int>(i))) return false;
    }
    return true;
  }

 private:
  enum class Alias : uint8_t { none, view, same_order };
  const Graph& graph_;
  std::vector<Alias> kind_;  // by value
};

bool is_zero(const Tensor& tensor) {
  Tensor one = tensor;  // of zeros that share an element
  if (std::ranges::all_of(tensor.strides, [](int64_t stride) { return stride == 0; }))
    for (int64_t& extent : one.shape) extent = std::min<int64_t>(extent, 1);
  const Tensor dense = one.contiguous();
  return dense.numel() == 0 || std::ranges::all_of(dense.bytes(), [](std::byte b) { return b == std::byte{0}; });
}

bool is_same(const View& a, const View& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.strides == b.strides;
}

}  // namespace

void Planner::add_states() {
  for (size_t i = 0; i < graph_.states.size(); ++i) {
    const ValueId before = graph_.state_input(i), after = graph_.state_output(i);
    const Value& value = graph_.value(before);
    const int buffer = add_buffer({BufferKind::state, static_cast<int>(i), {}, -1, -1});
    PlanState& state = plan_.states.emplace_back(PlanState{graph_.states[i], {value.dtype, value.shape}, -1});
    views_[before] = dense_view(buffer, value.shape);
    state_buffers_.push_back(buffer);
    if (!value.data.bound() || !is_zero(value.data)) {
      state.initial = static_cast<int>(plan_.constants.size());
      const int64_t bytes = value.data.numel() * static_cast<int64_t>(dtype_bytes(value.dtype));
      plan_.constants.push_back({add_buffer({BufferKind::weights, 0, Dim(bytes), -1, -1}), bytes, value.data, -1, {}});
    }
    copied_states_.push_back(why_copied(i));
    if (copied_states_.back().empty()) placed_[after] = views_[before];
  }
}

// Why the next value is not written straight over the old one; empty: it is.
std::string Planner::why_copied(size_t state) const {
  ValueId root = graph_.state_output(state);
  const OldValue old(graph_, graph_.state_input(state));
  if (old.aliases(root)) return "it is the old value or a view of it";
  while (is_placeable(root) && keeps_order(graph_.nodes[graph_.value(root).producer]))
    root = graph_.nodes[graph_.value(root).producer].tensor("self");
  if (graph_.value(root).kind != ValueKind::node) return "an input or a constant";
  if (!is_placeable(root)) return "an output of the program, too";
  const NodeId writer = graph_.value(root).producer;
  const Node& node = graph_.nodes[writer];
  if (node.op->role == OpRole::view) return "a view of another value";
  if (writes_part(node)) return "a part of a copy was written";  // or it is there already (plan_writes.cpp)
  for (size_t i = 0; i < graph_.outputs.size(); ++i)
    if (i != graph_.user_outputs() + state && old.aliases(graph_.outputs[i])) return "the old value is returned";
  for (NodeId n = writer + 1; n < graph_.nodes.size(); ++n)
    if (old.is_read_by(graph_.nodes[n])) return "the old value is read later";
  // The sources of a concatenation are written before it.
  if (is_op(node, "aten.cat.default"))
    for (const Node& reader : graph_.nodes)
      if (old.is_read_by(reader)) return "the old value is read while parts of the new one are written";
  if (old.is_read_by(node) && (!is_op(node, "qcg.loop") || !old.suits(node, root)))
    return "computed from other elements of the old value";
  return {};
}

// After all that reads old values. What a state copies from another that changes here, too, is put aside first.
void Planner::finish_states() {
  std::vector<View> sources;
  std::vector<int> changed;
  for (size_t i = 0; i < state_buffers_.size(); ++i) {
    sources.push_back(view(graph_.state_output(i)));
    if (!is_same(sources[i], views_[graph_.state_input(i)])) changed.push_back(state_buffers_[i]);
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const View& own = views_[graph_.state_input(i)];
    if (is_same(sources[i], own) || std::ranges::find(changed, sources[i].buffer) == changed.end()) continue;
    current_ = nullptr;
    const View aside = dense_view(add_temp(own.shape, plan_.states[i].type.dtype), own.shape);
    add_copy(sources[i], aside, plan_.states[i].type.dtype, "of the next state " + plan_.states[i].name);
    sources[i] = aside;
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const View& own = views_[graph_.state_input(i)];
    if (is_same(sources[i], own)) continue;
    const Value& value = graph_.value(graph_.state_output(i));
    current_ = value.kind == ValueKind::node ? &graph_.nodes[value.producer] : nullptr;
    add_copy(sources[i], own, value.dtype,
             fmt::format("to state {} ({})", plan_.states[i].name,
                         copied_states_[i].empty() ? "not written in place" : copied_states_[i]));
  }
}

}  // namespace qcg
