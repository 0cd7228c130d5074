// Merged siblings against the same linears one by one: what the merge costs or saves on this machine, by measurement.
//
// Why here: the pass merges whatever may be merged; whether it pays is a fact about the machine, known after tuning.
//
//   for (const Member& member : split_problem(merged)) …                  // build member.problem like the winner
//   QCG_TRY(timing, time_merge(merged_launch, member_launches, copies, m, options));
//   if (separate_is_faster(timings)) …                                    // PassOptions::keep_apart, and plan again
//
//   merged:    x ──► [ gate | up ] ──► silu(gate) * up
//   separate:  x ──► [ gate ] ──► t        x, t ──► [ up ] ──► silu(t) * up
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/tune.h"

namespace qcg {

// One segment of a merged problem as a problem of its own.
struct Member {
  Problem problem;
  size_t segment = 0;  // of the merged problem: whose tensors it has
};
// In the order they run. An output over several segments is computed by the last of them; the others store theirs first.
std::vector<Member> split_problem(const Problem& merged);

// The candidate of `member` that is most like the merged problem's winner.
Candidate member_candidate(const Problem& member, const Target& target, const Bucket& bucket, const Candidate& winner);

// A verified kernel, and where its weights are within a copy of all that a trial reads.
struct TrialLaunch {
  const Problem* problem = nullptr;
  const BuiltKernel* kernel = nullptr;
  int64_t weights_at = 0;
};

struct MergeTiming {
  Timing merged, separate;
};
// Both ways on the same activations, alternating, in a forked process. Each copy holds the weights of both: what one way
// reads is cold because the other ran in between.
// Error Internal: a kernel crashed there.
Result<MergeTiming> time_merge(const TrialLaunch& merged, const std::vector<TrialLaunch>& members, const ColdWeights::Copies& copies,
                               int64_t m, const TuneOptions& options);

// Whether separate is ahead by more than 3 % (what figures of one minute differ from the next) and more than the noise, in the mean over what was timed.
bool separate_is_faster(std::span<const MergeTiming> timings);

}  // namespace qcg
