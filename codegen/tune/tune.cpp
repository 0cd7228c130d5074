#include "codegen/tune/tune.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "codegen/gemm/kernel_oracle.h"
#include "codegen/gemm/rounded_weights.h"
#include "codegen/gemm/schedules.h"
#include "codegen/kernel/launch.h"
#include "codegen/trial/trial.h"
#include "codegen/tune/device_reference.h"
#include "codegen/tune/device_trial.h"
#include "codegen/vendor/vendor_timings.h"
#include "runtime/module.h"

namespace qcg {

using nlohmann::json;

namespace {

constexpr int64_t kFastMaxM = 128;
// Reading less takes little longer than waking the threads: what was measured first is the better ceiling.
constexpr size_t kEnoughToRead = 1 << 20;
constexpr double kTrialTimeout_s = 20;  // without a sign of life, beside what the work may take at kSlowestGops
constexpr double kSlowestGops = 0.25;   // scalar code on a busy machine
constexpr size_t kMaxReferences = 16;
constexpr double kDrift = 1.5;  // what the machine can do changed by more within a contest: nothing is certain
constexpr const char *kReads = "reads", *kMultiplies = "multiplies";  // what is timed that is no kernel
constexpr uint64_t kSeed = 0x9e3779b97f4a7c15;

// What a trial says. A candidate may have scribbled over the process that says it, so nothing is taken on trust.
std::optional<json> parse_message(const std::string& message, std::initializer_list<const char*> numbers,
                                  size_t limit) {
  json m = json::parse(message, nullptr, false);
  if (!m.is_object() || !m.contains("i") || !m["i"].is_number_unsigned() || m["i"].get<size_t>() >= limit) return {};
  for (const char* name : numbers)
    if (!m.contains(name) || !m[name].is_number()) return {};
  return m;
}

// A kernel loaded from bytes; lives as long as the (child) process.
struct Loaded {
  std::vector<Module> modules;
  const qcg_kernel* kernel = nullptr;

  static Result<Loaded> load(const BuiltKernel& built) {
    auto module = Module::load_bytes(built.bytes, built.source.name);
    if (!module.ok()) return module.error();
    Loaded out;
    out.modules.push_back(std::move(*module));
    QCG_TRY(kernel, out.modules[0].find_kernel(built.source.symbol));
    out.kernel = kernel;
    return out;
  }
};

// M values at which a candidate must match before it is timed: the bucket's ends and rows that leave a partial tile.
std::vector<int64_t> awkward_m(const Problem& problem, const Bucket& bucket) {
  std::vector<int64_t> out;
  const int64_t high = std::min(bucket.m_max, problem.m_max);
  for (int64_t m : {bucket.m_min, std::min(high, bucket.m_min + 2),
                    std::min({high, bucket.m_min + 10, int64_t{67} + bucket.m_min / 4})})
    if (m >= bucket.m_min && std::find(out.begin(), out.end(), m) == out.end()) out.push_back(m);
  return out;
}

bool rounds_weights(const Candidate& candidate) {
  const auto* schedule = candidate.schedule_if<GemmSchedule>();
  return schedule && schedule->scaling == Scaling::rounded_weights;
}

// One tuning of one problem in one bucket.
class Tuning {
 public:
  Tuning(const Problem& problem, const std::vector<SegmentTensors>& tensors, std::span<const std::byte> packed,
         const Bucket& bucket, const std::vector<Candidate>& candidates, const std::vector<BuiltKernel>& built,
         const TuneOptions& options)
      : problem_(problem),
        tensors_(tensors),
        packed_(packed),
        bucket_(bucket),
        candidates_(candidates),
        built_(built),
        options_(options),
        ceilings_(options.ceilings) {
    m_ = timed_m(bucket, options.mode);
    for (size_t i = 0; i < built.size(); ++i) result_.records.push_back(new_record(built[i], candidates[i]));
  }

