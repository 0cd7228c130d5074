// LinearNode: a qcg.linear's arguments as a struct, to read, change and put back.
//
// Why here: merge_sibling_linears, split_cat_linear and fold_epilogue all edit linears; argument lookups by name would
// hide what they do.
//
//   LinearNode linear = read_linear(graph.nodes[id]);
//   linear.biases[0] = bias;
//   write_linear(graph, id, linear);
#pragma once

#include "graph/ir/graph.h"

namespace qcg {

struct LinearNode {
  std::vector<ValueId> xs;
  ValueId x_scale = kNoValue, x_zero = kNoValue;
  std::vector<ValueId> weights, scales, zeros, offsets, biases;  // per N segment
  std::vector<ValueId> operands;
  std::string scheme;
  int64_t group = 0;
  std::vector<Expr> epilogue;  // per output
  std::vector<ValueId> outputs;

  int find_operand(ValueId id) const;  // -1 if it is none
  int add_operand(ValueId id);         // its index, old or new
};

bool is_linear(const Node& node);
LinearNode read_linear(const Node& node);  // precondition: is_linear(node)
// Stores arguments and outputs, drops operands and segments that no epilogue reads, renumbers the rest.
void write_linear(Graph& graph, NodeId id, LinearNode linear);
// The name a person knows this linear by: its first output, which recognition named after the product.
std::string linear_name(const Graph& graph, const Node& node);

}  // namespace qcg
