// How much a file may hold before it is refused, whatever its format.
//
// Why here: files are hostile; a reader of one format must not accept what another refuses.
//
//   if (list.size() > kMaxListLength) return list.bad("the list is too long", …);
#pragma once

#include <cstddef>

namespace qcg {

inline constexpr size_t kMaxRank = 64;
inline constexpr size_t kMaxNodes = 65'536;
inline constexpr size_t kMaxListLength = 65'536;
inline constexpr size_t kMaxSymbols = 1024;

}  // namespace qcg
