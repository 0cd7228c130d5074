// Passes over a row: which steps of a row program are computed in which walk along the row.
//
// Why here: a reduction is known when its walk ends, so what depends on it waits for the next walk. What an earlier walk
// computed is computed again where that is cheap, else kept: as f32, in scratch.
//
//   softmax:  walk 0: amax(in0)    walk 1: exp(in0 - acc0), kept; its sum    walk 2: kept / acc2
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/rows/rows.h"

namespace qcg {

struct RowPass {
  std::vector<size_t> loaded;    // steps kept by an earlier pass
  std::vector<size_t> computed;  // steps of elements, in order
  std::vector<size_t> kept;      // of those computed
  std::vector<size_t> reduced;   // steps that reduce what this pass computes
  std::vector<size_t> stores;    // outputs, by index
  std::vector<size_t> operands;  // that it reads
  std::vector<size_t> per_row;   // steps of one value per row that are known before the pass begins, in order
};

struct RowPasses {
  std::vector<RowPass> passes;
  std::vector<size_t> per_row;  // those known when the last pass has ended
};

// `keeps`: false, if all is computed again.
RowPasses plan_row_passes(const RowsProblem& problem, bool keeps = true);

}  // namespace qcg
