#include "codegen/choose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/cancel.h"
#include "codegen/build/build.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/target.h"
#include "codegen/tune/device_trial.h"

namespace qcg {

namespace {

constexpr double kFastBudget_s = 0.6;  // per problem and bucket
constexpr double kFullBudget_s = 6.0;

std::string key_of(const StepTrial& trial) {
  std::string key = problem_signature(*trial.problem);
  for (const CallSizes& sizes : trial.checks) key += fmt::format(" {}", sizes.params);
  return key;
}

// The first that was built, as --tune=off picks, for a target that cannot be tried here.
TuneResult pick_untried(const Problem& problem, const Choice& choice, const std::vector<BuiltKernel>& built,
                        const std::string& why) {
  TuneResult out;
  for (size_t i = 0; i < built.size(); ++i) {
    TuneRecord& record =
        out.records.emplace_back(describe_kernel(problem, choice.candidates[i], built[i], choice.bucket));
    if (!built[i].ok()) record.status = TrialStatus::failed_to_build;
    record.reason = built[i].ok() ? "not tried: " + why : built[i].failure;
    if (built[i].ok() && out.winner < 0) out.winner = static_cast<int>(i);
  }
  return out;
}

// No candidate of the choice was right.
Error no_kernel(const Problem& problem, const Bucket& bucket, const TuneResult& result) {
  const std::string why = result.records.empty() ? "no candidate" : result.records[0].reason;
  const std::string range = fmt::format("m in [{}, {}]", bucket.m_min, bucket.m_max);
  if (std::all_of(result.records.begin(), result.records.end(),
                  [](const TuneRecord& r) { return r.status == TrialStatus::failed_to_build; }))
    return Error::toolchain(problem.label(), fmt::format("no kernel for {} could be built: {}", range, why),
                            "`qcodegen doctor` shows the compiler that was used, and --cxx selects another; with fewer "
                            "--jobs each compiler process has more time and memory");
  return Error::internal(problem.label(), fmt::format("no kernel for {} was correct: {}", range, why));
}

}  // namespace

std::string why_untried(const Target& target) {
  const std::string missing = why_not_here(target);
  if (missing.empty()) return "";
  return (target.device == Device::cpu ? "this host cannot run it: " : "chosen by a model of the device, because ") +
         missing;
}

Status Chooser::choose_all(const Plan& plan, Batch& batch, const ProgramWriter& writer, const Pins& pins) {
  const std::string missing = why_untried(plan.target);
  if (!missing.empty()) report_.warnings.push_back("neither kernels nor the program were verified: " + missing);
  tune_options_.mode = options_.tune;
  tune_options_.budget_s = options_.tune == TuneMode::full ? kFullBudget_s : kFastBudget_s;
  tune_options_.references = options_.tune != TuneMode::off;
  tune_options_.ceilings = report_.ceilings;
  tune_options_.cancel = options_.cancel;
  QCG_TRY(lone, try_lone_kernels(plan, batch, missing));
  progress_.begin();
  for (Choice& choice : batch.choices) {
    if (is_cancelled(options_.cancel)) return Error::interrupted();
    if (choice.candidates.empty()) {
      add_report(lone.at(choice.problem), batch.kernels[choice.builds[0]]);
    } else {
      QCG_CHECK(choose(plan, batch, choice, writer, pins, missing));
    }
  }
  return {};
}

// Kernels without rivals, by problem, all of them at once: whether they are right, and how long they take.
Result<Chooser::LoneKernels> Chooser::try_lone_kernels(const Plan& plan, const Batch& batch,
                                                       const std::string& untried) {
  LoneKernels out;
  std::vector<StepTrial> trials;
  for (const Choice& choice : batch.choices) {
    if (!choice.candidates.empty()) continue;
    const BuiltKernel& kernel = batch.kernels[choice.builds[0]];
    if (!kernel.ok()) return build_error(kernel);
    StepTrial trial = step_trial(plan, choice.problem, kernel, options_.m_list, options_.tune);
    const LoneKernel& lone = out[choice.problem] = {key_of(trial), trial.step, trial.nodes};
    if (!tuned_.contains(lone.key)) trials.push_back(std::move(trial));
  }
  std::vector<TuneResult> results;
  if (!untried.empty()) {
    for (const StepTrial& trial : trials) results.push_back(untried_step(trial, untried));
  } else if (!trials.empty()) {
    progress_.show("{} {} kernels of other kinds than linears", options_.tune == TuneMode::off ? "verify" : "time",
                   trials.size());
    QCG_TRY(tried, try_steps(trials, tune_options_));
    results = std::move(tried);
  }
  for (size_t i = 0; i < trials.size(); ++i) {
    log_lone(results[i], untried.empty());
    tuned_[key_of(trials[i])] = std::move(results[i]);
  }
  return out;
}

void Chooser::log_lone(const TuneResult& result, bool tried) {
  ++report_.candidates;
  report_.candidates_correct += tried;
  for (const TuneRecord& record : result.records) {
    log_ += to_json_line(record) + "\n";
    report_.noise.timings += record.samples > 0;  // a disturbed one has decided nothing
  }
}

void Chooser::add_report(const LoneKernel& lone, const BuiltKernel& kernel) {
  for (const TuneRecord& record : tuned_.at(lone.key).records) {
    KernelReport out;
    out.step = lone.step, out.name = kernel.source.name, out.nodes = lone.nodes;
    out.status = kernel.hit ? "hit" : "built";
    out.m_min = record.m_min, out.m_max = record.m_max, out.m_probe = record.m;
    out.summary = fmt::format("{} {}", record.family, record.n);
    out.record = record;
    report_.kernels.push_back(std::move(out));
  }
}

Result<TuneResult> Chooser::tune_choice(const Plan& plan, const Batch& batch, const Choice& choice,
                                        const ProgramWriter& writer, const std::string& untried) {
  const Problem& problem = plan.problems[choice.problem].get<Problem>();
  size_t constant = 0;
  while (plan.constants[constant].problem != choice.problem) ++constant;
  std::vector<BuiltKernel> built;
  for (size_t i : choice.builds) built.push_back(batch.kernels[i]);
  const size_t done = static_cast<size_t>(&choice - batch.choices.data());
  progress_.show_part(done + 1, done, batch.choices.size(),
                      fmt::format("{} {} m={}", options_.tune == TuneMode::off ? "verify" : "tune", problem.label(),
                                  choice.bucket.m_probe));
  if (!untried.empty()) return pick_untried(problem, choice, built, untried);
  return tune(problem, plan.constants[constant].segments, writer.packed(plan, constant), choice.bucket,
              choice.candidates, built, tune_options_);
}

void Chooser::count_noise(const TuneRecord& record) {
  report_.noise.timings += record.samples > 0;
  report_.noise.disturbed += is_disturbed(timing_of(record));
}

void Chooser::log_result(const TuneResult& result, bool tried) {
  report_.noise.close += result.close;
  for (const TuneRecord& record : result.records) {
    log_ += to_json_line(record) + "\n";
    count_noise(record);
    if (record.status == TrialStatus::reference || is_extern(record)) continue;
    ++report_.candidates;
    if (record.status == TrialStatus::failed_to_build) ++report_.candidates_failed;
    else if (record.status == TrialStatus::wrong || record.status == TrialStatus::crashed) ++report_.candidates_wrong;
    else if (tried) ++report_.candidates_correct;
  }
}

// A vendor's kernel competes, unless the pinned log holds another winner; one that won there is the only candidate.
Status Chooser::join_extern(const Plan& plan, Batch& batch, Choice& choice, const Pins& pins) {
  const TuneRecord* pin = pins.find(plan.problems[choice.problem].get<Problem>().signature(), choice.bucket);
  const bool pinned = pin && is_extern(*pin);
  if (!options_.extern_auto || (!pinned && (pin || options_.tune == TuneMode::off))) return {};
  return externs_.join(plan, batch, choice, pinned);
}

// Why a reference that is faster does not serve.
void Chooser::explain_references(TuneResult& result, int problem) const {
  const std::string& why_not = externs_.why_not(problem);
  if (result.winner < 0 || why_not.empty()) return;
  const double ours_s = result.records[static_cast<size_t>(result.winner)].median_s;
  for (TuneRecord& record : result.records)
    if (record.status == TrialStatus::reference && record.median_s > 0 && record.median_s < ours_s)
      record.reason += "; a program cannot call it: " + why_not;
}

Status Chooser::choose(const Plan& plan, Batch& batch, Choice& choice, const ProgramWriter& writer, const Pins& pins,
                       const std::string& untried) {
  const Problem& problem = plan.problems[choice.problem].get<Problem>();
  const std::string key = fmt::format("{} {} {}", problem.signature(), choice.bucket.m_min, choice.bucket.m_max);
  const Choice ours = choice;
  if (untried.empty() && !extern_refused_.contains(key)) QCG_CHECK(join_extern(plan, batch, choice, pins));
  if (!tuned_.contains(key)) {
    QCG_TRY(tuned, tune_choice(plan, batch, choice, writer, untried));
    explain_references(tuned, choice.problem);
    log_result(tuned, untried.empty());
    if (tuned.winner < 0 && choice.candidates[0].is_extern() &&
        !ours.candidates.empty()) {  // a pinned vendor's kernel is wrong on this machine: tune our candidates instead
      report_.warnings.push_back(fmt::format("{}: the pinned {} is wrong on this machine: {}", problem.label(),
                                             kExternCandidate, tuned.records[0].reason));
      extern_refused_.insert(key);
      choice = ours;
      choice.pinned = false;
      return choose(plan, batch, choice, writer, pins, untried);
    }
    tuned_[key] = std::move(tuned);
  }
  const TuneResult& result = tuned_.at(key);
  if (result.winner < 0) return no_kernel(problem, choice.bucket, result);
  choice.winner = result.winner;
  choice.won = result.records[static_cast<size_t>(result.winner)];
  add_report(plan, problem, choice, batch.kernels[choice.builds[static_cast<size_t>(result.winner)]], result);
  return {};
}

void Chooser::add_report(const Plan& plan, const Problem& problem, const Choice& choice, const BuiltKernel& kernel,
                         const TuneResult& result) {
  KernelReport out;
  for (const PlanStep& s : plan.steps)
    if (s.problem == choice.problem && out.step.empty()) out.step = s.name;
  out.name = kernel.source.name;
  out.nodes = problem.nodes;
  out.segments = static_cast<int>(problem.segments.size());
  out.status = kernel.vendor ? "extern" : kernel.hit ? "hit" : "built";
  out.m_min = choice.bucket.m_min;
  out.m_max = choice.bucket.m_max;
  out.m_probe = choice.bucket.m_probe;
  out.summary = fmt::format("{} {}·{}", scheme_name(problem.scheme), problem.n_total(), problem.k);
  out.record = result.records[static_cast<size_t>(result.winner)];
  for (const TuneRecord& record : result.records)
    if (record.status == TrialStatus::reference && record.median_s > 0 &&
        (out.reference.median_s <= 0 || record.median_s < out.reference.median_s))
      out.reference = record;
  report_.kernels.push_back(std::move(out));
}

Status Chooser::link_kernels(const Plan& plan, const Batch& batch, ProgramWriter& writer) const {
  std::set<int> with_vendor;
  for (size_t c = 0; c < batch.choices.size(); ++c) {
    const Choice& choice = batch.choices[c];
    const size_t build = choice.builds[static_cast<size_t>(choice.winner)];
    const bool last = c + 1 == batch.choices.size() || batch.choices[c + 1].problem != choice.problem;
    if (!last && batch.choices[c + 1].builds[static_cast<size_t>(batch.choices[c + 1].winner)] == build) continue;
    writer.add_kernel(choice.problem, last ? -1 : choice.bucket.m_max, batch.kernels[build]);
    if (batch.kernels[build].vendor && with_vendor.insert(choice.problem).second)
      QCG_CHECK(writer.add_vendor_weights(plan, choice.problem, *externs_.find(choice.problem), tune_options_.threads));
  }
  return {};
}

void Chooser::add_records(const std::vector<TuneRecord>& records) {
  for (const TuneRecord& record : records) {
    log_ += to_json_line(record) + "\n";
    count_noise(record);
  }
}

void Chooser::forget_plan() {
  report_.kernels.clear();
  externs_.forget();
}

}  // namespace qcg
