#include "codegen/tune/merge_trial.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "codegen/devices/gemm_device.h"
#include "codegen/gemm/kernel_oracle.h"
#include "codegen/gemm/schedules.h"
#include "codegen/trial/trial.h"
#include "runtime/kernel_runner.h"
#include "runtime/module.h"

namespace qcg {

namespace {

constexpr uint64_t kMergeSeed = 0x2545f4914f6cdd1d;
constexpr int kMinRounds = 5, kMaxRounds = 60;
constexpr double kMinSample_s = 500e-6;
constexpr double kTimeout_s = 60;
constexpr double kMargin = 0.03;
constexpr FusionInfo kFusions[] = {{"siblings", "merged", "apart", "one by one"}, {"cat", "split", "cat", "cat first"}};

// The merged problem with one segment, without operands and outputs.
Problem one_segment(const Problem& merged, int segment) {
  Problem out = merged;
  out.segments = {merged.segments[static_cast<size_t>(segment)]};
  out.operands.clear();
  out.outputs.clear();
  return out;
}

std::vector<Member> split_siblings(const Problem& merged) {
  std::vector<Member> out;
  for (const Output& output : merged.outputs) {
    const int last = output.segments.back();
    Problem closing = one_segment(merged, last);
    std::vector<int> stored;  // segments that are operands of the last one
    for (int j : output.segments) {
      if (j == last) continue;
      Problem& member = out.emplace_back(Member{one_segment(merged, j), {static_cast<size_t>(j)}}).problem;
      member.outputs.push_back({Expr::acc(0), output.dtype, output.n, {0}});
      stored.push_back(j);
      closing.operands.push_back({output.dtype, Broadcast::full});
    }
    std::vector<int> kept;  // operands of the merged problem that this output reads
    auto acc = [&](int j) {
      const auto it = std::find(stored.begin(), stored.end(), j);
      return it == stored.end() ? Expr::acc(0) : Expr::in(static_cast<int>(it - stored.begin()));
    };
    auto in = [&](int i) {
      auto it = std::find(kept.begin(), kept.end(), i);
      if (it == kept.end()) {
        kept.push_back(i);
        closing.operands.push_back(merged.operands[static_cast<size_t>(i)]);
        it = kept.end() - 1;
      }
      return Expr::in(static_cast<int>(stored.size() + static_cast<size_t>(it - kept.begin())));
    };
    const Expr expr = output.expr.map_leaves(
        [&](const Expr& leaf) { return leaf.kind == ExprKind::acc ? acc(leaf.index) : in(leaf.index); });
    closing.outputs.push_back({expr, output.dtype, output.n, {0}});
    out.push_back({std::move(closing), {static_cast<size_t>(last)}});
  }
  return out;
}

// One of the two ways: kernels in a row over one copy of their weights.
class Sequence {
 public:
  explicit Sequence(const ColdWeights::Copies& copies) : copies_(copies) {}

  // `shared`: activations and their quantization, the same for both ways.
  Status add(const TrialLaunch& launch, std::span<const qcg_arg> shared, int64_t m) {
    QCG_TRY(module, Module::load_bytes(launch.kernel->bytes, launch.kernel->source.name));
    modules_.push_back(std::move(module));
    QCG_TRY(kernel, modules_.back().find_kernel(launch.kernel->source.symbol));
    inputs_.push_back(std::make_unique<KernelInputs>(*launch.problem, m, kMergeSeed));
    outputs_.push_back(std::make_unique<GuardedOutputs>(*launch.problem, m));
    Step step{kernel, {shared.begin(), shared.end()}, inputs_.back()->params(), 0, launch.weights_at};
    const std::vector<qcg_arg> own = inputs_.back()->args();
    step.args.insert(step.args.end(), own.begin() + std::ssize(shared), own.end());
    step.weights = step.args.size();
    step.args.push_back({nullptr, 0});
    outputs_.back()->append_args(step.args);
    steps_.push_back(std::move(step));
    return {};
  }

