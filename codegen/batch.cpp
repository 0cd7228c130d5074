#include "codegen/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cache/store/sha256.h"
#include "codegen/devices/gemm_device.h"
#include "codegen/gemm/schedules.h"

namespace qcg {

namespace {

constexpr size_t kFastCandidates = 4;  // what --tune=fast builds per bucket
constexpr double kHopeless = 1.5;      // dropped: its least possible time is this many times that of the best
constexpr double kBehind = 1.1;        // built only if places are left: its likely time is this many times the best

// The symbol is a function of what the kernel is, so that equal kernels of different graphs are one cache entry.
std::string symbol_of(std::string_view name, std::string_view identity) {
  return "qcg_kernel_" + sha256_hex(std::string(name) + "|" + std::string(identity)).substr(0, 16);
}

size_t add_source(Batch& batch, KernelSource source) {
  const auto [first, last] = batch.by_symbol.equal_range(source.symbol);
  for (auto it = first; it != last; ++it)
    if (batch.sources[it->second].source == source.source) return it->second;
  batch.by_symbol.emplace(source.symbol, batch.sources.size());
  batch.sources.push_back(std::move(source));
  return batch.sources.size() - 1;
}

// Families without a kernel for devices.
Error no_device_kernel(const Plan& plan, size_t problem) {
  const auto step = std::find_if(plan.steps.begin(), plan.steps.end(),
                                 [&](const PlanStep& s) { return s.problem == static_cast<int>(problem); });
  return Error::unsupported(step == plan.steps.end() ? "" : step->name,
                            fmt::format("the step needs a {} kernel, and {} has none of that kind",
                                        plan.problems[problem].family().name, plan.target.str()),
                            "compile for --target=cpu, or export a graph without this operation");
}

Result<KernelSource> render_other(const KernelProblem& problem, Isa isa) {
  const std::string signature = problem_signature(problem);
  KernelSource out;
  out.isa = isa;
  out.name = fmt::format("{}_{}_{}", problem.family().name, sha256_hex(signature).substr(0, 8), isa_info(isa).name);
  out.symbol = symbol_of(out.name, signature);
  if (out.on_device()) out.launch = problem.family().launch(problem, isa);
  QCG_TRY(text, problem.family().render(problem, isa, out.symbol));
  out.source = std::move(text);
  return out;
}

// The one candidate that a pinned log says won; empty where it says nothing of this, or what is no candidate here.
std::vector<Candidate> pinned_candidate(const Problem& problem, const Bucket& bucket, const CompileOptions& options,
                                        const Pins& pins, const std::vector<Candidate>& all) {
  const TuneRecord* pin = pins.find(problem.signature(), bucket);
  if (!pin) return {};
  for (const Candidate& candidate : all)
    if (candidate.kernel() == pin->kernel && candidate.describe() == pin->candidate) return {candidate};
  if (is_extern(*pin) && options.extern_auto && !all.empty())
    return {all[0]};  // should the vendor's be missing or wrong
  return {};
}

// Error Usage: a value of --m lies outside the range of every linear of the plan.
Status check_rows(const Plan& plan, const std::vector<int64_t>& m_list) {
  for (int64_t m : m_list) {
    const auto takes = [m](const KernelProblem& problem) {
      const auto* gemm = problem.get_if<Problem>();
      return gemm && m >= gemm->m_min && m <= gemm->m_max;
    };
    if (std::none_of(plan.problems.begin(), plan.problems.end(), takes))
      return Error{
          ErrorCode::Usage, "--m", fmt::format("no linear of this graph takes m={}", m),
          "`qcodegen inspect GRAPH` shows the ranges of its symbols; leave --m out to tune at the default rows"};
  }
  return {};
}

}  // namespace

void limit_candidates(const Problem& problem, int64_t m, std::vector<Candidate>& candidates, TuneMode mode,
                      const Ceilings& ceilings) {
  if (mode == TuneMode::full || candidates.empty()) return;
  double best = HUGE_VAL, likely = HUGE_VAL;
  const auto floors = [&](const Candidate& c) {
    const auto* schedule = c.schedule_if<GemmSchedule>();  // nothing is known of other devices
    return schedule ? floors_of(problem, m, *schedule, ceilings) : std::optional<Floors>();
  };
  for (const Candidate& candidate : candidates)
    if (const auto f = floors(candidate))
      best = std::min(best, f->longer_s()), likely = std::min(likely, f->likely_s());
  std::erase_if(candidates, [&](const Candidate& c) {
    const auto f = floors(c);
    return f && f->longer_s() > kHopeless * best;
  });
  std::stable_partition(candidates.begin(), candidates.end(), [&](const Candidate& c) {
    const auto f = floors(c);
    return !f || f->likely_s() <= kBehind * likely;
  });
  candidates.resize(std::min(candidates.size(), mode == TuneMode::off ? 1 : kFastCandidates), candidates[0]);
}

Status add_gemm(Batch& batch, int problem, const Problem& gemm, const Target& target, const Bucket& bucket,
                std::vector<Candidate> candidates) {
  Choice choice{problem, bucket, std::move(candidates), {}};
  if (choice.candidates.empty())
    return Error::unsupported(gemm.nodes.empty() ? "" : gemm.nodes[0],
                              fmt::format("no microkernel serves {} on {}", scheme_name(gemm.scheme), target.str()),
                              "`qcodegen list microkernels` shows what there is");
  const GemmDevice& device = gemm_device(target.device);
  for (const Candidate& candidate : choice.candidates) {
    const std::string symbol = symbol_of(candidate.kernel(), candidate.describe() + gemm.signature());
    QCG_TRY(text, device.render(gemm, candidate, symbol));
    choice.builds.push_back(
        add_source(batch, {candidate.kernel(), symbol, std::move(text), target.isa, device.launch(gemm, candidate)}));
  }
  batch.choices.push_back(std::move(choice));
  return {};
}

Result<size_t> add_other(Batch& batch, const KernelProblem& problem, const Target& target) {
  QCG_TRY(source, render_other(problem, target.isa));
  return add_source(batch, std::move(source));
}

Result<Batch> render_all(const Plan& plan, const CompileOptions& options, const Pins& pins, const Ceilings& ceilings) {
  Batch batch;
  QCG_CHECK(check_rows(plan, options.m_list));
  const GemmDevice& device = gemm_device(plan.target.device);
  for (size_t p = 0; p < plan.problems.size(); ++p) {
    const auto* gemm = plan.problems[p].get_if<Problem>();
    if (!gemm) {
      const bool on_device = plan.target.device != Device::cpu;
      if (on_device && !plan.problems[p].family().launch) return no_device_kernel(plan, p);
      QCG_TRY(source, add_other(batch, plan.problems[p], plan.target));
      Choice choice;
      choice.problem = static_cast<int>(p);
      choice.builds = {source};
      batch.choices.push_back(std::move(choice));
      continue;
    }
    if (Status status = device.check(*gemm); !status.ok()) {
      if (!gemm->nodes.empty()) status.error().where = gemm->nodes[0];
      return status.error();
    }
    for (const Bucket& bucket : buckets_of(gemm->m_min, gemm->m_max, options.m_list)) {
      std::vector<Candidate> all = device.candidates(*gemm, plan.target, bucket.m_min, bucket.m_max);
      std::vector<Candidate> pinned = pinned_candidate(*gemm, bucket, options, pins, all);
      const bool is_pinned = !pinned.empty();
      if (!is_pinned) limit_candidates(*gemm, bucket.m_probe, all, options.tune, ceilings);
      QCG_CHECK(add_gemm(batch, static_cast<int>(p), *gemm, plan.target, bucket, std::move(is_pinned ? pinned : all)));
      batch.choices.back().pinned = is_pinned;
    }
  }
  return batch;
}

}  // namespace qcg
