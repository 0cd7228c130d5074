// qcodegen bench PROGRAM --prompt N --decode N: times a whole program, and says which kinds of kernels take the time.
//
// A decoder takes the prompt at once and then token by token, on one state. Any other program runs at the sizes given.
// Its floor is what no program is faster than: reading the weights and the live state once, or multiplying its linears.
// --trace writes the runs that are profiled. Runs of a program on a device copy their inputs and outputs, as `run`
// does.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/output_file.h"
#include "cli/bench.h"
#include "cli/profile.h"
#include "cli/report.h"
#include "codegen/compile.h"
#include "codegen/program/file_model.h"
#include "codegen/program/origin.h"
#include "codegen/program/program_io.h"
#include "codegen/program/sequence.h"
#include "codegen/trial/ceilings.h"
#include "codegen/trial/timing.h"
#include "codegen/tune/device_trial.h"
#include "runtime/kernel_runner.h"

namespace qcg {

namespace {

constexpr uint64_t kSeed = 1;
constexpr double kModelBudget_s = 3;   // of a prompt, or of a program at its sizes
constexpr int kLeastRepeats = 3;       // of a prompt
constexpr int64_t kWarmUpTokens = 10;  // more than a context needs to choose threads for its steps
constexpr double kShortest_s = 1e-9;   // a run is never taken for shorter

// A part of a sequence, or a program at its sizes.
struct Phase {
  std::string name;
  int64_t tokens = 0;                 // of a sample; 0: this is no sequence
  std::vector<Sequence::Run> runs;    // those of a sample, or one per sample
  bool one_by_one = false;            // each run is a sample
  std::vector<double> samples;        // seconds
  std::vector<double> step_us;        // by step, of a sample: medians
  double read_s = 0, multiply_s = 0;  // the floor of a sample

  double quantile(double q) const {
    std::vector<double> sorted = samples;
    std::ranges::sort(sorted);
    return quantile_of(sorted, q);
  }
  double median_s() const { return std::max(quantile(.5), kShortest_s); }
  double share() const { return std::max(read_s, multiply_s) / median_s(); }
  size_t calls() const { return one_by_one ? 1 : runs.size(); }
  double step_sum_us() const { return std::accumulate(step_us.begin(), step_us.end(), 0.0); }
  // Of a step: what a sample takes beyond its kernels. These were timed in other runs, with clocks around them.
  double between_us() const {
    const size_t steps = std::max<size_t>(1, step_us.size() * calls());
    return std::max(0.0, median_s() * 1e6 - step_sum_us()) / static_cast<double>(steps);
  }
};

class ModelBench {
 public:
  ModelBench(const Session& session, const BenchFlags& flags) : flags_(flags), progress_(session) {}

  Status run() {
    QCG_CHECK(load());
    progress_.show("measure this machine");
    if (plan_.target.device == Device::cpu) ceilings_ = measure_ceilings(plan_.target.isa, loaded_.context->threads());
    QCG_TRY(sequence, Sequence::find(*loaded_.program, graph_, {flags_.sizes, flags_.positions}));
    sequence_ = std::make_unique<Sequence>(std::move(sequence));
    QCG_CHECK(choose_phases());
    QCG_CHECK(warm_up());
    QCG_CHECK(time_all());
    QCG_CHECK(profile_all());
    if (trace_) QCG_CHECK(write_trace());
    for (Phase& phase : phases_) set_floor(phase);
    if (plan_.target.device == Device::cpu) measure_fork_join();
    progress_.clear();
    return {};
  }

  void print() const;
  nlohmann::json json() const;

 private:
  Status load() {
    progress_.show("load " + flags_.program());
    QCG_TRY(manifest, read_manifest_of(flags_.program(), flags_.target));
    QCG_TRY(options, read_origin(flags_.program(), flags_.graph, flags_.weights, manifest.target, flags_.method));
    QCG_TRY(target, parse_target(manifest.target));
    // Before the program opens the driver: a forked process measures the device, and a driver that was opened before
    // the fork does not work in it.
    if (target.device != Device::cpu) ceilings_ = ceilings_of(target, 1);
    QCG_TRY(loaded, load_program(flags_.program(), flags_.threads.empty() ? 0 : flags_.threads[0], manifest.target));
    QCG_CHECK(choose_method(loaded, flags_.method));
    loaded_ = std::move(loaded);
    QCG_TRY(model, FileModel(options).read());
    PassCheckpoint none;
    QCG_TRY(explanation, explain_model(model, options, none));
    plan_ = std::move(explanation.plan);
    graph_ = std::move(model.graph);
    if (plan_.steps.size() != loaded_.program->manifest().steps.size())
      return Error::bad_input(flags_.program(), "the program was compiled by another version of qcodegen",
                              "compile it again");
    QCG_TRY(state, State::create(loaded_.program));
    state_ = std::move(state);
    return {};
  }

