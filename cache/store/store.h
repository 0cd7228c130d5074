// Store: files by key, shared by any number of processes, on a disk that may lie, fill up or vanish.
//
// Why here: reliability rules 1 to 5 and 8 are kept in this one class. An entry appears by one rename of a finished,
// synced directory; every byte and the full key are checked on each find; what was checked is what is handed out.
//
//   dir/v1/ab/<key>/MANIFEST      name, size and SHA-256 of every file, the key, and its own SHA-256
//   dir/v1/ab/<key>/key.txt       what was hashed (KeyBuilder::dump)
//   dir/v1/ab/<key>/…             the files; a '/' in a name is stored as '%'
//   dir/v1/tmp/                   staging (scratch.h)
//   dir/v1/counters               hits and misses; may lose counts, is never wrong enough to matter
//
// The modification time of an entry's directory is its last use, for gc alone; validity never looks at a time.
//
//   QCG_TRY(store, Store::open({.dir = dir}));
//   QCG_TRY(hit, store.find(key));
//   if (!hit) (void)store.publish(key, files, builder.dump());   // failing to publish is no reason to fail
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/store/file_system.h"
#include "cache/store/key.h"

namespace qcg {

// What the dump of a precompiled header's key begins with: export_to() leaves such entries out.
inline constexpr std::string_view kPchTitle = "precompiled header";

// A file to publish: its bytes, or a file to copy them from when they are too many to hold.
struct EntryFile {
  std::string name;  // relative; [A-Za-z0-9._+@=,-] and '/', no empty, "." or ".." part
  std::string bytes;
  uint32_t mode = 0600;     // of what copy_verified writes
  std::string source_path;  // used instead of bytes if not empty
};

struct FileRecord {
  std::string name;
  uint64_t size = 0;
  std::string sha256;
  uint32_t mode = 0600;
};

// A verified entry. Small files are held in memory as they were verified; larger ones are verified again as they are
// read, so nothing that was not checked is ever handed out. Errors: CacheCorrupt if a file changed or vanished since.
class Entry {
 public:
  const Key& key() const { return key_; }
  const std::string& dir() const { return dir_; }
  const std::vector<FileRecord>& files() const { return files_; }
  bool has(const std::string& name) const { return record(name) != nullptr; }

  std::string path(const std::string& name) const;  // to show a person; load from a verified copy, not from here
  Result<std::string> read(const std::string& name) const;
  Status copy_verified(const std::string& name, const std::string& destination) const;
  // The bytes in pieces, for files of any size; they are good only if the result is. The sink returns 0 or an errno.
  Status stream(const std::string& name, const std::function<int(std::string_view)>& sink) const;

 private:
  friend class Store;
  const FileRecord* record(const std::string& name) const;

  Key key_;
  std::string dir_;
  std::vector<FileRecord> files_;
  std::vector<std::optional<std::string>> held_;  // parallel to files_
  FileSystem* fs_ = nullptr;
  bool shared_ = false;
};

struct StoreOptions {
  std::string dir;                           // absolute
  uint64_t max_bytes = uint64_t{4} << 30;    // publish removes the least recently used beyond this; 0 = no limit
  bool shared = false;                       // accept files and directories of other users: only if all are trusted
  uint64_t hold_bytes = uint64_t{16} << 20;  // files up to this size are held in memory by Entry
  FileSystem* fs = nullptr;                  // tests inject faults here; must outlive the store and its entries
};

struct EntryInfo {
  Key key;
  std::string title;  // first line of key.txt
  uint64_t bytes = 0;
  int64_t last_used = 0;  // seconds since 1970
  std::vector<FileRecord> files;
};

struct StoreStats {
  uint64_t entries = 0, bytes = 0, hits = 0, misses = 0, corrupt = 0;
};

struct GcResult {
  uint64_t removed_entries = 0, removed_bytes = 0, kept_entries = 0, kept_bytes = 0;
};

struct VerifyResult {
  uint64_t checked = 0;
  std::vector<std::string> corrupt;  // keys; they have been removed
};

// Safe to use from several threads.
class Store {
 public:
  // Creates the directory (0700) if needed. Errors: Io with the remedy if it cannot be made, or could be changed by
  // others: writable by group or others, owned by someone else, reached through someone else's symbolic link.
  static Result<Store> open(StoreOptions options);
  // A store that never has anything and keeps nothing: what --no-cache and an unusable directory fall back to.
  static Store none();

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  // A verified entry, or nothing: absent, vanished, unreadable or corrupt (then removed, with a warning).
  Result<std::optional<Entry>> find(const Key& key);

  // Makes the entry durable. If there is one already, it is verified and returned, or replaced where the newest is to
  // win. On an error the caller goes on with the bytes it has.
  enum class Wins : uint8_t { first, newest };
  Result<Entry> publish(const Key& key, std::span<const EntryFile> files, const std::string& key_dump,
                        Wins wins = Wins::first);

  // For an entry whose bytes are those that were published, and wrong all the same.
  Status remove(const Key& key);

  // Why `key_dump` was not found: differences to the entry that differs least among those with the same first line, as
  // far as they were there when this store was first asked.
  std::vector<std::string> explain_miss(const std::string& key_dump);

  Result<std::vector<EntryInfo>> list();  // most recently used first
  Result<EntryInfo> show(const std::string& key_prefix, std::string* key_dump = nullptr);
  Result<StoreStats> stats();
  Result<GcResult> gc(uint64_t max_bytes);
  Result<VerifyResult> verify_all();
  Status clear();
  Status export_to(const std::string& file);              // all but precompiled headers
  Result<uint64_t> import_from(const std::string& file);  // entries added; each is verified before it is published

  const std::string& dir() const;
  bool read_only() const;
  std::vector<std::string> take_warnings();  // since the last call

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace qcg
