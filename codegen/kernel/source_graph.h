// SourceGraph: the graph as it was read, before any pass: what steps are named after, and what kernels say they
// compute.
//
// Why here: passes rewrite nodes, but people know those they exported. The planner asks for a lowered node's sources by
// name.
//
//   const SourceGraph source(graph, read.modules);     // then run_passes(graph, …)
//   QCG_TRY(plan, plan_kernels(graph, target, source));
//   source.lines({"linear", "silu"})    // "%silu = aten.silu.default(%linear) : bf16[m, 704]  model.py:41", one per node
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

class SourceGraph {
 public:
  SourceGraph() = default;  // knows nothing: names stay as they are
  // Keeps a copy of the graph, without the bytes of its weights. `modules`: paths by node name.
  explicit SourceGraph(const Graph& graph, std::map<std::string, std::string> modules = {});
  SourceGraph(SourceGraph&&) = default;
  SourceGraph& operator=(SourceGraph&&) = default;

  // These nodes, and the nodes they read that only weights go into (dequantizations), each once, in program order.
  std::vector<std::string> lines(const std::vector<std::string>& nodes) const;
  // "model.layers.0.mlp": the innermost module that all these nodes belong to; empty if there is none.
  std::string module_of(const std::vector<std::string>& nodes) const;
  // Where a constant of the lowered graph comes from, whatever passes have made of its name: "layers.0.q_proj" for
  // "layers.0.q_proj.parametrizations.weight.original0.unpacked".
  std::string weight_path(const std::string& name) const;
  // "matmul" for "matmul_3": the op of a node of this name, without namespace and overload; empty if there is none.
  std::string op_of(const std::string& node) const;

 private:
  std::vector<NodeId> find_nodes(const std::vector<std::string>& names) const;
  std::string origin_of(const std::string& name) const;

  Graph graph_;
  std::map<std::string, std::string> modules_;
  std::unordered_map<std::string_view, NodeId> nodes_;    // by origin; views into graph_
  std::unordered_map<std::string_view, ValueId> values_;  // by name; likewise
  std::vector<bool> constant_;                            // per value: only weights go into it
  std::unordered_map<ValueId, NodeId> readers_;           // of weights: the first node that reads it
  std::vector<ValueId> largest_;                          // per constant value: the largest weight that goes into it
};

// "q_proj" for "model.layers.0.self_attn.q_proj", "heads.0" for "heads.0", "layer.0" for "0".
std::string short_label(std::string_view path);
// The module of a weight: "layers.0.q" for "layers.0.q.weight" and "layers.0.q.parametrizations.weight.original0".
std::string module_of_weight(std::string_view name);

}  // namespace qcg
