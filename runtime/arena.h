// The memory plan: the offsets of temporaries in one block, computed from their sizes and lifetimes.
//
// Why here: sizes are symbolic until the shapes of the inputs are known, so the runtime chooses the offsets.
//
//   auto plan = plan_arena({{100, 50, 100}}, {{{0, 1}, {1, 2}, {2, 3}}});   // the third reuses the first's bytes
//   plan->offsets == {0, 128, 0};   plan->peak_bytes == 192
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace qcg {

inline constexpr int64_t kArenaAlignment = 64;

// Alive from step `first` to step `last`, both included.
struct Lifetime {
  int64_t first = 0;
  int64_t last = 0;
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // multiples of kArenaAlignment
  int64_t peak_bytes = 0;
};

// Greedy best fit, largest buffer first. `sizes` are in bytes. Errors: a size is negative, a lifetime ends before it
// starts, or the sum of all sizes exceeds int64.
Result<ArenaPlan> plan_arena(std::span<const int64_t> sizes, std::span<const Lifetime> lifetimes);

}  // namespace qcg
