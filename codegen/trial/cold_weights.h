// ColdWeights: copies of packed weights to rotate through, so that a timed kernel finds them in memory and not in a
// cache.
//
// Why here: decode is bound by reading weights; a kernel timed on warm ones is a kernel of another program.
//
//   const auto& copies = cold.copies(packed, cold_bytes_at(m));
//   run(copies[turn++ % copies.size()]);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/memory.h"

namespace qcg {

// Copies of the weights last tuned, more than any cache holds: making them costs more than timing, and every bucket of
// a problem wants the same.
class ColdWeights {
 public:
  using Copies = std::vector<std::span<const std::byte>>;
  // At least `bytes` of copies if the memory can be had, `weights` itself otherwise; valid until the next call.
  const Copies& copies(std::span<const std::byte> weights, int64_t bytes);
  // The same of `size` bytes that `fill` writes. Errors: fill's, and Io where there is no memory.
  Result<const Copies*> filled_copies(int64_t size, int64_t bytes,
                                      const std::function<Status(std::span<std::byte>)>& fill);

 private:
  Status lay_out(int64_t size, int64_t bytes);
  void repeat_first();

  AlignedBuffer block_;
  Copies copies_;
};

// What rotating copies of weights must fill so that every pass finds them cold; 0 for m beyond which they stream from
// L2.
int64_t cold_bytes_at(int64_t m);

}  // namespace qcg
