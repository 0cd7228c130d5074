// ColdWeights: copies of packed weights to rotate through, so that a timed kernel finds them in memory and not in a cache.
//
// Why here: decode is bound by reading weights; a kernel timed on warm ones is a kernel of another program.
//
//   const auto& copies = cold.copies(packed, cold_bytes_at(m));
//   run(copies[turn++ % copies.size()]);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/memory.h"

namespace qcg {

// Copies of the weights last tuned, more than any cache holds: making them costs more than timing, and every bucket of a
// problem wants the same.
class ColdWeights {
 public:
  // At least `bytes` of copies if the memory can be had, `weights` itself otherwise; valid until the next call.
  const std::vector<std::span<const std::byte>>& copies(std::span<const std::byte> weights, int64_t bytes);

 private:
  AlignedBuffer block_;
  std::vector<std::span<const std::byte>> copies_;
};

// What rotating copies of weights must fill so that every pass finds them cold; 0 for m beyond which they stream from L2.
int64_t cold_bytes_at(int64_t m);

}  // namespace qcg
