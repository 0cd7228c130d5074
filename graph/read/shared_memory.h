// Weights that lie in the same memory: tied parameters are one weight, but what a graph writes to must be alone.
//
// Why here: each state of a program has memory of its own. A model, in a .pt2 archive or in memory, may have a buffer
// that is written and another tensor that reads the same bytes.
//
//   places.push_back(place_of(value, "$.config[\"cache\"]", "data/weights/weight_0"));
//   QCG_CHECK(refuse_shared_states(std::move(places)));
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

// The bytes from `first` to `end` of a memory that has a name: those that the view of a weight reaches.
struct WeightPlace {
  std::string where;        // in errors
  std::string name;         // of the value
  bool is_written = false;  // it is a state
  std::string memory;
  uint64_t first = 0, end = 0;
};

// Precondition: the value's data has a shape and strides that are checked (has_sane_extent). An empty `memory`: that of
// this process, in which the data's storage lies.
WeightPlace place_of(const Value& value, std::string where, std::string memory = "");

// Of each weight that lies in the memory of another one, by name: that one, and how many bytes behind its start the
// weight begins. Two models of equal bytes may differ in this alone.
std::map<std::string, std::string> shared_places(const std::map<std::string, Tensor>& weights);

// Error Unsupported: two places have bytes in common, and the graph writes to one of them.
Status refuse_shared_states(std::vector<WeightPlace> places);

}  // namespace qcg
