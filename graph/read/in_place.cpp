#include "graph/read/in_place.h"

#include "graph/ops/op_table.h"
#include "graph/read/json.h"

namespace qcg {
namespace {

constexpr const char* kUseCopies =
    "write the out-of-place operator in the model (x = x - y instead of x -= y) and export again";

bool writes_in_place(const Node& node) {
  return node.op->in_place && node.op->role == OpRole::pointwise && !node.args.empty();
}

// Whether the output may share memory with the first argument: views do, and these copies return their input unchanged
// where there is nothing to convert.
bool may_alias(const Graph& graph, const Node& node, ValueId self) {
  if (node.op->role == OpRole::view) return true;
  if (node.op->role != OpRole::copy || node.outputs.empty()) return false;
  bool lazy = false;
  for (std::string_view op : {"aten.to.", "aten.contiguous.", "aten.type_as.", "aten.dropout."})
    lazy = lazy || node.op->name.starts_with(op);
  return lazy && graph.value(self).dtype == graph.value(node.outputs[0]).dtype;
}

ValueId first_tensor(const Node& node) {
  const ValueId* self = node.args.empty() ? nullptr : node.args[0].get<ValueId>();
  return self ? *self : kNoValue;
}

// A name for each group of values that may share memory: the first of them.
std::vector<ValueId> memory_of(const Graph& graph) {
  std::vector<ValueId> memory(graph.values.size());
  for (ValueId id = 0; id < memory.size(); ++id) memory[id] = id;
  for (const Node& node : graph.nodes) {
    ValueId self = first_tensor(node);
    if (self == kNoValue || !(writes_in_place(node) || may_alias(graph, node, self))) continue;
    for (ValueId output : node.outputs) memory[output] = memory[self];
  }
  return memory;
}

}  // namespace

Status check_in_place(const Graph& graph) {
  std::vector<ValueId> memory = memory_of(graph);
  // How often each memory was overwritten so far, and how often it had been when each value was made: a value that is
  // behind its memory no longer holds what its node computed.
  std::vector<uint32_t> writes(graph.values.size()), made_at(graph.values.size());
  auto is_stale = [&](ValueId id) { return made_at[id] < writes[memory[id]]; };
  for (const Node& node : graph.nodes) {
    ValueId stale = kNoValue;
    for_each_input(node, [&](const ValueId& id) { stale = is_stale(id) ? id : stale; });
    if (stale != kNoValue) {
      return Error::unsupported(
          node.where,
          node.op->name + " reads " + quote(graph.value(stale).name) + ", which was overwritten in place before",
          kUseCopies);
    }
    if (ValueId self = first_tensor(node); writes_in_place(node) && self != kNoValue) {
      ValueId root = memory[self];
      if (graph.value(root).kind != ValueKind::node) {
        return Error::unsupported(node.where, node.op->name + " changes " + quote(graph.value(root).name) + " in place",
                                  kUseCopies);
      }
      ++writes[root];
    }
    for (ValueId output : node.outputs) made_at[output] = writes[memory[output]];
  }
  for (ValueId id : graph.outputs) {
    if (is_stale(id))
      return Error::unsupported("the outputs",
                                "the output " + quote(graph.value(id).name) + " was overwritten in place", kUseCopies);
  }
  return {};
}

}  // namespace qcg