  Result<TuneResult> run() {
    for (size_t i = 0; i < built_.size(); ++i)
      if (!built_[i].ok()) set(i, TrialStatus::failed_to_build, built_[i].failure);
    QCG_CHECK(verify_all());
    std::vector<size_t> alive = alive_candidates();
    if (alive.empty()) return std::move(result_);
    result_.winner = static_cast<int>(alive[0]);
    if (options_.mode == TuneMode::off) return std::move(result_);
    QCG_CHECK(time_all(alive));
    decide();
    return std::move(result_);
  }

 private:
  TuneRecord new_record(const BuiltKernel& kernel, const Candidate& candidate) const {
    TuneRecord r = describe_kernel(problem_, candidate, kernel, bucket_);
    r.m = m_;
    r.threads = options_.threads;
    if (kernel.source.on_device()) r.machine += " " + device_facts(kernel.source.isa).name;
    return r;
  }

  void set(size_t i, TrialStatus status, std::string reason) {
    result_.records[i].status = status;
    result_.records[i].reason = std::move(reason);
  }

  const VendorCall* vendor_of(size_t i) const { return built_[i].vendor ? &*built_[i].vendor : nullptr; }

  std::vector<size_t> alive_candidates() const {
    std::vector<size_t> alive;
    for (size_t i = 0; i < built_.size(); ++i)
      if (result_.records[i].status == TrialStatus::untimed) alive.push_back(i);
    return alive;
  }

  // Every built candidate against the oracle; with --tune=off until the first is right.
  Status verify_all() {
    const std::vector<int64_t> ms = awkward_m(problem_, bucket_);
    const KernelOracle exact(problem_, tensors_, ms, kSeed);
    std::optional<RoundedProblem> dense;
    std::optional<KernelOracle> rounded;
    if (std::any_of(candidates_.begin(), candidates_.end(), rounds_weights)) {
      dense = round_weights(problem_, tensors_);
      rounded.emplace(dense->problem, dense->tensors, ms, kSeed);
    }
    const auto oracle_of = [&](size_t i) -> const KernelOracle& {
      return rounds_weights(candidates_[i]) ? *rounded : exact;
    };
    const double timeout_s = trial_timeout_s(ms.back()) * 2;
    for (size_t next = 0; next < built_.size();) {
      const size_t first = next;
      const auto work = [&](ChildReport& report) { verify_in_child(oracle_of, next, report); };
      QCG_TRY(child, run_in_child(timeout_s, work, options_.cancel));
      bool found = false;
      for (const std::string& message : child.messages) found = take_verdict(message, next) || found;
      if (!child.failure.empty()) {
        const size_t culprit = std::max(next, static_cast<size_t>(std::max<int64_t>(0, child.current)));
        if (child.current < 0 || culprit >= built_.size())
          return Error::internal("tuner", "the trial process failed: " + child.failure);
        set(culprit, TrialStatus::crashed, child.failure);
        next = culprit + 1;
      }
      if (options_.mode == TuneMode::off && found) break;
      if (child.failure.empty() && child.messages.empty()) break;  // nothing left that was built
      if (next == first) return Error::internal("tuner", "a verdict of the trial process cannot be read");
    }
    return {};
  }

  // True for a candidate that is right. Everything up to the one the message is about is done.
  bool take_verdict(const std::string& message, size_t& next) {
    const auto m = parse_message(message, {"error", "bound"}, built_.size());
    if (!m || !m->contains("ok") || !(*m)["ok"].is_boolean() || !m->contains("reason") || !(*m)["reason"].is_string())
      return false;
    const size_t i = (*m)["i"];
    result_.records[i].max_error = (*m)["error"];
    result_.records[i].error_bound = (*m)["bound"];
    next = std::max(next, i + 1);
    if ((*m)["ok"]) return true;
    set(i, TrialStatus::wrong, (*m)["reason"]);
    return false;
  }

  bool on_device() const { return !built_.empty() && built_[0].source.on_device(); }

