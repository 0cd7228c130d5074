#include "codegen/tune/step_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "codegen/check/call_memory.h"
#include "codegen/check/family_oracle.h"
#include "codegen/trial/cold_weights.h"
#include "codegen/trial/trial.h"
#include "codegen/tune/device_trial.h"
#include "graph/ops/infer.h"
#include "runtime/module.h"

namespace qcg {

using nlohmann::json;

namespace {

constexpr uint64_t kStepSeed = 0xd1b54a32d192ed03;
constexpr int64_t kAwkwardRows[] = {1, 3, 67};
constexpr size_t kMostSteps = 8;                    // whose sizes are checked, of those that run one kernel
constexpr int64_t kMostBytes = int64_t{256} << 20;  // of a call that is only checked
constexpr int64_t kMostTableBytes = int64_t{64} << 20, kLeastTable = 64;
constexpr int64_t kTypicalSize = 64;  // of symbols that rows say nothing about
constexpr double kFastBudget_s = 0.012, kFullBudget_s = 0.1;
constexpr double kStepTimeout_s = 60;      // without a sign of life, beside what a call may take at kSlowestStepGops
constexpr double kSlowestStepGops = 0.25;  // scalar code on a busy machine
constexpr int64_t kColdDeviceBytes = int64_t{256} << 20, kMostDeviceCopies = 64;  // more than L2 holds
constexpr std::byte kBenign{0x3c};  // repeated, it is a normal number of every float dtype, and a small integer

SymbolValues all_symbols(const Plan& plan, int64_t size) {
  SymbolValues out;
  for (const Symbol& symbol : plan.symbols)
    out[symbol.name] = std::clamp(size, std::max<int64_t>(symbol.min, 1), symbol.max);
  return out;
}

// Every symbol of the same size, the least that makes so many rows.
SymbolValues symbols_for(const Plan& plan, const Dim& rows, int64_t wanted) {
  if (rows.is_constant()) return all_symbols(plan, kTypicalSize);
  int64_t low = 1, high = std::max<int64_t>(wanted, 1);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (rows.evaluate(all_symbols(plan, middle)).value_or(INT64_MAX) >= wanted) high = middle;
    else low = middle + 1;
  }
  return all_symbols(plan, low);
}

// A tensor of the caller's has rows as far apart as the caller likes.
int64_t stride_of_caller(const KernelProblem& problem, const PlanStep& step, size_t arg) {
  constexpr int64_t kGap = 3;
  const std::vector<Reach> reaches = problem.family().reaches(problem, step.args.size(), 0);
  int64_t width = 1;
  for (size_t axis = 1; axis < reaches[arg].axes.size(); ++axis) width *= reaches[arg].axes[axis].extent.value;
  return width + kGap;
}

// Positions choose from tables, which may be larger than what is worth trying: the kernel takes any size.
void shrink_tables(const KernelProblem& problem, CallSizes& sizes) {
  const KernelFamily& family = problem.family();
  const std::vector<Reach> reaches = family.reaches(problem, sizes.strides.size(), 0);
  const std::vector<ArgumentKind> kinds = family.arguments(problem, sizes.strides.size());
  for (const Reach& reach : reaches) {
    if (!reach.positions || reach.positions->size.kind != Reach::Number::param) continue;
    int64_t& size = sizes.params[static_cast<size_t>(reach.positions->size.value)];
    for (; size > kLeastTable; size /= 2) {
      const auto layout = CallLayout::of(reaches, kinds, sizes, true);
      if (!layout.ok() || layout->bytes() <= kMostTableBytes) break;
    }
  }
}

CallSizes sizes_of(const KernelProblem& problem, const PlanStep& step, const SymbolValues& symbols) {
  CallSizes out;
  for (const Dim& param : step.params) out.params.push_back(param.evaluate(symbols).value_or(0));
  for (size_t i = 0; i < step.args.size(); ++i)
    out.strides.push_back(step.args[i].stride ? step.args[i].stride->evaluate(symbols).value_or(0)
                                              : stride_of_caller(problem, step, i));
  shrink_tables(problem, out);
  return out;
}

// A run refuses sizes that leave an axis negative.
bool has_negative_axis(const KernelProblem& problem, const CallSizes& sizes) {
  const std::vector<Reach> reaches = problem.family().reaches(problem, sizes.strides.size(), 0);
  for (size_t i = 0; i < reaches.size(); ++i)
    if (least_extent(reaches[i], sizes.params, sizes.strides[i]) < 0) return true;
  return false;
}

double bytes_of(const KernelProblem& problem, const CallSizes& sizes) {
  return bytes_moved(problem.family().reaches(problem, sizes.strides.size(), 0), sizes);
}

void add_checks(const Plan& plan, const KernelProblem& problem, const PlanStep& step, bool all, StepTrial& trial) {
  for (const int64_t rows : kAwkwardRows)
    for (const SymbolValues& symbols : {symbols_for(plan, step.rows, rows), all_symbols(plan, rows)}) {
      CallSizes sizes = sizes_of(problem, step, symbols);
      if (has_negative_axis(problem, sizes)) continue;
      const bool is_known = std::find(trial.checks.begin(), trial.checks.end(), sizes) != trial.checks.end();
      const bool is_large = bytes_of(problem, sizes) > static_cast<double>(kMostBytes);
      if (!is_known && (trial.checks.empty() || (!is_large && (all || rows == kAwkwardRows[1]))))
        trial.checks.push_back(std::move(sizes));
    }
}

void add_timed(const Plan& plan, const KernelProblem& problem, const PlanStep& step, std::span<const int64_t> ms,
               TuneMode mode, StepTrial& trial) {
  const DimRange range = range_of(step.rows, plan.symbols);
  for (const Bucket& bucket : buckets_of(range.min, range.max, ms)) {
    const SymbolValues symbols = symbols_for(plan, step.rows, timed_m(bucket, mode));
    const int64_t m = step.rows.evaluate(symbols).value_or(0);
    trial.timed.push_back({bucket, m, sizes_of(problem, step, symbols)});
  }
}

// What is known of a kernel before it is tried.
TuneRecord describe_step(const StepTrial& trial, const StepTrial::At& at) {
  const KernelProblem& problem = *trial.problem;
  const KernelFamily& family = problem.family();
  const std::vector<Reach> reaches = family.reaches(problem, at.sizes.strides.size(), 0);
  TuneRecord r = describe_build(*trial.kernel, at.bucket);
  r.family = family.name;
  r.problem = problem_signature(problem);
  r.step = trial.step;
  r.nodes = trial.nodes;
  r.candidate = family.name;
  r.activation = dtype_name(family.arguments(problem, at.sizes.strides.size())[0].dtype);
  r.epilogue = family.formula(problem);
  r.m = at.m;
  const auto output = std::find_if(reaches.begin(), reaches.end(), [](const Reach& reach) { return reach.writes; });
  const double elements = bytes_moved({&*output, 1}, at.sizes) / static_cast<double>(output->item);
  r.n = at.m > 0 ? static_cast<int64_t>(elements) / at.m : 0;
  r.segments = 1;
  return r;
}

Result<const qcg_kernel*> load(const BuiltKernel& kernel, std::vector<Module>& modules) {
  QCG_TRY(module, Module::load_bytes(kernel.bytes, kernel.source.name));
  modules.push_back(std::move(module));
  return modules.back().find_kernel(kernel.source.symbol);
}

void send_timing(size_t index, size_t place, const Timing& t, ChildReport& report) {
  report.send(json{{"i", index},
                   {"at", place},
                   {"median", t.median_s},
                   {"p10", t.p10_s},
                   {"p90", t.p90_s},
                   {"samples", t.samples},
                   {"disturbed", t.disturbed}}
                  .dump());
}

double budget_of(const TuneOptions& options) { return options.mode == TuneMode::full ? kFullBudget_s : kFastBudget_s; }

// Calls of one kernel one after the other through more memory than caches hold, each in a place of its own.
Status time_at(ThreadPool& pool, const qcg_kernel& kernel, const StepTrial& trial, size_t place, AlignedBuffer& arena,
               const TuneOptions& options, size_t index, ChildReport& report) {
  const KernelProblem& problem = *trial.problem;
  const StepTrial::At& at = trial.timed[place];
  const size_t args = at.sizes.strides.size();
  const std::vector<Reach> reaches = problem.family().reaches(problem, args, 0);
  QCG_TRY(layout, CallLayout::of(reaches, problem.family().arguments(problem, args), at.sizes, true));
  const int64_t bytes = layout.bytes(), copies = std::max<int64_t>(1, cold_bytes_at(1) / std::max<int64_t>(bytes, 1));
  QCG_CHECK(arena.reserve(copies * bytes));
  std::memset(arena.data(), static_cast<int>(kBenign), static_cast<size_t>(copies * bytes));
  std::vector<std::vector<qcg_arg>> calls;
  for (int64_t c = 0; c < copies; ++c) {
    layout.fill_positions(arena.data() + c * bytes, kStepSeed + static_cast<uint64_t>(c));
    calls.push_back(layout.args_at(arena.data() + c * bytes));
  }
  Workspace workspace;
  size_t turn = 0;
  std::vector<Contender> contenders(1);
  contenders[0].index = index;
  contenders[0].run = [&] {
    const qcg_call call{calls[turn++ % calls.size()].data(), at.sizes.params.data(), nullptr};
    (void)run_kernel(pool, kernel, call, workspace);
  };
  time_in_rounds(contenders, budget_of(options), report);
  send_timing(index, place, timing_of(contenders[0].samples), report);
  return {};
}

void send_verdict(size_t index, const OracleReport& r, ChildReport& report) {
  report.send(json{{"i", index}, {"ok", r.ok}, {"error", r.max_error}, {"bound", r.bound}, {"reason", r.reason}}.dump(
      -1, ' ', false, json::error_handler_t::replace));
}

// Every kernel at its awkward sizes; false at the first that is wrong.
template <class Check>
bool check_all(std::span<const StepTrial> trials, ChildReport& report, Check check) {
  for (size_t i = 0; i < trials.size(); ++i) {
    report.begin(i);
    OracleReport worst;
    for (const CallSizes& sizes : trials[i].checks) {
      report.send("");  // a sign of life
      const OracleReport r = check(i, sizes);
      if (!r.ok || r.max_error >= worst.max_error) worst = r;
      if (!r.ok) break;
    }
    send_verdict(i, worst, report);
    if (!worst.ok) return false;
  }
  return true;
}

// The same on a device: every kernel once, then launches in graphs.
Status try_on_device(std::span<const StepTrial> trials, const TuneOptions& options, ChildReport& report) {
  QCG_TRY(device, DeviceTrial::open(trials[0].kernel->source.isa));
  const auto check = [&](size_t i, const CallSizes& sizes) {
    return check_call_at([&](CallMemory& call) { return device.run(*trials[i].kernel, call); }, *trials[i].problem,
                         sizes, kStepSeed);
  };
  if (!check_all(trials, report, check) || options.mode == TuneMode::off) return {};
  for (size_t i = 0; i < trials.size(); ++i)
    for (size_t place = 0; place < trials[i].timed.size(); ++place) {
      report.begin(i);
      const CallSizes& sizes = trials[i].timed[place].sizes;
      const KernelFamily& family = trials[i].problem->family();
      const size_t args = sizes.strides.size();
      QCG_TRY(layout, CallLayout::of(family.reaches(*trials[i].problem, args, 0),
                                     family.arguments(*trials[i].problem, args), sizes, true));
      const int64_t copies =
          std::clamp<int64_t>(kColdDeviceBytes / std::max<int64_t>(layout.bytes(), 1), 1, kMostDeviceCopies);
      QCG_TRY(clock, device.clock(*trials[i].kernel, layout, copies, kBenign, kStepSeed));
      std::vector<Contender> contenders(1);
      contenders[0].index = i;
      contenders[0].clock = std::move(clock);
      time_in_rounds(contenders, budget_of(options), report);
      send_timing(i, place, timing_of(contenders[0].samples), report);
    }
  return {};
}

Status try_in_child(std::span<const StepTrial> trials, const TuneOptions& options, ChildReport& report) {
  if (trials[0].kernel->source.on_device()) return try_on_device(trials, options, report);
  ThreadPool pool({.threads = options.threads});
  std::vector<Module> modules;
  modules.reserve(trials.size());
  std::vector<const qcg_kernel*> kernels;
  for (size_t i = 0; i < trials.size(); ++i) {
    report.begin(i);
    QCG_TRY(kernel, load(*trials[i].kernel, modules));
    kernels.push_back(kernel);
  }
  const auto check = [&](size_t i, const CallSizes& sizes) {
    return check_kernel_at(pool, *kernels[i], *trials[i].problem, sizes, kStepSeed);
  };
  if (!check_all(trials, report, check) || options.mode == TuneMode::off) return {};
  AlignedBuffer arena;
  for (size_t i = 0; i < trials.size(); ++i)
    for (size_t at = 0; at < trials[i].timed.size(); ++at) {
      report.begin(i);
      QCG_CHECK(time_at(pool, *kernels[i], trials[i], at, arena, options, i, report));
    }
  return {};
}

// A message of the process that tries kernels, which may have scribbled over it: nothing is taken on trust.
std::optional<json> parse_trial_message(const std::string& message, size_t trials) {
  json m = json::parse(message, nullptr, false);
  if (!m.is_object() || !m.contains("i") || !m["i"].is_number_unsigned() || m["i"].get<size_t>() >= trials) return {};
  return m;
}

// Why the process stopped trying; empty: the message says something else.
std::string failure_in(const std::string& message) {
  const json m = json::parse(message, nullptr, false);
  return m.is_object() && m.contains("failure") && m["failure"].is_string() ? m["failure"].get<std::string>() : "";
}

double number_in(const json& m, const char* name) {
  return m.contains(name) && m[name].is_number() ? m[name].get<double>() : 0;
}

Status take_verdict(const StepTrial& trial, const json& m, TuneResult& result) {
  for (TuneRecord& r : result.records) r.max_error = number_in(m, "error"), r.error_bound = number_in(m, "bound");
  if (m["ok"].is_boolean() && m["ok"].get<bool>()) return result.winner = 0, Status();
  const std::string why = m.contains("reason") && m["reason"].is_string() ? m["reason"] : "";
  return Error::internal(trial.step, fmt::format("its {} kernel is wrong: {}", trial.problem->family().name, why));
}

void take_timing(const StepTrial& trial, const json& m, const Ceilings& ceilings, TuneResult& result) {
  const double place = number_in(m, "at");
  if (place < 0 || place >= static_cast<double>(result.records.size())) return;
  const auto at = static_cast<size_t>(place);
  TuneRecord& r = result.records[at];
  r.median_s = number_in(m, "median"), r.p10_s = number_in(m, "p10"), r.p90_s = number_in(m, "p90");
  r.samples = static_cast<int>(number_in(m, "samples")), r.disturbed = static_cast<int>(number_in(m, "disturbed"));
  if (r.median_s <= 0) return;
  const CallSizes& sizes = trial.timed[at].sizes;
  const double bytes = bytes_of(*trial.problem, sizes),
               operations = trial.problem->family().operations(*trial.problem, sizes);
  r.gbps = bytes / r.median_s / 1e9;
  r.gflops = operations / r.median_s / 1e9;
  double floor_s = 0;
  if (ceilings.read_gbps > 0) floor_s = bytes / (ceilings.read_gbps * 1e9);
  if (ceilings.peak_gflops_f32 > 0) floor_s = std::max(floor_s, operations / (ceilings.peak_gflops_f32 * 1e9));
  r.share = floor_s / r.median_s;
  r.status = TrialStatus::won;
}

}  // namespace

