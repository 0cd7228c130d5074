// Pins: the winners of an earlier tune log, which --pin replays.
//
// Why here: rendering (batch.h) takes a pinned candidate instead of many, the trial of merges its figures instead of
// timing; what of a program is pinned is said in the report.
//
//   QCG_TRY(pins, Pins::read("old.qcg"));            // or a tune.jsonl
//   if (const TuneRecord* pin = pins.find(problem.signature(), bucket)) …
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/tune/merge_trial.h"

namespace qcg {

class Pins {
 public:
  // None for an empty path, or a log with winners of other targets alone. Error BadInput: the log holds no winner.
  static Result<Pins> read(const std::string& path, const std::string& target = {});
  const TuneRecord* find(const std::string& signature, const Bucket& bucket) const;
  // What a fused problem and the same work apart took.
  std::optional<MergeTiming> find_merge(const std::string& signature, const Bucket& bucket, Fusion fusion) const;

  bool empty() const { return won_.empty(); }
  const std::string& log() const { return log_; }
  const std::string& machine() const { return won_.begin()->second.front().machine; }  // there is a winner

 private:
  std::string log_;
  std::vector<TuneRecord> separate_;
  std::unordered_map<std::string, std::vector<TuneRecord>> won_;  // by problem
};

}  // namespace qcg
