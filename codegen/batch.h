// Batch: every kernel source a compile wants, rendered, before anything is built.
//
// Why here: all of a program's kernels go to the compiler together, so that its processes run in parallel and equal
// sources are compiled once. Rendering is pure; what to render is decided here: buckets, candidates, pins.
//
//   QCG_TRY(batch, render_all(plan, options, pins, ceilings));
//   QCG_TRY(built, builder.build(batch.sources));     // batch.choices say which problem and bucket each belongs to
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/build/build.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/candidate.h"
#include "codegen/kernel/target.h"
#include "codegen/plan/plan.h"
#include "codegen/program/compile_options.h"
#include "codegen/tune/pins.h"

namespace qcg {

// One problem in one M range: its candidates, and where their builds are in the batch.
struct Choice {
  int problem = 0;
  Bucket bucket{1, INT64_MAX, 1};
  std::vector<Candidate> candidates;  // empty: the kernel has no rivals (KernelFamily::has_candidates)
  std::vector<size_t> builds;         // into Batch::sources, parallel to candidates; one for other kernels
  bool pinned = false;                // by --pin
  int winner = 0;
  TuneRecord won;  // the winner's record, once tuned
};

struct Batch {
  std::vector<Choice> choices;  // by problem, then by bucket
  std::vector<KernelSource> sources;
  std::vector<BuiltKernel> kernels;                        // parallel to sources once built
  std::unordered_multimap<std::string, size_t> by_symbol;  // into sources: what was rendered, to find it again
};

// Adds one GEMM in one range of M with these candidates: their sources, each once, and the choice between them.
Status add_gemm(Batch& batch, int problem, const Problem& gemm, const Target& target, const Bucket& bucket,
                std::vector<Candidate> candidates);

// Adds a kernel that is no GEMM; its place in Batch::sources.
Result<size_t> add_other(Batch& batch, const KernelProblem& problem, const Target& target);

// The candidates worth building at this effort; candidates() puts the likely winners first. `fast` builds a few, and
// none whose instruction is too slow on this machine to win at m (vdpbf16ps on some, f32 FMA on others; nothing
// measured: all).
void limit_candidates(const Problem& problem, int64_t m, std::vector<Candidate>& candidates, TuneMode mode,
                      const Ceilings& ceilings);

// Error Unsupported: no microkernel serves a problem on this target.
Result<Batch> render_all(const Plan& plan, const CompileOptions& options, const Pins& pins, const Ceilings& ceilings);

}  // namespace qcg
