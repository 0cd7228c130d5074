// IntegerWeights: products whose weight is computed from integers, found in a graph as it was read, and afterwards
// those that no scheme took. Their weights are stored as floats, four to eight times as large.
//
// Why here: neither recognition nor folding sees both. What is packed by hand is evaluated before the first pattern is
// tried, and what no pattern took becomes a weight of floats after the last.
//
//   const IntegerWeights weights(graph);                         // before the passes
//   weights.find_dense(graph, recognition);                      // after: "fc1: its weight is computed from integers …"
#pragma once

#include <string>
#include <vector>

#include "graph/passes/pass_list.h"

namespace qcg {

class IntegerWeights {
 public:
  explicit IntegerWeights(Graph graph);  // those whose result something reads

  // One text per product, which says what recognition missed.
  std::vector<std::string> find_dense(const Graph& lowered, const PassReport& recognition) const;

 private:
  struct Product {
    std::string node, codes;
  };
  std::vector<Product> products_;
};

}  // namespace qcg
