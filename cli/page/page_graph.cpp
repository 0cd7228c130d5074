// The graph before the passes, for the page.
#include <map>

#include "cli/page/page.h"

namespace qcg {

using nlohmann::json;

namespace {

std::string type_of(const Value& value) { return std::string(dtype_name(value.dtype)) + to_string(value.shape); }

// The first step that computes each node of the graph, by the node's name.
std::map<std::string, int> steps_by_node(const std::optional<Plan>& plan) {
  std::map<std::string, int> out;
  if (!plan) return out;
  for (size_t s = 0; s < plan->steps.size(); ++s)
    for (const std::string& node : plan->steps[s].nodes) out.try_emplace(node, static_cast<int>(s));
  return out;
}

}  // namespace

json graph_json(const PageProgram& program) {
  json nodes = json::array();
  if (!program.graph) return {{"nodes", nodes}, {"why", program.why_no_graph}};
  const Graph& graph = *program.graph;
  const std::map<std::string, int> steps = steps_by_node(program.plan);
  std::map<ValueId, size_t> drawn;                  // node of the picture by value; parameters have none
  std::vector<bool> constant(graph.values.size());  // only weights go into it
  for (ValueId id = 0; id < graph.values.size(); ++id) constant[id] = graph.value(id).kind == ValueKind::parameter;
  for (const ValueId id : graph.inputs) {
    drawn[id] = nodes.size();
    nodes.push_back({{"name", graph.value(id).name},
                     {"op", ""},
                     {"shape", type_of(graph.value(id))},
                     {"source", ""},
                     {"module", ""},
                     {"inputs", json::array()},
                     {"step", -1},
                     {"weights", false},
                     {"input", true}});
  }
  for (const Node& node : graph.nodes) {
    if (node.outputs.empty()) continue;  // an assertion
    json inputs = json::array();
    bool reads = false, all_constant = true;
    for_each_input(node, [&](const ValueId id) {
      reads = true, all_constant = all_constant && constant[id];
      if (const auto from = drawn.find(id); from != drawn.end()) inputs.push_back(from->second);
    });
    const Value& value = graph.value(node.outputs[0]);
    const auto step = steps.find(value.name);
    for (const ValueId id : node.outputs) drawn[id] = nodes.size(), constant[id] = reads && all_constant;
    nodes.push_back({{"name", value.name},
                     {"op", node.op->name},
                     {"shape", type_of(value)},
                     {"source", node.source},
                     {"module", program.source.module_of({value.name})},
                     {"inputs", inputs},
                     {"step", step == steps.end() ? -1 : step->second},
                     {"weights", reads && all_constant},
                     {"input", false}});
  }
  return {{"nodes", nodes},
          {"why", program.plan ? "" : "the passes of this version of qcodegen make other steps of it"}};
}

}  // namespace qcg
