#include "codegen/tune.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "codegen/kernel_oracle.h"
#include "codegen/references.h"
#include "codegen/trial.h"
#include "runtime/module.h"

namespace qcg {

using nlohmann::json;

namespace {

constexpr int64_t kColdUpToM = 64;            // weights of larger problems are streamed from L2 anyway
constexpr int64_t kMaxColdBytes = int64_t{640} << 20;
constexpr int64_t kFastMaxM = 384;            // --tune=fast times the open-ended bucket here
constexpr double kDropFactor = 1.5;           // a candidate this much slower after kDropRounds is not measured further
constexpr int kDropRounds = 2, kMinRounds = 3, kMaxRounds = 60;
constexpr double kMinSample_s = 40e-6;        // shorter kernels are repeated within a sample
constexpr double kVerifyTimeout_s = 120, kTimeTimeout_s = 180;
constexpr uint64_t kSeed = 0x9e3779b97f4a7c15;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Stats {
  double median = 0, p10 = 0, p90 = 0;
  int samples = 0;
};

Stats stats_of(std::vector<double> v) {
  if (v.empty()) return {};
  std::sort(v.begin(), v.end());
  auto at = [&](double q) { return v[static_cast<size_t>(q * static_cast<double>(v.size() - 1) + 0.5)]; };
  return {at(0.5), at(0.1), at(0.9), static_cast<int>(v.size())};
}

// A kernel loaded from bytes through a memory file; lives as long as the (child) process.
struct Loaded {
  std::vector<Module> modules;
  const qcg_kernel* kernel = nullptr;

  static Result<Loaded> load(const BuiltKernel& built) {
    const int fd = ::memfd_create("qcodegen", MFD_CLOEXEC);
    if (fd < 0 || ::write(fd, built.bytes.data(), built.bytes.size()) != static_cast<ssize_t>(built.bytes.size()))
      return Error::io(built.source.name, "no memory file for the module", "free some memory");
    auto module = Module::load_unverified(fmt::format("/proc/self/fd/{}", fd));
    ::close(fd);
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
  for (int64_t m : {bucket.m_min, std::min(high, bucket.m_min + 2), std::min({high, bucket.m_min + 10, int64_t{67} + bucket.m_min / 4})})
    if (m >= bucket.m_min && std::find(out.begin(), out.end(), m) == out.end()) out.push_back(m);
  return out;
}

double bytes_moved(const Problem& problem, int64_t m, int64_t packed) {
  double bytes = static_cast<double>(packed);
  bytes += static_cast<double>(m * problem.k) * static_cast<double>(dtype_bytes(problem.activation));
  for (const Output& output : problem.outputs)
    bytes += static_cast<double>(m * output.n) * static_cast<double>(dtype_bytes(output.dtype));
  return bytes;
}

// One tuning of one problem in one bucket.
class Tuning {
 public:
  Tuning(const Problem& problem, const std::vector<SegmentTensors>& tensors, std::span<const std::byte> packed,
         const Bucket& bucket, const std::vector<Candidate>& candidates, const std::vector<BuiltKernel>& built,
         const TuneOptions& options)
      : problem_(problem), tensors_(tensors), packed_(packed), bucket_(bucket), built_(built), options_(options) {
    m_ = options.mode == TuneMode::full ? bucket.m_probe : std::min(bucket.m_probe, std::max(kFastMaxM, bucket.m_min));
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
    TuneRecord r;
    r.kernel = kernel.source.name;
    r.problem = problem_.signature();
    r.nodes = problem_.nodes;
    r.target = std::string(isa_info(kernel.source.isa).name);
    r.candidate = candidate.describe();
    r.scheme = std::string(scheme_name(problem_.scheme));
    for (const Output& output : problem_.outputs) r.epilogue += (r.epilogue.empty() ? "" : "; ") + output.expr.str();
    r.m = m_;
    r.m_min = bucket_.m_min;
    r.m_max = bucket_.m_max;
    r.n = problem_.n_total();
    r.k = problem_.k;
    r.group = problem_.group;
    r.segments = static_cast<int>(problem_.segments.size());
    r.threads = options_.threads;
    r.compile_s = kernel.compile_s;
    r.cache_hit = kernel.hit;
    r.key = kernel.key;
    r.machine = this_machine().fingerprint;
    r.date = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
    return r;
  }