  template <class OracleOf>
  void verify_in_child(const OracleOf& oracle_of, size_t first, ChildReport& report) const {
    ThreadPool pool({.threads = on_device() ? 1 : options_.threads});
    std::optional<DeviceTrial> device;
    if (on_device()) {
      auto opened = DeviceTrial::open(built_[0].source.isa);
      if (!opened.ok()) return report.fail(opened.error().message);
      device.emplace(std::move(*opened));
    }
    const auto check = [&](size_t i) {
      if (device) return device->check(built_[i], oracle_of(i), packed_);
      auto loaded = Loaded::load(built_[i]);
      return loaded.ok() ? oracle_of(i).run_and_check(pool, *loaded->kernel, packed_, vendor_of(i))
                         : OracleReport{false, 0, 0, loaded.error().message};
    };
    for (size_t i = first; i < built_.size(); ++i) {
      if (!built_[i].ok()) continue;
      report.begin(i);
      const OracleReport r = check(i);
      report.send(json{{"i", i}, {"ok", r.ok}, {"error", r.max_error}, {"bound", r.bound}, {"reason", r.reason}}.dump(
          -1, ' ', false, json::error_handler_t::replace));
      // What is wrong may have written where it should not: the next one gets a process of its own.
      if (!r.ok || options_.mode == TuneMode::off) return;
    }
  }

  // How long one execution at m may go without a sign of life.
  double trial_timeout_s(int64_t m) const {
    return options_.trial_timeout_s > 0 ? options_.trial_timeout_s
                                        : kTrialTimeout_s + problem_.operations(m) / (kSlowestGops * 1e9);
  }

  // Times the alive candidates and the references in one child; a crash drops the culprit and starts again.
  Status time_all(std::vector<size_t> alive) {
    const double timeout_s = 2 * trial_timeout_s(m_) + 2 * kOverBudget * options_.budget_s;
    const int64_t cold_bytes = cold_bytes_at(bucket_.m_min);
    // Here, where the next bucket finds them.
    Copies copies{options_.cold_weights->copies(packed_, cold_bytes), {}};
    for (size_t i : alive)
      if (vendor_of(i)) copies.vendor = options_.cold_vendor_weights->copies(vendor_of(i)->weights, cold_bytes);
    while (!alive.empty()) {
      const auto work = [&](ChildReport& report) { time_in_child(alive, cold_bytes, copies, report); };
      QCG_TRY(child, run_in_child(timeout_s, work, options_.cancel));
      if (child.failure.empty()) {
        for (const std::string& message : child.messages) take_timing(message);
        return {};
      }
      const auto culprit = std::find(alive.begin(), alive.end(), static_cast<size_t>(child.current));
      if (culprit == alive.end()) {
        if (!options_.references || child.current < 0)
          return Error::internal("tuner", "the timing process failed: " + child.failure);
        options_.references = false;  // a vendor library failed: its loss
        add_reference("vendor library").reason = "crashed: " + child.failure;
        continue;
      }
      set(*culprit, TrialStatus::crashed, child.failure);
      alive.erase(culprit);
    }
    return {};
  }

  TuneRecord& add_reference(std::string name) {
    TuneRecord r = result_.records[0];
    r.kernel = std::move(name);
    r.candidate.clear();
    r.key.clear();
    r.reason.clear();
    r.cache_hit = false;
    r.compile_s = r.max_error = r.error_bound = 0;
    r.status = TrialStatus::reference;
    return result_.records.emplace_back(std::move(r));
  }

  bool take_ceiling(const std::string& message) {
    const json m = json::parse(message, nullptr, false);
    if (!m.is_object() || !m.contains("ceiling") || !m.contains("giga_per_s")) return false;
    const double rate = m["giga_per_s"].is_number() ? m["giga_per_s"].get<double>() : 0;
    drifted_ = drifted_ || (m.contains("drift") && m["drift"].is_number() && m["drift"].get<double>() > kDrift);
    if (rate > 0 && m["ceiling"] == kReads) ceilings_.read_gbps = rate;
    if (rate > 0 && m["ceiling"] == kMultiplies) {
      const Fastest before = fastest_compute(problem_, ceilings_);
      const double faster = rate / ceilings_.instruction_gflops[before.compute];  // and so are the others
      for (auto& [compute, gflops] : ceilings_.instruction_gflops) gflops *= faster;
    }
    return true;
  }

