// The least and the greatest element of an integer constant that may still be written as arithmetic.
//
// Why here: integers wrap, in a byte soon. Where bounds show that they do not, a cast to a narrower dtype keeps every
// number: zero points taken off in front of it are still zero points.
//
//   const auto codes = integer_bounds(graph, id);        // @codes in [0, 15] minus @zeros in [0, 15]: [-15, 15]
//   if (codes && fits(*codes, DType::i8)) …
#pragma once

#include <optional>

#include "graph/ir/graph.h"

namespace qcg {

// nullopt: no integer constant, no bytes, or computed in another way than by views, casts, sums and differences that
// keep every number.
std::optional<IntegerRange> integer_bounds(const Graph& graph, ValueId id);
// Whether an integer dtype holds all of them.
bool fits(const IntegerRange& range, DType dtype);

}  // namespace qcg
