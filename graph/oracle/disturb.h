// What a kernel in f32 may do otherwise than the oracle, done to the oracle at random.
//
// Why here: how far the outputs of a disturbed evaluation are off bounds what a right program's may be
// (ReferenceOptions).
//
//   sums:  results are off by the last bits of a sum in f32, and by what rounding to their dtype takes
//   codes: a number that lies between two codes may become either. Three of four seeds move about one code of each
//          row, at one of the quantizations on the row's way through the graph
//   zero points: one that lies between two codes may become either: its extremes are off by their last bits
#pragma once

#include <random>

#include "graph/oracle/ops.h"

namespace qcg {

// About the largest of the terms that the node sums, of a product or a reduction; 0 of others.
double largest_term(const RefContext& c);
// Whole numbers stay: counts, masks and codes are computed exactly, and a comparison or a cast behind them does not
// waver. Zero among fractions is an exception if it is a sum of terms (up to `term`): they may have cancelled.
Tensor disturb(DType dtype, double term, const Tensor& t, std::mt19937_64& rng);

// Whether the node chooses zero points beside scales: its input is nudged, its results alone would never move them.
bool chooses_zero_points(const Node& node);
// Each number moves by its own last bits.
Tensor nudge(const Tensor& t, std::mt19937_64& rng);

// How many nodes round numbers that depend on the inputs to as many codes: quantizations, and steps of one.
int count_quantizations(const Graph& graph);
// Whether this is one of them, and has numbers to round: some are not whole.
bool rounds_to_codes(const RefContext& c);

// An element of a row (last axis), moved to the next code up or down that the tensor's range has; of a `share` of all
// rows.
Tensor flip_codes(DType dtype, const Tensor& t, double share, std::mt19937_64& rng);

}  // namespace qcg