  void take_timing(const std::string& message) {
    if (take_ceiling(message)) return;
    const auto parsed =
        parse_message(message, {"median", "p10", "p90", "samples", "disturbed"}, built_.size() + kMaxReferences);
    if (!parsed || !parsed->contains("name") || !(*parsed)["name"].is_string() || !parsed->contains("dropped")) return;
    const json& m = *parsed;
    const size_t i = m["i"];
    TuneRecord& r = i < built_.size() ? result_.records[i] : add_reference(m["name"]);
    r.median_s = m["median"];
    r.p10_s = m["p10"];
    r.p90_s = m["p90"];
    r.samples = m["samples"];
    r.disturbed = drifted_ ? r.samples : m["disturbed"].get<int>();
    if (m.contains("reason") && m["reason"].is_string()) r.reason = m["reason"];
    if (r.median_s <= 0) return;
    r.gbps = bytes_moved(problem_, m_, static_cast<int64_t>(packed_.size())) / r.median_s / 1e9;
    r.gflops = problem_.operations(m_) / r.median_s / 1e9;
    r.share = roofline_seconds(problem_, m_, static_cast<int64_t>(packed_.size()), ceilings_) / r.median_s;
    if (i < built_.size() && m["dropped"] == true) set(i, TrialStatus::too_slow, "dropped early");
  }

  // What rotates, so that every pass finds its weights cold.
  struct Copies {
    std::vector<std::span<const std::byte>> packed, vendor;
  };

  // The machine is not the same from one second to the next, so what it can do is timed between the candidates: reading
  // weights, where they are cold, and the instruction that the problem is judged by.
  void add_ceilings(ThreadPool& pool, const Copies& copies, int64_t cold_bytes, double& operations,
                    std::vector<Contender>& contenders) const {
    const auto add = [&](const char* name, std::function<void()> run) {
      contenders.push_back({built_.size(), name, Role::ceiling, std::move(run), 1, {}, {}, false});
    };
    if (ceilings_.read_gbps > 0 && cold_bytes > 0 && packed_.size() >= kEnoughToRead)
      add(kReads, [&pool, &copies, turn = size_t{0}]() mutable {
        read_once(pool, copies.packed[turn++ % copies.packed.size()]);
      });
    if (const std::string_view compute = fastest_compute(problem_, ceilings_).compute; !compute.empty())
      add(kMultiplies,
          [&operations, &pool, isa = ceilings_.isa, compute] { operations = multiply_once(pool, isa, compute); });
  }

  void time_in_child(const std::vector<size_t>& alive, int64_t cold_bytes, const Copies& copies,
                     ChildReport& report) const {
    if (on_device()) return time_on_device(alive, cold_bytes, copies, report);
    // References first: a vendor's threads must not be started while ours spin.
    const KernelInputs inputs(problem_, m_, kSeed);
    std::vector<Contender> contenders;
    if (options_.references) {
      report.begin(built_.size());
      for (Reference& r : references_for(problem_, tensors_, inputs, options_.threads, cold_bytes))
        contenders.push_back(
            {built_.size() + contenders.size(), r.name, Role::vendor, std::move(r.run), 1, {}, {}, false});
    }
    ThreadPool pool({.threads = options_.threads});
    Workspace workspace;
    GuardedOutputs outputs(problem_, m_);
    report.send("");  // a sign of life after what may take long
    std::vector<Loaded> loaded;
    loaded.reserve(alive.size());
    size_t turn = 0;
    for (size_t i : alive) {
      auto module = Loaded::load(built_[i]);
      if (!module.ok()) continue;
      loaded.push_back(std::move(*module));
      auto run = [&, kernel = loaded.back().kernel, vendor = built_[i].vendor]() mutable {
        const size_t now = turn++;
        if (vendor) vendor->weights = copies.vendor[now % copies.vendor.size()];
        const KernelCall arguments(inputs, copies.packed[now % copies.packed.size()], outputs,
                                   vendor ? &*vendor : nullptr);
        (void)run_kernel(pool, *kernel, arguments.call(), workspace);
      };
      if (vendor_of(i) && !prepare_vendor(i, *loaded.back().kernel, inputs, outputs, copies, report)) continue;
      if (vendor_of(i)) run();
      contenders.push_back({i, built_[i].source.name, Role::candidate, run, 1, {}, {}, false});
    }
    const size_t kernels = contenders.size();
    double operations = 0;  // of what multiplies, in one run
    add_ceilings(pool, copies, cold_bytes, operations, contenders);
    time_in_rounds(contenders, options_.budget_s, report);
    for (size_t i = kernels; i < contenders.size(); ++i) {
      const double done = contenders[i].name == kReads ? static_cast<double>(packed_.size()) : operations;
      const Timing t = timing_of(contenders[i].samples);
      const double seconds = ceiling_s(t), drift = drift_of(contenders[i].samples);
      report.send(json{{"ceiling", contenders[i].name}, {"giga_per_s", done / seconds / 1e9}, {"drift", drift}}.dump());
    }
    contenders.resize(kernels);
    send_timings(contenders, report);
  }

