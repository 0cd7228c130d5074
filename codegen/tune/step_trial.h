// Step trials: kernels that have no rivals (loops, reductions, products of activations, quantized rows) against the
// oracle, and how long they take.
//
// Why here: tune.h chooses among candidates of one problem with constant weights. These have one kernel each, so all of
// a program are tried in one forked process: first every one is checked, at awkward sizes of the steps that run it,
// then each is timed for a moment, on cold memory.
//
//   trials.push_back(step_trial(plan, problem, kernel, m_list, TuneMode::fast));   // of each problem
//   QCG_TRY(results, try_steps(trials, options));               // one TuneResult each: a record per range of m
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/plan/plan.h"
#include "codegen/tune/tune.h"

namespace qcg {

struct StepTrial {
  struct At {
    Bucket bucket;
    int64_t m = 0;  // rows of the step at these sizes
    CallSizes sizes;
  };
  const KernelProblem* problem = nullptr;
  const BuiltKernel* kernel = nullptr;
  std::string step;                // the first that runs it: what is timed
  std::vector<std::string> nodes;  // of that step
  std::vector<CallSizes> checks;   // of all steps that run it
  std::vector<At> timed;
};

// The trial of one problem's kernel, timed at `ms` rows or, if there are none, at the usual ones of every range.
StepTrial step_trial(const Plan& plan, int problem, const BuiltKernel& kernel, std::span<const int64_t> ms,
                     TuneMode mode);

// Without a sign of life. Of the largest call that is checked or timed, as slow as any code computes.
double step_timeout_s(std::span<const StepTrial> trials, TuneMode mode);

// Error Internal names the step whose kernel is wrong or crashes. TuneMode::off checks and does not time.
Result<std::vector<TuneResult>> try_steps(std::span<const StepTrial> trials, const TuneOptions& options);

// The records of a kernel that was not tried, and why.
TuneResult untried_step(const StepTrial& trial, const std::string& why);

}  // namespace qcg
