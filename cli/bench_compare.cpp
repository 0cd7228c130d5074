// qcodegen bench --compare A B: times two programs of one signature in turn, on the same inputs and the same threads.
//
// It needs no graph. In every round both run, and the one that begins alternates: what else happens on the machine
// meets both. The ratio is that of each round, so that a slow minute is no difference between the programs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/bench.h"
#include "cli/report.h"
#include "codegen/program/program_io.h"
#include "codegen/program/random_inputs.h"
#include "codegen/program/sequence.h"
#include "codegen/trial/timing.h"

namespace qcg {

namespace {

constexpr uint64_t kInputSeed = 1;
constexpr double kCompareBudget_s = 3;
constexpr size_t kLeastRounds = 5;
constexpr double kShortestSample_s = 1e-3;
constexpr int kWarmUpRuns = 10;  // more than a context needs to choose threads for its steps

struct Side {
  std::string path;
  LoadedProgram loaded;
  std::unique_ptr<State> state;
  std::optional<ProgramIo> io;
  std::vector<Sample> samples;
};

// The values at 10, 50 and 90 % of the sorted values.
struct Spread {
  double p10, median, p90;
};
Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {quantile_of(values, .1), quantile_of(values, .5), quantile_of(values, .9)};
}

// What callers have to pass.
bool have_equal_inputs(const ProgramManifest& a, const ProgramManifest& b) {
  const auto of = [](const ProgramManifest& m) {
    nlohmann::json inputs = nlohmann::json::array();
    for (const auto& input : m.inputs) inputs.push_back({input.name, dtype_name(input.dtype), input.shape.size()});
    return inputs;
  };
  return of(a) == of(b);
}

class CompareBench {
 public:
  CompareBench(const Session& session, const BenchFlags& flags) : flags_(flags), progress_(session) {}

  Status run() {
    QCG_CHECK(load());
    QCG_CHECK(choose_inputs());
    QCG_CHECK(choose_repeats());
    QCG_CHECK(time_rounds());
    progress_.clear();
    return {};
  }

  void print() const;
  nlohmann::json json() const;

 private:
  Status load() {
    for (size_t i = 0; i < 2; ++i) {
      Side& side = sides_[i];
      side.path = flags_.programs[i];
      progress_.show("load " + side.path);
      QCG_TRY(loaded, load_program(side.path, flags_.threads.empty() ? 0 : flags_.threads[0], flags_.target));
      QCG_CHECK(choose_method(loaded, flags_.method));
      side.loaded = std::move(loaded);
    }
    if (!have_equal_inputs(sides_[0].loaded.program->manifest(), sides_[1].loaded.program->manifest()))
      return Error::bad_input(sides_[1].path, "has other inputs than " + sides_[0].path,
                              "compare programs of one model; `qcodegen inspect PROGRAM` shows inputs");
    // The idle threads of a second pool would spin while the first one works.
    QCG_TRY(context, Context::create(sides_[1].loaded.program, {.pool = sides_[0].loaded.context->pool()}));
    sides_[1].loaded.context = std::move(context);
    for (Side& side : sides_) {
      QCG_TRY(state, State::create(side.loaded.program));
      side.state = std::move(state);
    }
    return {};
  }

  // Inputs at random that both programs take.
  Status choose_inputs() {
    progress_.show("warm up");
    Side &a = sides_[0], &b = sides_[1];
    QCG_TRY(symbols, symbols_of(*a.loaded.program, flags_.sizes));
    QCG_TRY(run, run_at_random(*a.loaded.program, *a.loaded.context, *a.state, symbols, kInputSeed, {}));
    QCG_TRY(io, ProgramIo::from_tensors(*b.loaded.program, run.io.input_tensors()));
    a.io.emplace(std::move(run.io)), b.io.emplace(std::move(io));
    for (Side& side : sides_) {
      QCG_CHECK(side.state->reset());
      for (int i = 0; i < kWarmUpRuns; ++i) QCG_CHECK(run_once(side));
    }
    return {};
  }