  void set(size_t i, TrialStatus status, std::string reason) {
    result_.records[i].status = status;
    result_.records[i].reason = std::move(reason);
  }

  std::vector<size_t> alive_candidates() const {
    std::vector<size_t> alive;
    for (size_t i = 0; i < built_.size(); ++i)
      if (result_.records[i].status == TrialStatus::untimed) alive.push_back(i);
    return alive;
  }

  // Every built candidate against the oracle; with --tune=off until the first is right.
  Status verify_all() {
    std::vector<KernelOracle> oracles;
    for (int64_t m : awkward_m(problem_, bucket_)) oracles.emplace_back(problem_, tensors_, m, kSeed + static_cast<uint64_t>(m));
    size_t next = 0;
    while (next < built_.size()) {
      QCG_TRY(child, run_in_child(kVerifyTimeout_s, [&](ChildReport& report) { verify_in_child(oracles, next, report); }));
      for (const std::string& message : child.messages) {
        const json m = json::parse(message);
        TuneRecord& record = result_.records[m["i"].get<size_t>()];
        record.max_error = m["error"];
        record.error_bound = m["bound"];
        if (!m["ok"]) set(m["i"].get<size_t>(), TrialStatus::wrong, m["reason"]);
      }
      if (child.failure.empty()) break;
      if (child.current < static_cast<int64_t>(next)) return Error::internal("tuner", "the trial process failed: " + child.failure);
      set(static_cast<size_t>(child.current), TrialStatus::crashed, child.failure);
      next = static_cast<size_t>(child.current) + 1;
    }
    return {};
  }

  void verify_in_child(const std::vector<KernelOracle>& oracles, size_t first, ChildReport& report) const {
    ThreadPool pool({.threads = options_.threads});
    for (size_t i = first; i < built_.size(); ++i) {
      if (!built_[i].ok()) continue;
      report.begin(i);
      OracleReport worst;
      auto loaded = Loaded::load(built_[i]);
      if (!loaded.ok()) worst = {false, 0, 0, loaded.error().message};
      for (const KernelOracle& oracle : oracles) {
        if (!worst.ok) break;
        const OracleReport r = oracle.run_and_check(pool, *loaded->kernel, packed_);
        if (!r.ok || r.max_error >= worst.max_error) worst = r;
      }
      report.send(json{{"i", i}, {"ok", worst.ok}, {"error", worst.max_error}, {"bound", worst.bound}, {"reason", worst.reason}}
                      .dump(-1, ' ', false, json::error_handler_t::replace));
      if (options_.mode == TuneMode::off && worst.ok) return;
    }
  }

  // Times the alive candidates and the references in one child; a crash drops the culprit and starts again.
  Status time_all(std::vector<size_t> alive) {
    while (!alive.empty()) {
      QCG_TRY(child, run_in_child(kTimeTimeout_s + 20 * options_.budget_s,
                                  [&](ChildReport& report) { time_in_child(alive, report); }));
      if (child.failure.empty()) {
        for (const std::string& message : child.messages) take_timing(json::parse(message));
        return {};
      }
      const auto culprit = std::find(alive.begin(), alive.end(), static_cast<size_t>(child.current));
      if (culprit == alive.end()) {
        if (!options_.references) return Error::internal("tuner", "the timing process failed: " + child.failure);
        options_.references = false;  // a vendor library failed: its loss
        continue;
      }
      set(*culprit, TrialStatus::crashed, child.failure);
      alive.erase(culprit);
    }
    return {};
  }

  void take_timing(const json& m) {
    const size_t i = m["i"];
    if (i >= built_.size()) {
      TuneRecord r = result_.records[0];
      r.kernel = m["name"];
      r.candidate.clear();
      r.key.clear();
      r.reason.clear();
      r.cache_hit = false;
      r.compile_s = r.max_error = r.error_bound = 0;
      r.status = TrialStatus::reference;
      result_.records.push_back(std::move(r));
    }
    TuneRecord& r = i < built_.size() ? result_.records[i] : result_.records.back();
    r.median_s = m["median"];
    r.p10_s = m["p10"];
    r.p90_s = m["p90"];
    r.samples = m["samples"];
    if (r.median_s <= 0) return;
    r.gbps = bytes_moved(problem_, m_, static_cast<int64_t>(packed_.size())) / r.median_s / 1e9;
    r.gflops = 2.0 * static_cast<double>(m_ * problem_.k) * static_cast<double>(problem_.n_total()) / r.median_s / 1e9;
    r.share = roofline_seconds(problem_, m_, options_.ceilings) / r.median_s;
    if (i < built_.size() && m["dropped"]) set(i, TrialStatus::too_slow, "dropped early");
  }