  // A vendor's product beside kernels of a device; where it has none of this one, the record says why.
  void add_device_reference(DeviceTrial& device, const KernelInputs& inputs, int64_t cold_bytes,
                            std::vector<Contender>& contenders, ChildReport& report) const {
    if (!options_.references) return;
    report.begin(built_.size());
    const auto reference = DeviceReference::find(problem_);
    if (!reference) return;
    report.send("");  // a sign of life
    auto clock = reference->clock(device, problem_, tensors_, inputs, options_.threads, cold_bytes);
    if (clock.ok())
      contenders.push_back({built_.size(), reference->name(), Role::vendor, {}, 1, std::move(*clock), {}, false});
    else send_timing({built_.size(), reference->name(), Role::vendor, {}}, clock.error().message, report);
  }

  // Launches in graphs, each through copies of the weights that no cache holds together.
  void time_on_device(const std::vector<size_t>& alive, int64_t cold_bytes, const Copies& copies,
                      ChildReport& report) const {
    auto device = DeviceTrial::open(built_[alive[0]].source.isa);
    if (!device.ok()) return report.fail(device.error().message);
    const KernelInputs inputs(problem_, m_, kSeed);
    std::vector<Contender> contenders;
    for (size_t i : alive) {
      report.begin(i);
      report.send("");  // a sign of life
      auto clock = device->clock(built_[i], problem_, inputs, copies.packed);
      if (!clock.ok()) return report.fail(clock.error().message);
      contenders.push_back({i, built_[i].source.name, Role::candidate, {}, 1, std::move(*clock), {}, false});
    }
    add_device_reference(*device, inputs, cold_bytes, contenders, report);
    time_in_rounds(contenders, options_.budget_s, report);
    send_timings(contenders, report);
  }

  static void send_timings(const std::vector<Contender>& contenders, ChildReport& report) {
    for (const Contender& c : contenders) send_timing(c, "", report);
  }

