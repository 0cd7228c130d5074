// An entry as one string under a signature: what a server keeps.
//
// Why here: whoever can write to the server could otherwise make every member of the team run their code. So the
// signature is checked before anything else is looked at, and it covers the key, the names and all bytes.
//
//   qcg-remote 1
//   5d…                HMAC-SHA-256 of all bytes after this line
//   412                length of the following manifest; after it, the bytes of its files in the manifest's order
//
//   const std::string value = seal_entry(key, entry, secret);
//   if (auto entry = open_entry(key, value, secret)) …
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/store/backing.h"

namespace qcg {

// Error Io: a file of the entry cannot be read.
Result<std::string> seal_entry(const Key& key, const std::vector<EntryFile>& files, const std::string& key_dump,
                               std::string_view secret);

// Error CacheCorrupt: the signature is wrong, or the entry is that of another key.
Result<BackedEntry> open_entry(const Key& key, std::string_view value, std::string_view secret);

}  // namespace qcg
