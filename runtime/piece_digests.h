// SHA-256 of every 16 MiB of a block, on all processors.
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

namespace qcg {

inline constexpr int64_t kDigestPiece = int64_t{16} << 20;

std::vector<std::string> piece_digests(std::span<const std::byte> bytes);  // the last piece may be shorter

}  // namespace qcg
