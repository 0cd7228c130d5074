// Store::State: the members of a Store, and the steps that its functions share. Private to cache/.
//
// Why here: store.cpp finds and publishes; store_admin.cpp and archive.cpp maintain the directory.
//
//   Loaded got = state.load(key, state.entry_dir(key));
//   if (got.outcome == Loaded::corrupt) state.remove_entry(key);
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cache/store/manifest.h"
#include "cache/store/scratch.h"
#include "cache/store/store.h"

namespace qcg {

// Receives a file's bytes as they are read. Returns 0 or an errno.
using ByteSink = std::function<int(std::string_view)>;

// Reads one file of an entry in an open directory and compares its size and SHA-256. The bytes passed to `sink` are
// valid only if the outcome is `good`.
struct FileCheck {
  enum Outcome { good, missing, wrong, failed };
  Outcome outcome = good;
  int error = 0;       // errno if failed
  std::string reason;  // if wrong
};
FileCheck check_file(FileSystem& fs, int dir_fd, const FileRecord& file, bool shared, const ByteSink& sink);

struct Loaded {
  enum Outcome { found, absent, corrupt, failed };
  Outcome outcome = absent;
  std::string reason;
  std::optional<Entry> entry;
};

struct Store::State {
  StoreOptions options;
  FileSystem* fs = nullptr;
  std::string root;     // dir/v1
  bool usable = false;  // false: Store::none()
  bool read_only = false;

  std::shared_ptr<Backing> backing;

  std::mutex mutex;
  std::vector<std::string> warnings;
  std::vector<Lookup> lookups;
  uint64_t new_hits = 0, new_misses = 0, new_corrupt = 0;  // counts that are not yet in the counters file
  std::atomic<bool> said_unkept{false};                    // publish has warned that it could not keep an entry
  std::optional<uint64_t> bytes_estimate;                  // size of the whole store, for the limit

  std::mutex title_mutex;
  std::optional<std::map<std::string, std::vector<Key>>> keys_by_title;  // for explain_miss

  std::string temp_dir() const { return root + "/tmp"; }
  std::string bucket_dir(const Key& key) const { return root + "/" + key.hex.substr(0, 2); }
  std::string entry_dir(const Key& key) const { return bucket_dir(key) + "/" + key.hex; }

  void warn(std::string text);
  Status check_bucket(const std::string& path);
  Loaded load(const Key& key, const std::string& path);
  Status remove_entry(const Key& key);
  Result<Entry> publish(const Key& key, std::span<const EntryFile> files, const std::string& key_dump, Wins wins);
  std::optional<Entry> fetch(const Key& key);  // from the backing
  Entry hold(const Key& key, std::vector<EntryFile> files);
  Result<std::vector<EntryInfo>> scan();
  EntryInfo describe(const Key& key);
  std::string read_key_dump(const Key& key);  // unverified, only for explanations
  std::vector<Key> keys_titled(const std::string& title);
  void add_counters(StoreStats& stats);  // adds the counts of the file and of this process
  void flush_counters();
  void flush_lookups();
  void enforce_limit(uint64_t added_bytes);
  Result<GcResult> gc(uint64_t max_bytes);
};

}  // namespace qcg
