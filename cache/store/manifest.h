// Manifest: the text file that says what an entry is. Private to cache/.
//
// Why here: the store writes and checks it, exports carry it. It ends with its own SHA-256, so every bit of it counts.
//
//   qcg-entry 1
//   key 3f…
//   file 600 1234 9a… kernel.so
//   end 77…
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store/store.h"

namespace qcg {

inline constexpr char kManifestName[] = "MANIFEST";
inline constexpr char kKeyDumpName[] = "key.txt";
inline constexpr size_t kMaxManifestBytes = 16 << 20;

struct Manifest {
  Key key;
  std::vector<FileRecord> files;
};

std::string print_manifest(const Manifest& manifest);

// Nothing if a single byte of it is not as print_manifest would write it.
std::optional<Manifest> parse_manifest(std::string_view text);

// [A-Za-z0-9._+@=,-] and '/', no empty, "." or ".." part, not a name the store uses itself.
bool is_entry_file_name(std::string_view name);

// The name on disk: entries are flat, so '/' becomes '%'.
std::string disk_name(const std::string& name);

}  // namespace qcg
