// CompileCache: the second level, which remembers whole compiles.
//
// Why here: a repeated `compile` must do no pass, no render and no tuning, so the finished program's files are kept
// under a key made of the graph's bytes, the weights' identity, the options and the machine. Still nothing of graphs.
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

// What a compile left: its files, and the conditions under which they may be used again.
struct CompileRecord {
  Entry entry;
  std::string guards_json;  // written and judged by the caller

  // Every file into `directory` (subdirectories are made), verified as it is copied.
  Status write_to(const std::string& directory) const;
  Result<std::string> read(const std::string& name) const;  // one of its files
};

class CompileCache {
 public:
  explicit CompileCache(Store& store) : store_(store) {}

  Result<std::optional<CompileRecord>> find(const Key& key);
  // In the place of an older result of the key. An error costs the next compile; the caller has its program anyway.
  Status publish(const Key& key, std::span<const EntryFile> files, const std::string& guards_json,
                 const std::string& key_dump);

 private:
  Store& store_;
};

}  // namespace qcg