  // Source s of a concatenation, [m, widths[s]], into its columns of `whole`.
  Status add_copy(const BuiltKernel& built, const Problem& fused, size_t source, const qcg_arg& from,
                  const qcg_arg& whole, int64_t m) {
    if (modules_.empty()) {
      QCG_TRY(module, Module::load_bytes(built.bytes, built.source.name));
      modules_.push_back(std::move(module));
    }
    QCG_TRY(kernel, modules_.front().find_kernel(built.source.symbol));
    const int64_t column = std::accumulate(fused.k_segments.begin(),
                                           fused.k_segments.begin() + static_cast<std::ptrdiff_t>(source), int64_t{0});
    const int64_t width = fused.k_segments[source],
                  offset = column * static_cast<int64_t>(dtype_bytes(fused.activation));
    steps_.push_back({kernel,
                      {from, {static_cast<std::byte*>(whole.data) + offset, 0}},
                      {m, width, width, 1, fused.k, 1},
                      kNoWeights,
                      0});
    return {};
  }

  void run(ThreadPool& pool, Workspace& workspace) {
    const std::span<const std::byte> copy = copies_[turn_++ % copies_.size()];
    for (Step& step : steps_) {
      if (step.weights != kNoWeights)
        step.args[step.weights].data = const_cast<std::byte*>(copy.data()) + step.weights_at;
      (void)run_kernel(pool, *step.kernel, {step.args.data(), step.params.data(), nullptr}, workspace);
    }
  }

