// fold_constants: what depends on bound parameters alone is evaluated now, by the oracle, if it is small.
//
// Gate: constant_max_elements (default 1,048,576) elements of result, so that a weight that was stored quantized is never
// blown up; larger results stay operations, unless they take no more bytes than what they are computed from. A product
// whose weight became a constant this way is a dense linear.
//
// Why here: after recognize_linear, because `@w.to(bf16) * @scale` is the *definition* of a quantized weight and must not
// be turned into a dense one first; before fold_epilogue, which wants biases and scales as plain parameters.
#include <algorithm>
#include <set>

#include "graph/passes/pass_list.h"
#include "graph/passes/rewrite.h"

namespace qcg {

namespace {

// Repeated elements are stored once.
int64_t stored_bytes(const Tensor& data) {
  int64_t elements = 1;
  for (size_t i = 0; i < data.shape.size(); ++i)
    if (data.strides[i] != 0) elements *= data.shape[i];
  return elements * static_cast<int64_t>(dtype_bytes(data.dtype));
}

// Only parameters with bytes go in, and everything that comes out has a constant, small shape.
bool is_foldable(const Graph& graph, const Node& node, int64_t max_elements) {
  if (node.outputs.empty() || node.op->role == OpRole::internal) return false;
  if (!reads_constants(graph, node)) return false;
  int64_t bytes = 0;  // of what is read, less what is made
  for_each_input(node, [&](ValueId id) { bytes += stored_bytes(graph.value(id).data); });
  bool small = true;
  for (ValueId out : node.outputs) {
    const Dim elements = product(graph.value(out).shape);
    if (!elements.valid() || !elements.is_constant()) return false;
    small = small && elements.constant() <= max_elements;
    bytes -= elements.constant() * static_cast<int64_t>(dtype_bytes(graph.value(out).dtype));
  }
  return small || bytes >= 0;
}

bool multiplies_by(const Graph& graph, const std::set<ValueId>& made) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    bool reads = false;
    for_each_input(node, [&](ValueId id) { reads = reads || made.contains(id); });
    return reads && node.op->role == OpRole::matmul;
  });
}

}  // namespace

Status fold_constants(Graph& graph, PassContext& context) {
  std::set<ValueId> made;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (!is_foldable(graph, node, context.options.gates.constant_max_elements)) continue;
    auto results = evaluate_node(graph, node);
    if (!results.ok()) {
      context.skip(node.origins.empty() ? node.op->name : node.origins.back(), results.error().message);
      continue;
    }
    const std::vector<ValueId> outputs = node.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId value =
          graph.add_parameter(graph.unique_name(graph.value(outputs[i]).name + ".value"), (*results)[i]);
      graph.replace_uses(outputs[i], value);
      made.insert(value);
    }
    ++context.report.fired;
  }
  graph.remove_dead();
  if (!multiplies_by(graph, made) || context.options.disabled.contains("recognize_linear")) return {};
  PassReport again;
  PassContext quiet{context.options, again};
  return recognize_linear(graph, quiet);
}

}  // namespace qcg
