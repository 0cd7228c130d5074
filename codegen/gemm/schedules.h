// GemmSchedule: one way to build a Problem for the CPU: a microkernel, its tile, and how it passes over rows, panels
// and K.
//
// Why here: schedules.cpp guesses which are worth building, rendering prints one, the tuner measures them.
//
//   const std::vector<GemmSchedule> all = gemm_schedules(problem, target, 1, 1);
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

// What takes the scales of groups of K.
enum class Scaling : uint8_t {
  sums,             // each group's sum, which is finished on its own
  weights,          // weights as they are unpacked, where that is exact: a sum goes over groups
  rounded_weights,  // likewise, and the product is rounded to bf16
};

struct GemmSchedule {
  const Microkernel* microkernel = nullptr;
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
  bool in_place = false;  // activations are read where they are, not packed: where GemmShape::in_place() says so, too
  bool unpacks_block = false;  // weights of a K block are unpacked once for all row tiles, not in registers for each
  Scaling scaling = Scaling::sums;
  std::string describe() const;  // "avx512_fma 8x32 kc=512 panels=8 prefetch=4096"
};

// Best guess first; gemm_schedules(...)[0] is what --tune=off builds. All share layout_for(problem, target).
std::vector<GemmSchedule> gemm_schedules(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max);

}  // namespace qcg