 private:
  static constexpr size_t kNoWeights = SIZE_MAX;
  struct Step {
    const qcg_kernel* kernel;
    std::vector<qcg_arg> args;
    std::vector<int64_t> params;
    size_t weights;      // index into args
    int64_t weights_at;  // within a copy
  };
  const ColdWeights::Copies& copies_;
  std::vector<Module> modules_;
  std::vector<std::unique_ptr<KernelInputs>> inputs_;
  std::vector<std::unique_ptr<GuardedOutputs>> outputs_;
  std::vector<Step> steps_;
  size_t turn_ = 0;
};

// Rounds of one way and the other, always in this order: after each has the other been in the caches. What is sent is
// one Timing per way.
void measure(std::span<Sequence* const> ways, const TuneOptions& options, ChildReport& report) {
  ThreadPool pool({.threads = options.threads});
  Workspace workspace;
  std::vector<Sample> samples[2];
  double longest = 0;
  for (Sequence* way : ways) {
    way->run(pool, workspace);  // first touch
    const double begin = now_s();
    way->run(pool, workspace);
    longest = std::max(longest, now_s() - begin);
  }
  const int repeats = static_cast<int>(std::clamp(kMinSample_s / std::max(longest, 1e-7), 1.0, 200.0));
  Stopwatch watch;
  const double start = now_s();
  const auto is_spent = [&] {
    const double spent = now_s() - start;
    if (spent <= options.budget_s) return false;
    return spent > kDisturbedBudget * options.budget_s ||
           std::none_of(std::begin(samples), std::end(samples),
                        [](const auto& s) { return is_disturbed(timing_of(s)); });
  };
  for (int round = 0; round < kMaxRounds && (round < kMinRounds || !is_spent()); ++round) {
    for (size_t way = 0; way < 2; ++way) {
      report.send("");  // before each of them: the parent that wakes up to read it takes a core for a moment
      watch.time([&] { ways[way]->run(pool, workspace); }, repeats, samples[way]);
    }
  }
  for (const auto& s : samples) {
    const Timing t = timing_of(s);
    report.send(nlohmann::json{
        {"median", t.median_s}, {"p10", t.p10_s}, {"p90", t.p90_s}, {"samples", t.samples}, {"disturbed", t.disturbed}}
                    .dump());
  }
}

// Activations and their quantization: the arguments that all members of a way begin with.
std::vector<qcg_arg> shared_args(const Problem& problem, const KernelInputs& inputs) {
  std::vector<qcg_arg> args = inputs.args();
  args.resize(args.size() - problem.operands.size());
  return args;
}

std::optional<Timing> parse_timing(const std::string& message) {
  const nlohmann::json in = nlohmann::json::parse(message, nullptr, false);
  if (!in.is_object()) return {};
  for (const char* field : {"median", "p10", "p90", "samples", "disturbed"})
    if (!in.contains(field) || !in[field].is_number()) return {};
  return Timing{in["median"], in["p10"], in["p90"], in["samples"], in["disturbed"]};
}

}  // namespace

const FusionInfo& fusion_info(Fusion fusion) { return kFusions[static_cast<size_t>(fusion)]; }

LoopProblem copy_problem(DType dtype) {
  LoopProblem out;
  out.operands = out.outputs = {dtype};
  out.operand_inner_stride = {1};
  out.exprs = {Expr::in(0)};
  return out;
}

std::vector<Member> take_apart(const Problem& fused, Fusion fusion) {
  if (fusion == Fusion::siblings) return split_siblings(fused);
  Member whole{fused, {}};
  whole.problem.k_segments = {fused.k};
  for (size_t j = 0; j < fused.segments.size(); ++j) whole.segments.push_back(j);
  return {std::move(whole)};
}

Candidate member_candidate(const Problem& member, const Target& target, const Bucket& bucket, const Candidate& winner) {
  const std::vector<Candidate> all = gemm_device(target.device).candidates(member, target, bucket.m_min, bucket.m_max);
  const auto* like = winner.schedule_if<GemmSchedule>();
  if (!like) return all[0];
  auto unlike = [&](const Candidate& candidate) {
    const auto& c = candidate.schedule<GemmSchedule>();
    return std::tuple(c.microkernel != like->microkernel, c.mr != like->mr, c.kc != like->kc,
                      c.prefetch_bytes != like->prefetch_bytes);
  };
  return *std::min_element(all.begin(), all.end(),
                           [&](const Candidate& a, const Candidate& b) { return unlike(a) < unlike(b); });
}

Result<MergeTiming> time_merge(const TrialLaunch& merged, const ApartLaunch& apart, const ColdWeights::Copies& copies,
                               int64_t m, const TuneOptions& options) {
  const auto work = [&](ChildReport& report) {
    const KernelInputs inputs(*merged.problem, m, kMergeSeed), inputs_apart(*apart.members[0].problem, m, kMergeSeed);
    const std::vector<qcg_arg> fused = shared_args(*merged.problem, inputs),
                               separate = shared_args(*apart.members[0].problem, inputs_apart);
    Sequence one(copies), many(copies);
    bool loaded = one.add(merged, fused, m).ok();
    for (size_t source : apart.copied)
      loaded = many.add_copy(*apart.copy, *merged.problem, source, fused[source], separate[0], m).ok() && loaded;
    for (const TrialLaunch& member : apart.members) loaded = many.add(member, separate, m).ok() && loaded;
    if (!loaded) return;
    Sequence* const ways[] = {&one, &many};
    measure(ways, options, report);
  };
  QCG_TRY(child, run_in_child(kTimeout_s, work, options.cancel));
  if (!child.failure.empty()) return Error::internal("merge trial", "the timing process failed: " + child.failure);
  if (child.messages.size() == 2)
    if (const auto a = parse_timing(child.messages[0]), b = parse_timing(child.messages[1]); a && b)
      return MergeTiming{*a, *b};
  return Error::internal("merge trial", "the timing process reported no timings");
}

namespace {

// What separate gains on merged, relative to it and in the mean over timings, with its standard error.
struct Gain {
  double mean = 0, error = 0;
};
std::optional<Gain> gain_of(std::span<const MergeTiming> timings) {
  double gain = 0, variance = 0;
  for (const MergeTiming& t : timings) {
    if (t.merged.median_s <= 0 || t.separate.median_s <= 0) return {};
    gain += 1 - t.separate.median_s / t.merged.median_s;
    variance +=
        (std::pow(median_error(t.merged), 2) + std::pow(median_error(t.separate), 2)) / std::pow(t.merged.median_s, 2);
  }
  if (timings.empty()) return {};
  const double count = static_cast<double>(timings.size());
  return Gain{gain / count, std::sqrt(variance) / count};
}

}  // namespace

bool separate_is_faster(std::span<const MergeTiming> timings) {
  const auto gain = gain_of(timings);
  return gain && gain->mean > std::max(kMargin, gain->error);
}

bool is_close_merge(std::span<const MergeTiming> timings) {
  const auto gain = gain_of(timings);
  const bool disturbed = std::any_of(timings.begin(), timings.end(), [](const MergeTiming& t) {
    return is_disturbed(t.merged) || is_disturbed(t.separate);
  });
  return gain && disturbed && std::fabs(gain->mean - kMargin) <= gain->error;
}

}  // namespace qcg
