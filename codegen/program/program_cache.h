// ProgramCache: a compile that was done before, with the same everything, is a copy of files.
//
// Why here: it sits between the pipeline (which knows what a compile depends on) and cache/ (which knows bytes and
// names). The key holds the bytes of the graph and the weights, every option that changes the result, the compiler and
// the machine. A program that is still where it was written, unchanged, is not even copied.
//
//   QCG_TRY(memory, ProgramCache::open(options, parts, threads, cxx, store));
//   if (memory.try_restore(options, model.place(), report)) return report;      // no pass, no render, no tuning
//   …
//   memory.remember(staging, report);                            // before it is published: others publish there, too
#pragma once

#include <string>

#include "cache/toolchain/compile_cache.h"
#include "codegen/program/compile_options.h"
#include "codegen/program/compile_report.h"
#include "codegen/program/model_source.h"

namespace qcg {

class ProgramCache {
 public:
  // Error Io or BadInput: a file that belongs to qcodegen itself cannot be read.
  static Result<ProgramCache> open(const CompileOptions& options, const std::vector<ModelPart>& model, int threads,
                                   const Toolchain& cxx, Store& store);

  const std::string& key() const { return key_.hex; }  // also where nothing is kept; empty: the model is not known

  // True: options.output now holds the program, with this place of the model in origin.json, and `report` what was said
  // of it then. The newest result of a key wins, also over the cache's where it lies at options.output.
  bool try_restore(const CompileOptions& options, const std::string& place, CompileReport& report);
  // What differs from the nearest compile that the cache knows; empty where nothing does, or no cache was asked.
  std::vector<std::string> why_missed() const;
  // Keeps a program that nobody else can see yet, in the place of an older result. Never fails: a cache without room
  // only costs the next compile.
  void remember(const std::string& staging, const CompileReport& report);

 private:
  ProgramCache(Store& store, uint64_t max_bytes) : store_(&store), max_bytes_(max_bytes) {}

  bool keep_newer(const CompileOptions& options, const std::string& place, CompileReport& report) const;
  bool restore_weights(const std::string& digest, const std::string& directory) const;

  Store* store_;
  uint64_t max_bytes_;
  bool enabled_ = false;
  Key key_;
  std::string dump_;
};

}  // namespace qcg
