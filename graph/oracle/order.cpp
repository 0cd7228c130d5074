#include "graph/oracle/order.h"

#include <algorithm>
#include <numeric>

namespace qcg {
namespace {

double extent(const Dim& dim, const SymbolValues& symbols) {
  return static_cast<double>(dim.evaluate(symbols).value_or(0));
}

double cost_of(const Graph& graph, const Node& node, const SymbolValues& symbols) {
  const auto elements = [&](ValueId id) { return extent(product(graph.value(id).shape), symbols); };
  double read = 0, written = 0, depth = 0;  // depth: K of a product, whose first operand is the activation
  for_each_input(node, [&](ValueId id) {
    const Shape& shape = graph.value(id).shape;
    if (read == 0 && !shape.empty()) depth = extent(shape.back(), symbols);
    read += elements(id);
  });
  for (ValueId id : node.outputs) written += elements(id);
  return read + written * (node.op->role == OpRole::matmul ? 1 + depth : 1);
}

}  // namespace

std::vector<NodeId> nodes_behind(const Graph& graph, ValueId value) {
  std::vector<bool> needed(graph.values.size(), false);
  needed[value] = true;
  std::vector<NodeId> nodes;
  for (NodeId n = static_cast<NodeId>(graph.nodes.size()); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const bool is_needed = std::ranges::any_of(node.outputs, [&](ValueId id) { return needed[id]; });
    if (!is_needed && measured_symbol(node).empty()) continue;
    nodes.push_back(n);
    for_each_input(node, [&](ValueId id) { needed[id] = true; });
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

std::vector<size_t> cheapest_outputs_first(const Graph& graph, const SymbolValues& symbols) {
  std::vector<double> costs;
  for (ValueId id : graph.outputs) {
    double& sum = costs.emplace_back(0);
    for (const NodeId n : nodes_behind(graph, id)) sum += cost_of(graph, graph.nodes[n], symbols);
  }
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] < costs[b]; });
  return order;
}

}  // namespace qcg
