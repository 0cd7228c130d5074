// Candidate: one way to build a Problem: a microkernel, its tile, and how it passes over rows, panels and K.
//
// Why here: candidates.cpp guesses which are worth building, rendering prints one, the tuner measures them.
//
//   const std::vector<Candidate> all = candidates(problem, target, 1, 1);
//   render_gemm(problem, all[0], "qcg_kernel_0");
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/target.h"

namespace qcg {

// What describe() says of a candidate without a microkernel.
inline constexpr std::string_view kExternCandidate = "extern oneDNN";

struct Candidate {
  const Microkernel* microkernel =
      nullptr;  // null: a vendor's kernel (extern_kernel.h); what follows means nothing then
  PackedLayout layout;
  int mr = 1;               // rows per register tile
  std::vector<int> tails;   // rows of the kernels for a last row tile that is not full, ascending
  int64_t kc = 0;           // K block; 0 = all of K
  int panels_per_item = 1;  // panels one work item covers
  int rows_per_item = 0;    // most rows of one work item, more are shared out evenly; 0 = all
  int prefetch_bytes = 0;   // distance ahead in the weight stream
  int ahead_bytes = 0;  // blocks of K follow each other as they lie, what is this far behind the next one goes to L2;
                        // 0: panels of a block follow each other
  bool fetches_rows = false;  // each row tile fetches the activations of the next one, where L2 does not hold an item's
  bool unpacks_block = false;    // weights of a K block are unpacked once for all row tiles, not in registers for each
  bool rounded = false;          // unpacked weights are scaled and rounded to bf16, so sums need no scale per group
  bool scaled = false;           // weights are scaled as they are unpacked, where that is exact: likewise
  std::string describe() const;  // "avx512_fma 8x32 kc=512 panels=8 prefetch=4096", or kExternCandidate
};

// Best guess first; candidates(...)[0] is what --tune=off builds. All share layout_for(problem, target).
std::vector<Candidate> candidates(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max);

}  // namespace qcg