  // What one sample of one contender is.
  struct Contender {
    size_t index = 0;  // into built_, or beyond it for references
    std::string name;
    std::function<void()> run;
    int repeats = 1;
    std::vector<double> samples;
    bool dropped = false;
  };

  void time_in_child(const std::vector<size_t>& alive, ChildReport& report) const {
    // References first: a vendor's threads must not be started while ours spin.
    const KernelInputs inputs(problem_, m_, kSeed);
    const bool cold = bucket_.m_min <= kColdUpToM;
    const int64_t cold_bytes = cold ? std::min(kMaxColdBytes, this_machine().l3_bytes * 5 / 4 + (int64_t{32} << 20)) : 0;
    std::vector<Contender> contenders;
    if (options_.references) {
      report.begin(built_.size());
      for (Reference& r : references_for(problem_, tensors_, inputs, options_.threads, cold_bytes))
        contenders.push_back({built_.size() + contenders.size(), r.name, std::move(r.run), 1, {}, false});
    }
    ThreadPool pool({.threads = options_.threads});
    Workspace workspace;
    GuardedOutputs outputs(problem_, m_);
    std::vector<std::span<const std::byte>> copies;
    std::vector<AlignedBuffer> memory;
    copy_weights(cold_bytes, copies, memory);
    std::vector<Loaded> loaded;
    loaded.reserve(alive.size());
    size_t turn = 0;
    for (size_t i : alive) {
      auto module = Loaded::load(built_[i]);
      if (!module.ok()) continue;
      loaded.push_back(std::move(*module));
      auto run = [this, &pool, &workspace, &inputs, &outputs, &copies, &turn, kernel = loaded.back().kernel] {
        std::vector<qcg_arg> args = inputs.args();
        args.push_back({const_cast<std::byte*>(copies[turn++ % copies.size()].data()), 0});
        outputs.append_args(args);
        const int64_t params[] = {m_};
        (void)run_kernel(pool, *kernel, {args.data(), params, nullptr}, workspace);
      };
      contenders.push_back({i, built_[i].source.name, run, 1, {}, false});
    }
    measure(contenders, report);
    for (const Contender& c : contenders) {
      const Stats s = stats_of(c.samples);
      report.send(json{{"i", c.index}, {"name", c.name}, {"median", s.median}, {"p10", s.p10}, {"p90", s.p90},
                       {"samples", s.samples}, {"dropped", c.dropped}}.dump());
    }
  }

  void copy_weights(int64_t cold_bytes, std::vector<std::span<const std::byte>>& copies, std::vector<AlignedBuffer>& memory) const {
    const int64_t bytes = static_cast<int64_t>(packed_.size());
    const int64_t count = std::clamp<int64_t>(bytes > 0 ? (cold_bytes + bytes - 1) / bytes : 1, 1, 4096);
    for (int64_t c = 0; c < count; ++c) {
      auto block = AlignedBuffer::allocate(std::max<int64_t>(bytes, 64));
      if (!block.ok()) break;
      std::memcpy(block->data(), packed_.data(), packed_.size());
      copies.emplace_back(block->data(), packed_.size());
      memory.push_back(std::move(*block));
    }
    if (copies.empty()) copies.push_back(packed_);
  }

  // Rounds over all contenders, each round starting at another, until the budget is spent.
  void measure(std::vector<Contender>& contenders, ChildReport& report) const {
    const double start = now_s();
    for (Contender& c : contenders) {
      report.begin(c.index);
      c.run();  // first touch
      const double begin = now_s();
      c.run();
      c.repeats = static_cast<int>(std::clamp(kMinSample_s / std::max(now_s() - begin, 1e-7), 1.0, 200.0));
    }
    for (int round = 0; round < kMaxRounds; ++round) {
      if (round >= kMinRounds && now_s() - start > options_.budget_s) break;
      if (round >= 1 && now_s() - start > 4 * options_.budget_s) break;
      double best = HUGE_VAL;
      for (size_t i = 0; i < contenders.size(); ++i) {
        Contender& c = contenders[(i + static_cast<size_t>(round)) % contenders.size()];
        if (c.dropped) continue;
        report.begin(c.index);
        const double begin = now_s();
        for (int repeat = 0; repeat < c.repeats; ++repeat) c.run();
        c.samples.push_back((now_s() - begin) / c.repeats);
        if (c.index < built_.size()) best = std::min(best, *std::min_element(c.samples.begin(), c.samples.end()));
      }
      if (round + 1 < kDropRounds) continue;
      for (Contender& c : contenders)
        if (*std::min_element(c.samples.begin(), c.samples.end()) > kDropFactor * best) c.dropped = c.index < built_.size();
    }
  }

