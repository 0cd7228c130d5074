// choose_merges: after tuning, every merged problem of a plan against its members one by one, for the buckets that decide.
//
// Why here: between the trial of one merge (merge_trial.h) and the pipeline, which plans again without the merges that lost.
//
//   QCG_TRY(merges, choose_merges(plan, batch, writer, builder, pins, options));
//   if (!merges.keep_apart.empty()) …                     // PassOptions::keep_apart, plan and tune again
#pragma once

#include <set>
#include <string>
#include <vector>

#include "codegen/batch.h"
#include "codegen/link.h"

namespace qcg {

struct MergeChoice {
  std::vector<MergeReport> reports;   // per merged problem
  std::vector<TuneRecord> records;    // TrialStatus::separate, one per bucket that was timed
  std::set<std::string> keep_apart;   // source nodes of the steps whose merge lost
};

// Times m = 1 and m = 16, with TuneMode::full every bucket; a pinned log that holds both figures is believed instead.
// The members get the merged winner's tile: what is compared is the merge.
Result<MergeChoice> choose_merges(const Plan& plan, const Batch& batch, const ProgramWriter& writer, KernelBuilder& builder,
                                  const Pins& pins, const TuneOptions& options);

}  // namespace qcg