  static void send_timing(const Contender& c, const std::string& reason, ChildReport& report) {
    const Timing t = timing_of(c.samples);
    report.send(json{
        {"i", c.index},
        {"name", c.name},
        {"median", t.median_s},
        {"p10", t.p10_s},
        {"p90", t.p90_s},
        {"samples", t.samples},
        {"disturbed", t.disturbed},
        {"dropped", c.dropped},
        {"reason",
         reason}}.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  // A vendor brings weights to its own order when it is first asked about them and makes code when it first runs, which
  // a program sees once: not timed.
  bool prepare_vendor(size_t i, const qcg_kernel& kernel, const KernelInputs& inputs, GuardedOutputs& outputs,
                      const Copies& copies, ChildReport& report) const {
    for (const auto& copy : copies.vendor) {
      const VendorCall vendor{vendor_of(i)->params, copy};
      const KernelCall arguments(inputs, packed_, outputs, &vendor);
      const qcg_call call = arguments.call();
      if (kernel.shared_bytes(&call) < 0) return false;
      report.send("");
    }
    return true;
  }

  void decide() {
    std::vector<size_t> alive = alive_candidates();
    std::vector<Timing> timings;
    for (size_t i : alive) timings.push_back(timing_of(result_.records[i]));
    const int chosen = choose_winner(timings);
    result_.close = is_close(timings, chosen);
    // Where nothing could be timed, the first right one that did not crash meanwhile.
    result_.winner = alive.empty() ? -1 : static_cast<int>(alive[static_cast<size_t>(std::max(chosen, 0))]);
    if (chosen < 0) return;
    const Timing& best = timings[static_cast<size_t>(chosen)];
    for (size_t i = 0; i < result_.records.size(); ++i)
      if (TuneRecord& r = result_.records[i]; r.median_s > 0)
        explain_result(r, static_cast<int>(i) == result_.winner, best);
  }

  static void explain_result(TuneRecord& r, bool is_winner, const Timing& best) {
    const double ratio = r.median_s / best.median_s, percent = (ratio - 1) * 100;
    const bool once = r.samples == 1 || best.samples == 1;  // too little for a ratio
    const char* word = percent >= 0 ? "slower" : "faster";
    if (is_winner) {
      r.status = TrialStatus::won;
      if (is_extern(r)) r.reason = "oneDNN serves this range";
    } else if (r.status == TrialStatus::reference) {
      r.reason = once ? fmt::format("{} than the winner, by one run", word)
                      : fmt::format("{:.2f} times {} than the winner", std::max(ratio, 1 / ratio), word);
    } else if (r.status == TrialStatus::too_slow) {
      r.reason = once ? "dropped early" : fmt::format("dropped early, {:.0f} % slower", percent);
    } else {
      r.status = TrialStatus::lost;
      r.reason = percent < 0 ? "within the noise of the winner"
                 : once      ? "slower, by one run"
                             : fmt::format("lost by {:.1f} %", percent);
    }
  }

  const Problem& problem_;
  const std::vector<SegmentTensors>& tensors_;
  std::span<const std::byte> packed_;
  const Bucket& bucket_;
  const std::vector<Candidate>& candidates_;
  const std::vector<BuiltKernel>& built_;
  TuneOptions options_;
  bool drifted_ = false;  // the machine became another while it was timed
  Ceilings ceilings_;     // as they were in the rounds that the kernels were timed in
  int64_t m_ = 1;
  TuneResult result_;
};

}  // namespace

int64_t timed_m(const Bucket& bucket, TuneMode mode) {
  const bool as_given = mode == TuneMode::full || bucket.asked;
  return as_given ? bucket.m_probe : std::min(bucket.m_probe, std::max(kFastMaxM, bucket.m_min));
}

std::vector<Bucket> buckets_of(int64_t m_min, int64_t m_max, std::span<const int64_t> m_list) {
  std::vector<Bucket> out;
  for (Bucket bucket : kBuckets) {
    if (bucket.m_min > m_max || bucket.m_max < m_min) continue;
    bucket.m_probe = std::clamp(bucket.m_probe, std::max(bucket.m_min, m_min), std::min(bucket.m_max, m_max));
    for (int64_t m : m_list)
      if (m >= bucket.m_min && m <= bucket.m_max) bucket.m_probe = m, bucket.asked = true;
    if (m_list.empty() || bucket.asked) out.push_back(bucket);
  }
  if (out.empty()) out.push_back({std::max<int64_t>(m_min, 0), INT64_MAX, std::max<int64_t>(m_min, 1)});
  return out;
}

Result<TuneResult> tune(const Problem& problem, const std::vector<SegmentTensors>& tensors,
                        std::span<const std::byte> packed, const Bucket& bucket,
                        const std::vector<Candidate>& candidates, const std::vector<BuiltKernel>& built,
                        const TuneOptions& options) {
  return Tuning(problem, tensors, packed, bucket, candidates, built, options).run();
}

}  // namespace qcg
