// Backing: where a store looks for an entry that it does not have, and what it gives new entries to.
//
// Why here: the store decides when to ask and checks what it gets; the network is another folder's business. The one
// implementation outside of tests is RemoteCache (cache/remote/remote_cache.h).
//
//   store.back_with(remote);          // find() and publish() reach the server from now on
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/store/key.h"

namespace qcg {

// A file to publish: its bytes, or the path of a file to copy if the bytes are too many to hold in memory.
struct EntryFile {
  std::string name;  // relative; [A-Za-z0-9._+@=,-] and '/', no empty, "." or ".." part
  std::string bytes;
  uint32_t mode = 0600;     // mode of the file that copy_verified writes
  std::string source_path;  // used instead of bytes if not empty
};

struct BackedEntry {
  std::vector<EntryFile> files;
  std::string key_dump;
};

// No function fails: what a server cannot do costs the caller time, and the implementation says why in a warning.
class Backing {
 public:
  virtual ~Backing() = default;
  // The entry, from a source that only the team can have written; nullopt if there is none.
  virtual std::optional<BackedEntry> get(const Key& key) = 0;
  virtual void put(const Key& key, const std::vector<EntryFile>& files, const std::string& key_dump) = 0;
  // Whether an entry with so many bytes of files is small enough.
  virtual bool takes(uint64_t bytes) const = 0;
};

}  // namespace qcg
