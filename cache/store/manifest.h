// Manifest: the text file that describes an entry. Private to cache/.
//
// Why here: the store writes and checks it, and exports contain it. It ends with the SHA-256 of all its other bytes.
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

// nullopt unless the text is byte for byte what print_manifest would write.
std::optional<Manifest> parse_manifest(std::string_view text);

// Whether the name has only [A-Za-z0-9._+@=,-] and '/', no empty, "." or ".." part, and is not one of the store's own.
bool is_entry_file_name(std::string_view name);

// The name on disk. Entries have no subdirectories, so '/' becomes '%'.
std::string disk_name(const std::string& name);

}  // namespace qcg
