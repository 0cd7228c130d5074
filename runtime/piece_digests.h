// SHA-256 of every 16 MiB of a block or a file, on all processors.
//
// Why here: one digest of a whole file is one thread's work; the weights of a program are checked piece by piece instead.
//
//   if (piece_digests(weights) != file.pieces) …     // as strong as one digest: the manifest that holds them has its own
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
// The same of an open file of `bytes` bytes, which is read and not mapped: one that shrinks meanwhile is an error.
Result<std::vector<std::string>> piece_digests(int fd, int64_t bytes, const std::string& path);

}  // namespace qcg