StepTrial step_trial(const Plan& plan, int problem, const BuiltKernel& kernel, std::span<const int64_t> ms,
                     TuneMode mode) {
  StepTrial out;
  out.problem = &plan.problems[static_cast<size_t>(problem)];
  out.kernel = &kernel;
  size_t steps = 0;
  for (const PlanStep& step : plan.steps) {
    if (step.problem != problem || ++steps > kMostSteps) continue;
    add_checks(plan, *out.problem, step, steps == 1, out);
    if (steps > 1) continue;
    out.step = step.name, out.nodes = step.nodes;
    add_timed(plan, *out.problem, step, ms, mode, out);
  }
  return out;
}

double step_timeout_s(std::span<const StepTrial> trials, TuneMode mode) {
  double most = 0;
  const auto add = [&](const StepTrial& trial, const CallSizes& sizes) {
    most = std::max(most, trial.problem->family().operations(*trial.problem, sizes));
  };
  for (const StepTrial& trial : trials) {
    for (const CallSizes& sizes : trial.checks) add(trial, sizes);
    for (const StepTrial::At& at : trial.timed)
      if (mode != TuneMode::off) add(trial, at.sizes);
  }
  return kStepTimeout_s + most / (kSlowestStepGops * 1e9);
}

TuneResult untried_step(const StepTrial& trial, const std::string& why) {
  TuneResult out;
  for (const StepTrial::At& at : trial.timed) {
    out.records.push_back(describe_step(trial, at));
    if (!why.empty()) out.records.back().reason = "not tried: " + why;
  }
  out.winner = 0;
  return out;
}

