// The tuner: which Candidate serves which M, decided by measurement and never before the oracle agreed.
//
// Why here: between building (build.h) and writing (program_writer.h); it knows Problems and bytes, not graphs.
//
//   for (const Bucket& bucket : buckets_of(problem.m_min, problem.m_max, m_list)) {
//     TuneResult r = tune(problem, tensors, packed, bucket, candidates, built, options);
//     program uses built[r.winner] for m in [bucket.m_min, bucket.m_max];  log gets r.records
//   }
//
// Verification and timing happen in a child process (trial.h): a candidate that crashes, hangs or traps costs itself
// only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/build/build.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/candidate.h"
#include "codegen/trial/ceilings.h"
#include "codegen/trial/cold_weights.h"
#include "codegen/trial/timing.h"

namespace qcg {

// The M ranges that choose a kernel of their own, and the M each is timed at.
struct Bucket {
  int64_t m_min, m_max;  // both included; m_max INT64_MAX: no limit
  int64_t m_probe;
  bool asked = false;  // m_probe is one of --m
};
inline constexpr Bucket kBuckets[] = {{1, 1, 1},    {2, 4, 4},      {5, 16, 16},
                                      {17, 64, 64}, {65, 256, 256}, {257, INT64_MAX, 1024}};
// The rows of kBuckets that meet [m_min, m_max], probes clamped into it; m_list (--m) replaces probes and keeps buckets
// that hold one.
std::vector<Bucket> buckets_of(int64_t m_min, int64_t m_max, std::span<const int64_t> m_list);

enum class TuneMode : uint8_t { off, fast, full };
// The m that a bucket is timed at: --tune=fast times large ones at 128, or where they begin, unless --m says where.
int64_t timed_m(const Bucket& bucket, TuneMode mode);
enum class TrialStatus : uint8_t { won, lost, wrong, failed_to_build, too_slow, crashed, reference, untimed, separate };

// One line of tune.jsonl. `separate`: a fusion's work apart, timed in rounds of its own beside the fused kernel
// (merged_s). Units: seconds, bytes, GB/s = 1e9 bytes/s, GFLOP/s = 1e9 operations/s (2 per multiply-add).
struct TuneRecord {
  std::string family = "gemm";  // KernelFamily::name; of others than gemm what follows is said where it differs
  std::string kernel;           // kernel_name, or the reference's name ("oneDNN 2.6.3 bf16 matmul")
  std::string problem;          // Problem::signature(); others: problem_signature()
  std::string step;             // Problem::label(); others: the plan's step that was timed
  std::vector<std::string> nodes;
  std::string target;
  std::string candidate;                                         // Candidate::describe()
  std::string scheme, activation, weight, epilogue;              // names of a scheme and of dtypes
  int64_t m = 0, m_min = 0, m_max = 0, n = 0, k = 0, group = 0;  // others: rows of the output, elements of one; no k
  int segments = 1;
  int threads = 1;
  double median_s = 0, p10_s = 0, p90_s = 0;
  int samples = 0, disturbed = 0;  // as Timing counts them
  // Separate only: what merged took in the same rounds, and how many of them were disturbed.
  double merged_s = 0, merged_p10_s = 0, merged_p90_s = 0;
  int merged_disturbed = 0;
  double gbps = 0, gflops = 0,
         share = 0;  // share of the roofline max(bytes / read bandwidth, ops / peak) of the same run
  double compile_s = 0;
  double max_error = 0, error_bound = 0;  // of the verification; `reason` says where a wrong one differs
  TrialStatus status = TrialStatus::untimed;
  std::string reason;     // "lost by 3.1 %", compiler error, signal name …
  std::string resources;  // of a kernel for a device: "96 registers, 0 spills, 48 KiB shared"
  bool cache_hit = false;
  std::string key;
  std::string machine;       // this_machine().fingerprint
  std::string date;          // ISO 8601, UTC
  std::string compiled_for;  // of a program for several targets: "cpu:avx2", the target whose compile wrote this

  // Whether the compile of this target wrote it, as far as it says.
  bool is_of(const std::string& of_target) const { return compiled_for.empty() || compiled_for == of_target; }
};
// The record of one kernel before anything was tried: what is known from the problem and the build.
TuneRecord describe_kernel(const Problem& problem, const Candidate& candidate, const BuiltKernel& kernel,
                           const Bucket& bucket);
TuneRecord describe_build(const BuiltKernel& kernel, const Bucket& bucket);  // from the build alone
std::string_view trial_status_name(TrialStatus status);
inline bool is_extern(const TuneRecord& r) {
  return r.candidate == kExternCandidate;
}  // a vendor's kernel that a program may call
inline Timing timing_of(const TuneRecord& r) { return {r.median_s, r.p10_s, r.p90_s, r.samples, r.disturbed}; }
inline Timing merged_timing_of(const TuneRecord& r) {
  return {r.merged_s, r.merged_p10_s, r.merged_p90_s, r.samples, r.merged_disturbed};
}
inline bool is_disturbed(const TuneRecord& r) {
  return is_disturbed(timing_of(r)) || is_disturbed(merged_timing_of(r));
}
std::string to_json_line(const TuneRecord& record);  // one object, no newline
// Hostile until parsed; `where` is for errors.
Result<TuneRecord> from_json_line(std::string_view line, const std::string& where);
Result<std::vector<TuneRecord>> read_tune_log(const std::string& path);
std::string tune_log_of(const std::string& path);  // the log in a program directory; any other path itself

struct TuneOptions {
  TuneMode mode = TuneMode::fast;
  int threads = 1;
  double budget_s = 2.0;   // of timing, per bucket; disturbed or slow rounds exceed it (trial/timing.h)
  bool references = true;  // time vendor kernels beside ours
  Ceilings ceilings;
  std::shared_ptr<ColdWeights> cold_weights = std::make_shared<ColdWeights>(),
                               cold_vendor_weights = std::make_shared<ColdWeights>();
  double trial_timeout_s = 0;                 // a candidate this long without an answer hangs; 0: from the work it has
  const std::atomic<bool>* cancel = nullptr;  // once set, tuning ends with error Interrupted
};

struct TuneResult {
  int winner = -1;                  // index into the built candidates; -1: none was right
  std::vector<TuneRecord> records;  // built candidates in order, then references
  bool close = false;               // is_close(): a busy machine left the decision to the order of preference
};
// A vendor's kernel among the built ones is a candidate like the others, the last in order of preference.
// Verifies every built candidate at awkward M within the bucket, drops wrong ones, times the rest interleaved with the
// references. TuneMode::off verifies candidates until one is right and times nothing.
Result<TuneResult> tune(const Problem& problem, const std::vector<SegmentTensors>& tensors,
                        std::span<const std::byte> packed, const Bucket& bucket,
                        const std::vector<Candidate>& candidates, const std::vector<BuiltKernel>& built,
                        const TuneOptions& options);

}  // namespace qcg
