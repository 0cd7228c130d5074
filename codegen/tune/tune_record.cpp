// What a tune record says before anything was tried.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "codegen/tune/tune.h"

namespace qcg {

TuneRecord describe_build(const BuiltKernel& kernel, const Bucket& bucket) {
  TuneRecord r;
  r.kernel = kernel.source.name;
  r.target = std::string(isa_info(kernel.source.isa).name);
  r.m = bucket.m_probe;
  r.m_min = bucket.m_min;
  r.m_max = bucket.m_max;
  r.compile_s = kernel.compile_s;
  r.resources = kernel.resources;
  r.cache_hit = kernel.hit;
  r.key = kernel.key;
  r.machine = this_machine().fingerprint;
  r.date = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
  return r;
}

TuneRecord describe_kernel(const Problem& problem, const Candidate& candidate, const BuiltKernel& kernel,
                           const Bucket& bucket) {
  TuneRecord r = describe_build(kernel, bucket);
  r.problem = problem.signature();
  r.step = problem.label();
  r.nodes = problem.nodes;
  r.candidate = candidate.describe();
  r.scheme = std::string(scheme_name(problem.scheme));
  r.activation = std::string(dtype_name(problem.activation));
  r.weight = std::string(dtype_name(problem.weight));
  for (const Output& output : problem.outputs) r.epilogue += (r.epilogue.empty() ? "" : "; ") + output.expr.str();
  r.n = problem.n_total();
  r.k = problem.k;
  r.group = problem.group;
  r.segments = static_cast<int>(problem.segments.size());
  return r;
}

}  // namespace qcg