  Status run_once(Side& side) {
    if (interrupted()) return Error::interrupted();
    return run_on_state(side.loaded, *side.state, *side.io);
  }

  // As many runs per sample as the faster program needs for a sample that a clock can tell.
  Status choose_repeats() {
    double fastest = 1;
    for (Side& side : sides_) {
      const double begin = now_s();
      QCG_CHECK(run_once(side));
      fastest = std::min(fastest, now_s() - begin);
    }
    repeats_ = std::max(1, static_cast<int>(kShortestSample_s / std::max(fastest, 1e-7)));
    return {};
  }

  Status time_rounds() {
    const double budget = flags_.budget_s > 0 ? flags_.budget_s : kCompareBudget_s, begin = now_s();
    Stopwatch watch;
    Status status;
    for (size_t round = 0; round < kLeastRounds || now_s() - begin < budget; ++round) {
      progress_.show(fmt::format("round {}", round + 1));
      for (size_t turn = 0; turn < 2; ++turn) {
        Side& side = sides_[(round + turn) % 2];
        const auto run = [&] {
          if (status.ok()) status = run_once(side);
        };
        watch.time(run, repeats_, side.samples);
        QCG_CHECK(status);
      }
    }
    return {};
  }

  // Of each round, the seconds of the second program divided by those of the first. Disturbed rounds count only where
  // fewer than kLeastRounds were undisturbed.
  std::vector<double> ratios() const {
    std::vector<double> all, clean;
    for (size_t round = 0; round < sides_[0].samples.size(); ++round) {
      const Sample &a = sides_[0].samples[round], &b = sides_[1].samples[round];
      all.push_back(b.seconds / a.seconds);
      if (!a.disturbed && !b.disturbed) clean.push_back(all.back());
    }
    return clean.size() >= kLeastRounds ? clean : all;
  }

  const BenchFlags& flags_;
  ProgressLine progress_;
  Side sides_[2];
  int repeats_ = 1;
};

void CompareBench::print() const {
  Table table({"program", "time", "p10", "p90", "rounds", "disturbed"});
  for (const Side& side : sides_) {
    const Timing t = timing_of(side.samples);
    table.add({side.path, format_time(t.median_s), format_time(t.p10_s), format_time(t.p90_s),
               fmt::format("{}", t.samples), fmt::format("{}", t.disturbed)});
  }
  put(table.str());
  const Spread ratio = spread_of(ratios());
  const std::string spread =
      fmt::format("time {:.3f}, {:.3f} to {:.3f} in four of five rounds", ratio.median, ratio.p10, ratio.p90);
  if (ratio.p10 <= 1 && ratio.p90 >= 1)
    show("no difference between {} and {} is shown: {}\n", sides_[1].path, sides_[0].path, spread);
  else
    show("{} is {:.2f}× {} than {}: {}\n", sides_[1].path, std::max(ratio.median, 1 / ratio.median),
         ratio.median < 1 ? "faster" : "slower", sides_[0].path, spread);
}

nlohmann::json CompareBench::json() const {
  nlohmann::json programs = nlohmann::json::array();
  for (const Side& side : sides_) {
    const Timing t = timing_of(side.samples);
    programs.push_back({{"program", side.path},
                        {"median_us", t.median_s * 1e6},
                        {"p10_us", t.p10_s * 1e6},
                        {"p90_us", t.p90_s * 1e6},
                        {"samples", t.samples},
                        {"disturbed", t.disturbed}});
  }
  const Spread ratio = spread_of(ratios());
  return {{"programs", programs},
          {"threads", sides_[0].loaded.context->threads()},
          {"rounds", sides_[0].samples.size()},
          {"runs_per_sample", repeats_},
          {"ratio", ratio.median},
          {"ratio_p10", ratio.p10},
          {"ratio_p90", ratio.p90}};
}

}  // namespace

int run_bench_compare(const Session& session, const BenchFlags& flags) {
  return run_whole_bench<CompareBench>(session, flags, "bench_compare");
}

}  // namespace qcg
