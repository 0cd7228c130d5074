// Which integers the inputs of a graph may be, as far as its look-ups say: positions in an axis of 100 elements are from
// 0 to 99.
//
// Why here: a graph is tried with random inputs (verify_program.h), and a random id is none.
//
//   const std::vector<InputRange> ranges = input_ranges(graph, {{"s0", 7}});   // by input; states, too
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

struct InputRange {
  int64_t low = INT64_MIN, high = INT64_MAX;
  bool ascending = false;  // where bags begin: the first is 0, none is less than the one before
  bool written = false;    // writes into an input or a state go there: places of tokens in a cache
  bool is_known() const { return low != INT64_MIN || high != INT64_MAX; }
};

// Follows views, casts, sums and products with constants from the look-ups back to the inputs. What is computed in other
// ways is not known.
std::vector<InputRange> input_ranges(const Graph& graph, const SymbolValues& symbols);

}  // namespace qcg
