// CompileCache: the second level of the cache, which keeps the results of whole compiles.
//
// Why here: a repeated `compile` must run no pass, rendering or tuning. So the cache keeps the files of the finished
// program under a key that the caller makes from graph, weights, options and machine.
//
//   CompileCache cache(store);
//   QCG_TRY(hit, cache.find(key));
//   if (hit && guards_hold(hit->guards_json)) hit->write_to(dir);
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "cache/store/store.h"

namespace qcg {

// The result of a compile: its files, and the conditions under which they may be used again.
struct CompileRecord {
  Entry entry;
  std::string guards_json;  // the conditions; only the caller interprets them

  // Copies and verifies every file into `directory`, and creates its subdirectories.
  Status write_to(const std::string& directory) const;
  Result<std::string> read(const std::string& name) const;  // one of its files
};

class CompileCache {
 public:
  explicit CompileCache(Store& store) : store_(store) {}

  Result<std::optional<CompileRecord>> find(const Key& key);
  // Replaces an older result of the key. Callers may ignore an error: only the next compile takes longer.
  Status publish(const Key& key, std::span<const EntryFile> files, const std::string& guards_json,
                 const std::string& key_dump, Store::Reach reach = Store::Reach::shared);

 private:
  Store& store_;
};

}  // namespace qcg
