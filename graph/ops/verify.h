// The verifier: what every graph obeys, whoever made it.
//
// Why here: readers take hostile files, passes have bugs; both are caught by one list of rules. Debug builds run it
// after every pass.
//
//   QCG_CHECK(verify_graph(graph));
//
// Rules, in the order they are checked (4 and 5 after 8); messages begin with the rule's number ("rule 7: …"):
//    1  symbols have distinct names and a range 0 <= min <= max; conditions are of declared symbols
//    2  value names are not empty and unique (values without a producer, left by dead code, are exempt)
//    3  inputs are distinct values of kind input, outputs are defined values, one output name per output
//    4  every size is a valid polynomial of declared symbols; those that nodes read have few terms (SizeBudget)
//    5  a parameter's shape and dtype are its data's; sizes are not negative; bound data lies inside its storage
//    6  nodes have an op of the table and one argument per schema argument
//    7  arguments have the kind the schema says; tensor ids are in range; what may not be absent is not
//    8  a node has as many outputs as its schema says, and each output names the node as its only producer
//    9  values are defined before they are used (topological order)
//   10  declared dtypes and shapes are the inferred ones (infer.h). For qcg.linear this includes: xs agree and their widths
//       add up to K; scales, zeros, offsets and biases have one entry per weight, of fitting shape; epilogue leaves are in range;
//       segments that one epilogue reads have the same width; operands broadcast to the output
//   11  qcg.linear's weights, scales, zeros, offsets and biases are parameters, and so are those of qcg.grouped_linear
#pragma once

#include "graph/ir/graph.h"

namespace qcg {

Status verify_graph(const Graph& graph);

// Rules 6 and 7 for one node. infer_types starts with it, so that no rule meets an argument of another kind.
Status check_arguments(const Graph& graph, const Node& node);

// Rules 4, 6 to 8, 10 and 11 for one node and its outputs: what a reader or a pass asks about a node it has just made.
Status verify_node(const Graph& graph, NodeId id);

// Inferring the type of a node computes with the sizes that it reads, and sums of symbols cost what they are long: of a
// hostile file of a megabyte, minutes. The sums that all nodes of a graph read share one budget, which grows with the
// nodes.
class SizeBudget {
 public:
  // False once the nodes so far have read more terms than a graph may. A size of one term is free.
  bool spend(const Graph& graph, const Node& node);
  Error exceeded(const Graph& graph, const Node& node) const;

 private:
  static constexpr int64_t kFree = 1 << 16, kPerNode = 32;
  int64_t left_ = kFree;
};

}  // namespace qcg
