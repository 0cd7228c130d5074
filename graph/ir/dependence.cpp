#include "graph/ir/dependence.h"

namespace qcg {

std::vector<bool> vary_with_inputs(const Graph& graph) {
  std::vector<bool> varies(graph.values.size());
  for (const ValueId id : graph.inputs) varies[id] = true;
  for (const Node& node : graph.nodes) {
    bool reads = false;
    for_each_input(node, [&](ValueId id) { reads = reads || varies[id]; });
    for (const ValueId id : node.outputs) varies[id] = reads;
  }
  return varies;
}

}  // namespace qcg
