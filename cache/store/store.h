// Store: files by key, shared by any number of processes, on a disk that may return wrong bytes, fill up or vanish.
//
// Why here: this class keeps the cache's promises (docs/reliability.md). An entry appears by one rename of a complete,
// synced directory. Each find checks every byte and the full key, and returns exactly the checked bytes.
//
//   dir/v1/ab/<key>/MANIFEST      name, size and SHA-256 of every file, the key, and its own SHA-256
//   dir/v1/ab/<key>/key.txt       the hashed ingredients (KeyBuilder::dump)
//   dir/v1/ab/<key>/…             the files; a '/' in a name is stored as '%'
//   dir/v1/tmp/                   staging (scratch.h)
//   dir/v1/counters               hits and misses; some counts may be lost
//   dir/v1/lookups                the latest lookups, one per line; some may be lost
//
// The modification time of an entry's directory is the time of its last use. Only gc uses this time.
//
//   QCG_TRY(store, Store::open({.dir = dir}));
//   QCG_TRY(hit, store.find(key));
//   if (!hit) (void)store.publish(key, files, builder.dump());   // callers ignore errors of publish
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
#include "cache/store/backing.h"
#include "cache/store/file_system.h"
#include "cache/store/key.h"
#include "cache/store/lookup.h"

namespace qcg {

struct FileRecord {
  std::string name;
  uint64_t size = 0;
  std::string sha256;
  uint32_t mode = 0600;
};

// A verified entry. It holds the verified bytes of small files in memory, and verifies larger files again when they are
// read. So it never returns unverified bytes. Error CacheCorrupt: a file has changed or vanished since find().
class Entry {
 public:
  const Key& key() const { return key_; }
  const std::string& dir() const { return dir_; }
  const std::vector<FileRecord>& files() const { return files_; }
  bool has(const std::string& name) const { return record(name) != nullptr; }

  std::string path(const std::string& name) const;  // only for messages; load from a verified copy, not from this path
  Result<std::string> read(const std::string& name) const;
  Status copy_verified(const std::string& name, const std::string& destination) const;
  // Passes a file of any size to `sink` in pieces, which are valid only if the result is ok. It returns 0 or an errno.
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
  uint64_t max_bytes = uint64_t{4} << 30;    // beyond it, publish removes the least recently used entries; 0: no limit
  bool shared = false;                       // accept files and directories of other users; only if all are trusted
  uint64_t hold_bytes = uint64_t{16} << 20;  // Entry holds files up to this size in memory
  FileSystem* fs = nullptr;                  // for tests that inject faults; must outlive the store and its entries
};

struct EntryInfo {
  Key key;
  std::string title;  // first line of key.txt
  uint64_t bytes = 0;
  int64_t last_used = 0;  // seconds since 1970
  std::vector<FileRecord> files;
  bool unread = false;  // it could not be read just now, and nothing else is known of it
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

// Several threads may use one store.
class Store {
 public:
  // Creates the directory (0700) if needed. Error Io: it cannot be created, or other users could change it, because it
  // is writable by group or others, has another owner, or is reached through another user's symbolic link.
  static Result<Store> open(StoreOptions options);
  // A store that finds nothing and keeps nothing, for --no-cache and for unusable directories.
  static Store none();

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  // Entries that are not here are looked up there from now on, and new ones are published there, too.
  void back_with(std::shared_ptr<Backing> backing);
  // Whether publish() passes an entry whose files have this many bytes on to the backing store.
  bool shares(uint64_t bytes) const;

  // A verified entry, or nullopt if it is absent, vanished, unreadable or corrupt (then removed, with a warning). An
  // entry that came from the backing is kept here, too.
  Result<std::optional<Entry>> find(const Key& key, EntryKind kind = EntryKind::other);

  // Writes a durable entry. If the key has an entry already, Wins::first verifies and returns that entry, and
  // Wins::newest replaces it. The backing gets the entry, too, unless it is to stay here: there the newest wins. After
  // an error, callers continue with the bytes that they have.
  enum class Wins : uint8_t { first, newest };
  enum class Reach : uint8_t { shared, here };
  Result<Entry> publish(const Key& key, std::span<const EntryFile> files, const std::string& key_dump,
                        Wins wins = Wins::first, Reach reach = Reach::shared);

  // Removes an entry that is intact but unusable for its caller.
  Status remove(const Key& key);

  // Explains why `key_dump` was not found: the differences to the most similar entry with the same first line. It
  // considers the entries that existed when this store explained its first miss.
  std::vector<std::string> explain_miss(const std::string& key_dump);

  Result<std::vector<EntryInfo>> list();  // most recently used first
  Result<EntryInfo> show(const std::string& key_prefix, std::string* key_dump = nullptr);
  Result<StoreStats> stats();
  Result<GcResult> gc(uint64_t max_bytes);
  Result<VerifyResult> verify_all();
  Status clear();
  Status export_to(const std::string& file);              // all entries except precompiled headers
  Result<uint64_t> import_from(const std::string& file);  // number of added entries; each is verified first

  const std::string& dir() const;
  bool read_only() const;
  std::vector<std::string> take_warnings();    // the warnings since the last call
  const std::vector<Lookup>& lookups() const;  // of this store, in order
  std::vector<Lookup> lookup_log();            // the latest of all processes, oldest first

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace qcg
