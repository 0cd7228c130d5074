#include "runtime/piece_digests.h"

#include <algorithm>

#include "runtime/memory.h"
#include "runtime/threads.h"

namespace qcg {

std::vector<std::string> piece_digests(std::span<const std::byte> bytes) {
  constexpr size_t kPiece = static_cast<size_t>(kDigestPiece);
  std::vector<std::string> out((bytes.size() + kPiece - 1) / kPiece);
  ThreadPool pool;
  pool.parallel_items(static_cast<int64_t>(out.size()), [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      out[i] = digest_hex(bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece)));
  });
  return out;
}

}  // namespace qcg
