// piece_digests: the SHA-256 of every 16 MiB of a block or a file, computed on all processors.
//
// Why here: only one thread can compute the digest of a whole file, so the weights of a program are verified in pieces.
//
//   if (piece_digests(weights) != file.pieces) …     // as strong as one digest: the manifest has its own
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace qcg {

inline constexpr int64_t kDigestPiece = int64_t{16} << 20;

std::vector<std::string> piece_digests(std::span<const std::byte> bytes);  // the last piece may be shorter
// The same for an open file of `bytes` bytes. The file is read, not mapped, so shrinking it meanwhile gives an error.
Result<std::vector<std::string>> piece_digests(int fd, int64_t bytes, const std::string& path);

}  // namespace qcg