  Status choose_phases() {
    if (flags_.prompt == 0 && flags_.decode == 0) {
      phases_.push_back({.name = "run", .runs = {{}}});
      return {};
    }
    if (flags_.prompt > INT64_MAX - flags_.decode)
      return Error{ErrorCode::Usage, "--prompt", "there are too many tokens in all", "choose less of it"};
    QCG_CHECK(sequence_->check_room(flags_.prompt + flags_.decode));
    if (flags_.prompt > 0) {
      QCG_TRY(runs, sequence_->cut(0, flags_.prompt));
      phases_.push_back({.name = "prompt", .tokens = flags_.prompt, .runs = std::move(runs)});
    }
    if (flags_.decode > 0) {
      phases_.push_back({.name = "decode", .tokens = 1, .one_by_one = true});
      for (int64_t i = 0; i < flags_.decode; ++i) {
        QCG_TRY(token, sequence_->cut(flags_.prompt + i, 1));
        phases_.back().runs.push_back(token[0]);
      }
    }
    return {};
  }

  // A sequence starts on a new state. A program at its sizes does not: the pages of its state would be touched anew in
  // every run.
  Status start_phase(const Phase& phase) {
    const bool is_first = !phase.one_by_one || phases_.size() == 1;
    return is_sequence() && is_first ? state_->reset() : Status();
  }
  bool is_sequence() const { return phases_[0].tokens > 0; }

  // Seconds of each run of `runs`, on the state as it is. `each` is called after every run.
  template <class Each>
  Status go(std::span<const Sequence::Run> runs, const Each& each) {
    for (const Sequence::Run& run : runs) {
      if (interrupted()) return Error::interrupted();
      QCG_TRY(io, sequence_->inputs(run, kSeed + static_cast<uint64_t>(run.first)));
      const double begin = now_s();
      QCG_CHECK(is_sequence() ? loaded_.context->run(*state_, io.inputs(), io.outputs())
                              : run_on_state(loaded_, *state_, io));
      each(now_s() - begin);
    }
    return {};
  }

  // A prompt and a few tokens: pages are touched, and contexts have chosen threads. The program may refuse random ids
  // that are computed with; then they become smaller.
  Status warm_up() {
    progress_.show("warm up");
    for (;;) {
      QCG_CHECK(state_->reset());
      Status status;
      for (const Phase& phase : phases_) {
        const size_t few = std::min<size_t>(phase.runs.size(), phase.one_by_one ? kWarmUpTokens : phase.runs.size());
        if (status.ok()) status = go({phase.runs.data(), few}, [](double) {});
      }
      if (status.ok() || status.error().code != ErrorCode::BadInput || !sequence_->be_more_cautious()) return status;
    }
  }

  Status time_all() {
    const double budget = flags_.budget_s > 0 ? flags_.budget_s : kModelBudget_s, begin = now_s();
    for (int repeat = 0; repeat < kLeastRepeats || now_s() - begin < budget; ++repeat) {
      for (Phase& phase : phases_) {
        if (phase.one_by_one && repeat > 0) continue;  // it has its samples
        progress_.show(fmt::format("time the {}, {} times", phase.name, repeat + 1));
        QCG_CHECK(start_phase(phase));
        double total = 0;
        QCG_CHECK(go(phase.runs, [&](double seconds) {
          total += seconds;
          if (phase.one_by_one) phase.samples.push_back(seconds);
        }));
        if (!phase.one_by_one) phase.samples.push_back(total);
      }
      if (phases_.size() == 1 && phases_[0].one_by_one) break;
    }
    return {};
  }

