// fold_constants: what depends on bound parameters alone is evaluated now, by the oracle, if it is small.
//
// Gate: constant_max_elements (default 1,048,576) elements of result, so that a weight that was stored quantized is never
// blown up; larger results stay operations.
//
// Why here: after recognize_linear, because `@w.to(bf16) * @scale` is the *definition* of a quantized weight and must not
// be turned into a dense one first; before fold_epilogue, which wants biases and scales as plain parameters.
#include "graph/passes/pass_list.h"
#include "graph/passes/rewrite.h"

namespace qcg {

namespace {

// Only parameters with bytes go in, and everything that comes out has a constant, small shape.
bool is_foldable(const Graph& graph, const Node& node, int64_t max_elements) {
  if (node.outputs.empty() || node.op->role == OpRole::internal) return false;
  if (!reads_constants(graph, node)) return false;
  for (ValueId out : node.outputs) {
    const Dim elements = product(graph.value(out).shape);
    if (!elements.valid() || !elements.is_constant() || elements.constant() > max_elements) return false;
  }
  return true;
}

}  // namespace

Status fold_constants(Graph& graph, PassContext& context) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (!is_foldable(graph, node, context.options.gates.constant_max_elements)) continue;
    auto results = evaluate_node(graph, node);
    if (!results.ok()) {
      context.skip(node.origins.empty() ? node.op->name : node.origins.back(), results.error().message);
      continue;
    }
    const std::vector<ValueId> outputs = node.outputs;
    for (size_t i = 0; i < outputs.size(); ++i)
      graph.replace_uses(
          outputs[i], graph.add_parameter(graph.unique_name(graph.value(outputs[i]).name + ".value"), (*results)[i]));
    ++context.report.fired;
  }
  graph.remove_dead();
  return {};
}

}  // namespace qcg
