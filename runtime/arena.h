// The memory plan: where temporaries live in one block, given their sizes and lifetimes.
//
// Why here: sizes are symbolic until the inputs are seen, so offsets are chosen at bind time.
//
//   auto plan = plan_arena({{100, 50, 100}}, {{{0, 1}, {1, 2}, {2, 3}}});   // the third takes the first's place
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

// Greedy best fit, largest buffer first. Error: a negative size, a lifetime that ends before it starts, a sum beyond
// int64.
Result<ArenaPlan> plan_arena(std::span<const int64_t> sizes, std::span<const Lifetime> lifetimes);

}  // namespace qcg