  // Once more with a clock around every step. Prompts repeat as often as they need for medians.
  Status profile_all() {
    loaded_.context->set_profile(true);
    if (!flags_.trace.empty()) trace_.emplace(loaded_.program->manifest(), loaded_.context->threads());
    const double start = now_s();
    for (Phase& phase : phases_) {
      progress_.show(fmt::format("time the steps of the {}", phase.name));
      std::vector<std::vector<double>> by_step(plan_.steps.size());
      const auto add = [&](double seconds) {
        const std::vector<StepProfile>& steps = loaded_.context->last_profile().steps;
        for (size_t s = 0; s < steps.size(); ++s) by_step[s].push_back(steps[s].us);
        if (trace_) trace_->add(phase.name, (now_s() - start - seconds) * 1e6, loaded_.context->last_profile());
      };
      const int repeats = phase.one_by_one ? 1 : kLeastRepeats;
      for (int repeat = 0; repeat < repeats; ++repeat) {
        QCG_CHECK(start_phase(phase));
        QCG_CHECK(go(phase.runs, add));
      }
      for (auto& step : by_step) phase.step_us.push_back(median(step) * static_cast<double>(phase.calls()));
    }
    loaded_.context->set_profile(false);
    return {};
  }

  Status write_trace() {
    progress_.show("write " + flags_.trace);
    const std::string text = trace_->text();
    return write_output(flags_.trace,
                        [&](std::FILE* file) { return std::fwrite(text.data(), 1, text.size(), file) == text.size(); });
  }

  void set_floor(Phase& phase) {
    double read = 0, multiply_s = 0;
    std::span<const Sequence::Run> sample = phase.runs;
    if (phase.one_by_one) sample = sample.subspan(sample.size() / 2, 1);  // the one in the middle
    for (const Sequence::Run& run : sample) {
      const SymbolValues symbols = named_symbols(*loaded_.program, sequence_->symbols_at(run));
      read += weights_read(symbols) + sequence_->live_bytes(run.first + run.tokens);
      for (const PlanStep& step : plan_.steps)
        if (const Problem* linear = plan_.problems[static_cast<size_t>(step.problem)].get_if<Problem>())
          multiply_s += linear->operations(step.rows.evaluate(symbols).value_or(0)) /
                        (fastest_compute(*linear, ceilings_).gflops * 1e9);
    }
    phase.read_s = read / (ceilings_.read_gbps * 1e9);
    phase.multiply_s = multiply_s;
  }

  // Of tables that are looked up in, a run reads the rows that it asks for: they do not count. Of groups, as many count
  // as there are rows.
  double weights_read(const SymbolValues& symbols) const {
    const ProgramManifest& m = loaded_.program->manifest();
    std::map<int, double> bytes;  // by buffer
    for (size_t s = 0; s < m.steps.size(); ++s) {
      const auto& args = m.steps[s].args;
      if (std::ranges::any_of(args, [](const auto& arg) { return arg.reach && arg.reach->positions; })) continue;
      for (size_t a = 0; a < args.size(); ++a) {
        const auto& buffer = m.buffers[static_cast<size_t>(args[a].buffer)];
        if (buffer.kind != ProgramManifest::BufferKind::weights) continue;
        const auto& groups = m.steps[s].groups;
        const bool by_group = groups && static_cast<int>(a) == groups->weights;
        const int64_t rows = plan_.steps[s].rows.evaluate(symbols).value_or(0);
        const int64_t read = by_group ? std::min(groups->count, rows) * groups->bytes : buffer.bytes;
        bytes[args[a].buffer] = static_cast<double>(std::min(read, buffer.bytes));
      }
    }
    double sum = 0;
    for (const auto& [buffer, read] : bytes) sum += read;
    return sum;
  }

  // What it takes to start all threads on a step and to wait for them: a kernel that does nothing.
  void measure_fork_join() {
    static constexpr qcg_kernel kNothing = {QCG_KERNEL_ABI,
                                            1,
                                            [](const qcg_call*, uint32_t) -> int64_t { return 64; },
                                            [](const qcg_call*) -> int64_t { return 0; },
                                            [](const qcg_call*) -> int64_t { return 0; },
                                            [](const qcg_call*, uint32_t, int64_t, int64_t, void*) {}};
    ThreadPool pool({.threads = loaded_.context->threads()});
    Workspace workspace;
    std::vector<double> us;
    for (int i = 0; i < 2000; ++i) {
      const double begin = now_s();
      (void)run_kernel(pool, kNothing, {}, workspace);
      us.push_back((now_s() - begin) * 1e6);
    }
    fork_join_us_ = median(us);
  }

