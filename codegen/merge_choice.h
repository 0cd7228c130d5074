// choose_merges: after tuning, every fused problem of a plan (merged siblings, concatenations read in place) against
// the same work apart, for the buckets that decide.
//
// Why here: between the trial of one fusion (merge_trial.h) and the pipeline, which plans again without those that
// lost.
//
//   QCG_TRY(merges, choose_merges(plan, batch, writer, builder, pins, options));
//   if (merges.any_lost()) …                              // PassOptions::keep_apart, keep_cats: plan and tune again
#pragma once

#include <set>
#include <string>
#include <vector>

#include "codegen/batch.h"
#include "codegen/program/compile_report.h"
#include "codegen/program/program_writer.h"

namespace qcg {

struct MergeChoice {
  std::vector<MergeReport> reports;   // per fusion of a problem
  std::vector<TuneRecord> records;    // TrialStatus::separate, one per bucket that was timed
  std::vector<std::string> warnings;  // what could not be timed, and why
  std::set<std::string> keep_apart;   // source nodes of the steps whose merge lost
  std::set<std::string> keep_cats;    // and of those that are faster over the concatenation
  int close = 0;                      // decisions that lay within the noise of a busy machine
  bool any_lost() const { return !keep_apart.empty() || !keep_cats.empty(); }
};

// Times m = 1 and m = 16, with TuneMode::full every bucket; a pinned log that holds both figures is believed instead.
// The members get the fused winner's tile: what is compared is the fusion.
Result<MergeChoice> choose_merges(const Plan& plan, const Batch& batch, const ProgramWriter& writer,
                                  KernelBuilder& builder, const Pins& pins, const TuneOptions& options);

// The same reports from a program's log and its plan, which has what was kept; what lost has only its nodes as a name.
std::vector<MergeReport> logged_merges(const std::vector<TuneRecord>& records, const Plan& plan);

}  // namespace qcg
