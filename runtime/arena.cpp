#include "runtime/arena.h"

#include <algorithm>
#include <numeric>

namespace qcg {
namespace {

struct Placed {
  int64_t offset, bytes;
  Lifetime life;
};

bool overlaps(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// The start of the smallest gap of at least `bytes` bytes between blocks that are alive at the same time; the end of
// the last block if there is no such gap. `placed` is sorted by offset.
int64_t find_best_gap(const std::vector<Placed>& placed, int64_t bytes, const Lifetime& life) {
  int64_t best = -1, best_gap = INT64_MAX, end = 0;
  for (const Placed& p : placed) {
    if (!overlaps(p.life, life)) continue;
    const int64_t gap = p.offset - end;
    if (gap >= bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, p.offset + p.bytes);
  }
  return best >= 0 ? best : end;
}

}  // namespace

Result<ArenaPlan> plan_arena(std::span<const int64_t> sizes, std::span<const Lifetime> lifetimes) {
  if (sizes.size() != lifetimes.size()) return Error::internal("arena", "sizes and lifetimes differ in number");
  std::vector<int64_t> rounded(sizes.size());
  int64_t sum = 0;  // an upper bound of every offset: if it does not overflow, no offset does
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || lifetimes[i].last < lifetimes[i].first)
      return Error::bad_input("temporary " + std::to_string(i), "its size or its lifetime is negative",
                              "compile the program again");
    if (__builtin_add_overflow(sizes[i], kArenaAlignment - 1, &rounded[i]) ||
        __builtin_add_overflow(sum, rounded[i] &= -kArenaAlignment, &sum))
      return Error::bad_input("temporary " + std::to_string(i), "temporaries exceed 2^63 bytes", "use smaller inputs");
  }

  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rounded[a] > rounded[b]; });

  ArenaPlan plan{std::vector<int64_t>(sizes.size(), 0), 0};
  std::vector<Placed> placed;
  for (size_t i : order) {
    if (rounded[i] == 0) continue;
    const Placed block{find_best_gap(placed, rounded[i], lifetimes[i]), rounded[i], lifetimes[i]};
    plan.offsets[i] = block.offset;
    plan.peak_bytes = std::max(plan.peak_bytes, block.offset + block.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), block,
                                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
                  block);
  }
  return plan;
}

}  // namespace qcg