  // The fastest median wins, but an earlier candidate keeps its place unless it is beaten by more than the noise.
  void decide() {
    int winner = -1;
    for (size_t i : alive_candidates()) {
      const TuneRecord& r = result_.records[i];
      if (r.median_s <= 0) continue;
      if (winner < 0) {
        winner = static_cast<int>(i);
        continue;
      }
      const TuneRecord& best = result_.records[static_cast<size_t>(winner)];
      const double noise = std::max({0.01 * best.median_s, 0.25 * (best.p90_s - best.p10_s) / std::max(1.0, std::sqrt(best.samples)),
                                     0.25 * (r.p90_s - r.p10_s) / std::max(1.0, std::sqrt(r.samples))});
      if (r.median_s < best.median_s - noise) winner = static_cast<int>(i);
    }
    if (winner < 0) return;  // nothing could be timed: the first right one stays
    result_.winner = winner;
    const double best = result_.records[static_cast<size_t>(winner)].median_s;
    double fastest_reference = HUGE_VAL;
    for (size_t i = 0; i < result_.records.size(); ++i) {
      TuneRecord& r = result_.records[i];
      if (r.median_s <= 0) continue;
      const double percent = (r.median_s / best - 1) * 100;
      if (static_cast<int>(i) == winner) r.status = TrialStatus::won;
      else if (r.status == TrialStatus::reference)
        r.reason = percent >= 0 ? fmt::format("{:.2f} times slower than the winner", r.median_s / best)
                                : fmt::format("{:.2f} times faster than the winner", best / r.median_s);
      else if (r.status == TrialStatus::too_slow) r.reason = fmt::format("dropped early, {:.0f} % slower", percent);
      else r.status = TrialStatus::lost, r.reason = percent >= 0 ? fmt::format("lost by {:.1f} %", percent) : "within the noise of the winner";
      if (r.status != TrialStatus::reference || r.median_s >= std::min(best, fastest_reference)) continue;
      fastest_reference = r.median_s;
      result_.reference_won = static_cast<int>(i);
    }
  }

  const Problem& problem_;
  const std::vector<SegmentTensors>& tensors_;
  std::span<const std::byte> packed_;
  const Bucket& bucket_;
  const std::vector<BuiltKernel>& built_;
  TuneOptions options_;
  int64_t m_ = 1;
  TuneResult result_;
};

}  // namespace

std::vector<Bucket> buckets_of(const Problem& problem, std::span<const int64_t> m_list) {
  std::vector<Bucket> out;
  for (Bucket bucket : kBuckets) {
    if (bucket.m_min > problem.m_max || bucket.m_max < problem.m_min) continue;
    bucket.m_probe = std::clamp(bucket.m_probe, std::max(bucket.m_min, problem.m_min), std::min(bucket.m_max, problem.m_max));
    bool asked = m_list.empty();
    for (int64_t m : m_list)
      if (m >= bucket.m_min && m <= bucket.m_max) bucket.m_probe = m, asked = true;
    if (asked) out.push_back(bucket);
  }
  if (out.empty()) out.push_back({std::max<int64_t>(problem.m_min, 0), INT64_MAX, std::max<int64_t>(problem.m_min, 1)});
  return out;
}

Result<TuneResult> tune(const Problem& problem, const std::vector<SegmentTensors>& tensors, std::span<const std::byte> packed,
                        const Bucket& bucket, const std::vector<Candidate>& candidates, const std::vector<BuiltKernel>& built,
                        const TuneOptions& options) {
  return Tuning(problem, tensors, packed, bucket, candidates, built, options).run();
}

}  // namespace qcg