  struct Kind {
    int64_t calls = 0;
    double us = 0;
  };
  std::vector<std::pair<std::string, Kind>> kinds_of(const Phase& phase) const {
    std::map<std::string, Kind> kinds;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      Kind& kind = kinds[family_of(s)];
      kind.calls += static_cast<int64_t>(phase.calls()), kind.us += phase.step_us[s];
    }
    std::vector<std::pair<std::string, Kind>> out(kinds.begin(), kinds.end());
    std::ranges::sort(out, [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
    return out;
  }
  std::string family_of(size_t step) const {
    return std::string(plan_.problems[static_cast<size_t>(plan_.steps[step].problem)].family().name);
  }

  const BenchFlags& flags_;
  ProgressLine progress_;
  LoadedProgram loaded_;
  Graph graph_;  // as it was read
  Plan plan_;
  Ceilings ceilings_;
  std::unique_ptr<Sequence> sequence_;
  std::unique_ptr<State> state_;
  std::vector<Phase> phases_;
  double fork_join_us_ = 0;  // 0: not measured, on a device
  std::optional<ChromeTrace> trace_;
};

void ModelBench::print() const {
  show("{}\n", describe_ceilings(ceilings_));
  Table times({"", "time", "p10", "p90", "rate", "floor", "of it"});
  for (const Phase& phase : phases_) {
    const double rate = static_cast<double>(std::max<int64_t>(1, phase.tokens)) / phase.median_s();
    times.add({phase.tokens == 0  ? "run"
               : phase.one_by_one ? fmt::format("decode {}", phase.runs.size())
                                  : fmt::format("prompt {}", phase.tokens),
               format_time(phase.median_s()), format_time(phase.quantile(.1)), format_time(phase.quantile(.9)),
               fmt::format("{:.4g} {}/s", rate, phase.tokens == 0 ? "runs" : "tokens"),
               fmt::format("{} ({})", format_time(std::max(phase.read_s, phase.multiply_s)),
                           phase.read_s >= phase.multiply_s ? "read" : "multiply"),
               format_share(phase.share())});
  }
  show("{}\n", times.str());
  Table kinds({"", "kind", "calls", "time", "share"});
  for (const Phase& phase : phases_)
    for (const auto& [name, kind] : kinds_of(phase))
      kinds.add({phase.name, name, fmt::format("{}", kind.calls), format_time(kind.us * 1e-6),
                 fmt::format("{:.1f} %", 100 * kind.us / std::max(1e-9, phase.step_sum_us()))});
  show("{}\n", kinds.str());
  for (const Phase& phase : phases_)
    show("{}: {} steps, {:.2f} µs a step, of it {:.2f} µs between kernels\n", phase.name,
         plan_.steps.size() * phase.calls(),
         phase.median_s() * 1e6 / static_cast<double>(std::max<size_t>(1, plan_.steps.size() * phase.calls())),
         phase.between_us());
  if (plan_.target.device == Device::cpu)
    show("a step that does nothing takes {:.2f} µs on {}\n", fork_join_us_, count_of(ceilings_.threads, "thread"));
}

nlohmann::json ModelBench::json() const {
  nlohmann::json phases = nlohmann::json::array();
  for (const Phase& phase : phases_) {
    nlohmann::json kinds = nlohmann::json::array(), steps = nlohmann::json::array();
    for (const auto& [name, kind] : kinds_of(phase))
      kinds.push_back({{"kind", name}, {"calls", kind.calls}, {"us", kind.us}});
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      steps.push_back({{"step", plan_.steps[s].name}, {"kind", family_of(s)}, {"us", phase.step_us[s]}});
    phases.push_back({{"phase", phase.name},
                      {"tokens", phase.tokens},
                      {"runs", phase.runs.size()},
                      {"samples", phase.samples.size()},
                      {"median_us", phase.median_s() * 1e6},
                      {"p10_us", phase.quantile(.1) * 1e6},
                      {"p90_us", phase.quantile(.9) * 1e6},
                      {"tokens_per_s", static_cast<double>(phase.tokens) / phase.median_s()},
                      {"read_floor_us", phase.read_s * 1e6},
                      {"multiply_floor_us", phase.multiply_s * 1e6},
                      {"share", phase.share()},
                      {"between_us", phase.between_us()},
                      {"kinds", kinds},
                      {"steps", steps}});
  }
  return {{"ceilings", ceilings_json(ceilings_)}, {"phases", phases}, {"empty_step_us", fork_join_us_}};
}

}  // namespace

int run_bench_model(const Session& session, const BenchFlags& flags) {
  return run_whole_bench<ModelBench>(session, flags, "bench_program");
}

}  // namespace qcg
