// The order in which the oracle computes the outputs of a graph when it may not have the time for all of them.
//
// Why here: reference.cpp runs one operation after the other; which come first is another question.
//
//   for (size_t i : cheapest_outputs_first(graph, symbols))
//     for (NodeId n : nodes_behind(graph, graph.outputs[i])) …
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

// What this value is computed from, in the order of the graph.
// Those that measure sizes are always among them.
std::vector<NodeId> nodes_behind(const Graph& graph, ValueId value);

// Indices into graph.outputs: first what needs the fewest elements read, written and multiplied.
std::vector<size_t> cheapest_outputs_first(const Graph& graph, const SymbolValues& symbols);

}  // namespace qcg