Result<std::vector<TuneResult>> try_steps(std::span<const StepTrial> trials, const TuneOptions& options) {
  std::vector<TuneResult> out;
  for (const StepTrial& trial : trials) {
    out.push_back(untried_step(trial, ""));
    out.back().winner = -1;
    for (TuneRecord& record : out.back().records) {
      record.threads = options.threads;
      if (const KernelSource& source = trial.kernel->source; source.on_device())
        record.machine += " " + device_facts(source.isa).name;
    }
  }
  if (trials.empty()) return out;
  const auto work = [&](ChildReport& report) {
    if (const Status status = try_in_child(trials, options, report); !status.ok())
      report.send(json{{"failure", status.error().message}}.dump(-1, ' ', false, json::error_handler_t::replace));
  };
  QCG_TRY(child, run_in_child(step_timeout_s(trials, options.mode), work, options.cancel));
  std::string stopped;  // why nothing was tried from there on
  for (const std::string& message : child.messages) {
    const auto m = parse_trial_message(message, trials.size());
    if (!m) stopped = failure_in(message);
    if (!m) continue;
    const size_t i = (*m)["i"];
    if (m->contains("ok")) {
      QCG_CHECK(take_verdict(trials[i], *m, out[i]));
    } else {
      take_timing(trials[i], *m, options.ceilings, out[i]);
    }
  }
  const size_t current = std::min(static_cast<size_t>(std::max<int64_t>(0, child.current)), trials.size() - 1);
  if (!child.failure.empty())
    return Error::internal(trials[current].step, fmt::format("its {} kernel crashed: {}",
                                                             trials[current].problem->family().name, child.failure));
  for (size_t i = 0; i < trials.size(); ++i) {
    if (out[i].winner < 0 && !stopped.empty())
      return Error::internal(trials[current].step, fmt::format("its {} kernel cannot be tried: {}",
                                                               trials[current].problem->family().name, stopped));
    if (out[i].winner < 0)
      return Error::internal(trials[i].step, "the process that tries its kernel said nothing of it");
    for (TuneRecord& record : out[i].records)
      if (!stopped.empty() && record.median_s <= 0) record.reason = "not timed: " + stopped;
  }
  return out;
}

}  // namespace qcg
