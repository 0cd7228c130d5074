// Batch: every kernel source a compile wants, rendered, before anything is built.
//
// Why here: all of a program's kernels go to the compiler together, so that its processes run in parallel and equal
// sources are compiled once. Rendering is pure; what to render is decided here: buckets, candidates, pins.
//
//   QCG_TRY(batch, render_all(plan, options, pins));
//   QCG_TRY(built, builder.build(batch.sources));     // batch.choices say which problem and bucket each belongs to
#pragma once

#include <string>
#include <vector>

#include "codegen/compile.h"

namespace qcg {

// One problem in one M range: its candidates, and where their builds are in the batch.
struct Choice {
  int problem = 0;
  Bucket bucket{1, INT64_MAX, 1};
  std::vector<Candidate> candidates;  // GEMMs only
  std::vector<size_t> builds;         // into Batch::sources, parallel to candidates; one for other kernels
  int winner = 0;
};

struct Batch {
  std::vector<Choice> choices;        // by problem, then by bucket
  std::vector<KernelSource> sources;
  std::vector<BuiltKernel> kernels;   // parallel to sources once built
};

// The winners of an earlier log, by problem and bucket: --pin.
class Pins {
 public:
  static Result<Pins> read(const std::string& path);
  const TuneRecord* find(const std::string& signature, const Bucket& bucket) const;

 private:
  std::vector<TuneRecord> won_;
};

// Error Unsupported: no microkernel serves a problem on this target.
Result<Batch> render_all(const Plan& plan, const CompileOptions& options, const Pins& pins);

}  // namespace qcg
