// Two fusions against the same work apart: what they cost or save on this machine, by measurement. Merged siblings are
// N segments of one problem, a linear over a concatenation that is read in place has K segments.
//
// Why here: the passes fuse whatever may be fused; whether it pays is a fact about the machine, known after tuning.
//
//   for (const Member& member : take_apart(merged, fusion)) …             // build member.problem like the winner
//   QCG_TRY(timing, time_merge(merged_launch, {members, concat}, copies, m, options));
//   if (separate_is_faster(timings)) …                                    // PassOptions::keep_apart, and plan again
//
//   siblings   merged:    x ──► [ gate | up ] ──► silu(gate) * up
//              separate:  x ──► [ gate ] ──► t        x, t ──► [ up ] ──► silu(t) * up
//   cat        merged:    a, b ──► [ w ] ──► y
//              separate:  a, b ──► copy ──► c         c ──► [ w ] ──► y
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "codegen/gemm/problem.h"
#include "codegen/kernel/candidate.h"
#include "codegen/kernel/target.h"
#include "codegen/loops/loops.h"
#include "codegen/tune/tune.h"

namespace qcg {

enum class Fusion : uint8_t { siblings, cat };

// How the two ways of a fusion are called.
struct FusionInfo {
  std::string_view name;       // in JSON
  std::string_view fused;      // in the report, of a fusion that stays …
  std::string_view apart;      // … or is undone
  std::string_view apart_way;  // in the log and behind figures
};
const FusionInfo& fusion_info(Fusion fusion);

// A part of a fused problem as a problem of its own.
struct Member {
  Problem problem;
  std::vector<size_t> segments;  // of the fused problem: whose tensors it has
};
// In the order they run. Siblings: one each; an output over several segments is computed by the last of them, the
// others store theirs first. Cat: the whole with one K segment.
std::vector<Member> take_apart(const Problem& fused, Fusion fusion);

// The candidate of `member` that is most like the merged problem's winner.
Candidate member_candidate(const Problem& member, const Target& target, const Bucket& bucket, const Candidate& winner);

// A verified kernel, and where its weights are within a copy of all that a trial reads.
struct TrialLaunch {
  const Problem* problem = nullptr;
  const BuiltKernel* kernel = nullptr;
  int64_t weights_at = 0;
};

// What runs in place of a fused kernel.
struct ApartLaunch {
  std::vector<TrialLaunch> members;
  const BuiltKernel* copy = nullptr;  // cat: the kernel that copies one source into the concatenation (copy_problem)
  std::vector<size_t> copied;         // cat: the sources that have to be; others are born in their place
};
LoopProblem copy_problem(DType dtype);

struct MergeTiming {
  Timing merged, separate;
};
// Both ways on the same activations, alternating, in a forked process. Each copy holds the weights of both: what one
// way reads is cold because the other ran in between. Error Internal: a kernel crashed there.
Result<MergeTiming> time_merge(const TrialLaunch& merged, const ApartLaunch& apart, const ColdWeights::Copies& copies,
                               int64_t m, const TuneOptions& options);

// Whether separate is ahead by more than 3 % (what figures of one minute differ from the next) and more than the noise,
// in the mean over what was timed.
bool separate_is_faster(std::span<const MergeTiming> timings);
// Whether disturbed timings leave it to the noise.
bool is_close_merge(std::span<const MergeTiming> timings);

}  // namespace qcg
