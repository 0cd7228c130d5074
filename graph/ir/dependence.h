// What a run changes: values that depend on the inputs of a graph.
//
// Why here: what is computed of constants alone is computed when the graph is compiled, so that warnings leave it out.
//
//   const std::vector<bool> varies = vary_with_inputs(graph);     if (varies[id]) …
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

// By value: whether it is an input or a state, or computed of one.
std::vector<bool> vary_with_inputs(const Graph& graph);

}  // namespace qcg
