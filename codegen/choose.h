// Chooser: which kernel serves each problem in each range of M, in one compile.
//
// Why here: the tuner (codegen/tune) knows one problem and its candidates. compile.cpp plans a graph, and plans it again
// where a fusion lost. In between stands what outlives a plan: what was tuned is not tuned again, and the log holds all
// that was tried.
//
//   Chooser chooser(options, threads, report, progress);
//   QCG_CHECK(chooser.choose_all(plan, batch, writer, pins));      // sets Choice::winner, adds to report.kernels
//   QCG_CHECK(chooser.link_kernels(plan, batch, writer));
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/batch.h"
#include "codegen/extern_choice.h"
#include "codegen/program/compile_report.h"
#include "codegen/program/program_writer.h"
#include "codegen/progress.h"
#include "codegen/tune/step_trial.h"

namespace qcg {

// Why kernels of this target cannot be run by a compile on this host; empty if they can.
std::string why_untried(const Target& target);

class Chooser {
 public:
  // All but `threads` must outlive it.
  Chooser(const CompileOptions& options, int threads, CompileReport& report, Progress& progress)
      : options_(options), report_(report), progress_(progress), externs_(threads) {
    tune_options_.threads = threads;
  }

  // Checks and, unless --tune=off, times every kernel of the batch.
  Status choose_all(const Plan& plan, Batch& batch, const ProgramWriter& writer, const Pins& pins);
  // Records of fusions that were timed against the same work apart.
  void add_records(const std::vector<TuneRecord>& records);
  // The plan is made again: problems have other numbers. What was tuned is kept by what the problem is.
  void forget_plan();
  // Writes the winners. Neighbouring buckets of one winner become one entry; the last one has no upper limit.
  Status link_kernels(const Plan& plan, const Batch& batch, ProgramWriter& writer) const;

  bool has_tuned() const { return !tuned_.empty(); }
  const TuneOptions& tune_options() const { return tune_options_; }
  const std::string& log() const { return log_; }                                    // tune.jsonl
  const std::string& missing_library() const { return externs_.missing_library(); }  // of --extern=auto

 private:
  // A kernel without rivals, and what reports call it.
  struct LoneKernel {
    std::string key, step;  // key: of tuned_, the kernel and all sizes that it is tried at
    std::vector<std::string> nodes;
  };
  using LoneKernels = std::map<int, LoneKernel>;  // by problem

  // `untried`: why_untried of the plan's target.
  Result<LoneKernels> try_lone_kernels(const Plan& plan, const Batch& batch, const std::string& untried);
  Status choose(const Plan& plan, Batch& batch, Choice& choice, const ProgramWriter& writer, const Pins& pins,
                const std::string& untried);
  Status join_extern(const Plan& plan, Batch& batch, Choice& choice, const Pins& pins);
  Result<TuneResult> tune_choice(const Plan& plan, const Batch& batch, const Choice& choice,
                                 const ProgramWriter& writer, const std::string& untried);
  void explain_references(TuneResult& result, int problem) const;
  void add_report(const LoneKernel& lone, const BuiltKernel& kernel);
  void add_report(const Plan& plan, const Problem& problem, const Choice& choice, const BuiltKernel& kernel,
                  const TuneResult& result);
  void log_lone(const TuneResult& result, bool tried);
  void log_result(const TuneResult& result, bool tried);
  void count_noise(const TuneRecord& record);

  const CompileOptions& options_;
  CompileReport& report_;
  Progress& progress_;
  TuneOptions tune_options_;
  std::map<std::string, TuneResult> tuned_;  // by problem and bucket
  ExternChoices externs_;
  std::set<std::string> extern_refused_;  // keys of tuned_ whose pinned vendor's kernel was wrong
  std::string log_;
};

}  // namespace qcg
