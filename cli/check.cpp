// qcodegen check: compares a program with the float64 oracle, on random or given inputs.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>

#include "cli/cli.h"
#include "cli/report.h"
#include "codegen/compile.h"
#include "codegen/program/compile_options.h"
#include "codegen/program/origin.h"
#include "codegen/program/program_io.h"
#include "codegen/program/program_oracle.h"
#include "codegen/program/random_inputs.h"
#include "codegen/program/staging.h"
#include "codegen/program/state_io.h"
#include "codegen/program/verify_program.h"
#include "graph/checkpoints/read_model.h"
#include "graph/ir/graph.h"
#include "graph/oracle/reference.h"
#include "graph/read/safetensors.h"

namespace qcg {

namespace {

struct CheckFlags {
  std::string path, method, graph, inputs, expected, target;
  std::vector<std::string> weights;
  std::vector<int64_t> m_list;
  int trials = 0;  // 0: three, or one for each --m
  uint64_t seed = 1;
  int threads = 0;
  std::vector<const CLI::Option*> of_program;  // options that apply only to a program
};

// The rows of each trial; 0 stands for the rows of --inputs.
std::vector<int64_t> rows_to_try(const CheckFlags& flags) {
  if (!flags.inputs.empty()) return {0};
  const int trials = flags.trials > 0 ? flags.trials : flags.m_list.empty() ? 3 : 1;
  std::vector<int64_t> out;
  for (int i = 0; i < trials; ++i) {
    if (flags.m_list.empty()) out.push_back(std::array{1, 5, 33, 17, 2, 64}[i % 6]);
    else out.insert(out.end(), flags.m_list.begin(), flags.m_list.end());
  }
  return out;
}

// Error Usage if no symbol can have one of the values: check_program would clamp it and try another size.
Status require_in_range(const Program& program, const std::vector<int64_t>& ms) {
  const ProgramManifest& manifest = program.manifest();
  std::vector<ProgramManifest::Symbol> symbols;  // that inputs determine
  for (size_t i = 0; i < manifest.symbols.size(); ++i)
    if (!manifest.is_read(i)) symbols.push_back(manifest.symbols[i]);
  for (int64_t m : ms)
    if (!symbols.empty() &&
        std::none_of(symbols.begin(), symbols.end(), [m](const auto& s) { return m >= s.min && m <= s.max; }))
      return Error{ErrorCode::Usage, "--m", fmt::format("the program does not accept m={}", m),
                   fmt::format("{} is in [{}, {}]", symbols[0].name, symbols[0].min, symbols[0].max)};
  return {};
}

struct CheckReport {
  std::vector<OutputCheck> outputs;
  std::vector<OutputCheck> of_expected;  // --expected against the oracle, output by output; empty without --expected
  std::vector<std::string> trials;       // "m=3"
  bool ok() const {
    return std::all_of(outputs.begin(), outputs.end(), [](const OutputCheck& o) { return o.ok; });
  }
  // Keeps for each output the trial with the largest error relative to its bound, one that failed before all others.
  void add(const std::vector<OutputCheck>& trial) {
    if (outputs.empty()) outputs = trial;
    for (size_t i = 0; i < trial.size(); ++i) {
      const bool is_further = trial[i].max_err * outputs[i].bound > outputs[i].max_err * trial[i].bound;
      if (trial[i].ok == outputs[i].ok ? is_further : !trial[i].ok) outputs[i] = trial[i];
    }
  }
};

// Compares the program's outputs with the tensors of a file, for example PyTorch's outputs, and these with the oracle.
Status compare_expected(const std::string& path, const Program& program, const Graph& graph,
                        const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                        const std::vector<double>& tolerances, std::vector<OutputCheck>& out,
                        std::vector<OutputCheck>& of_expected) {
  QCG_TRY(file, read_safetensors(path));
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string& name = program.manifest().outputs[i].name;
    auto found = file.tensors.find(name);
    // A value that the graph returns twice has two names in the program and may have only one in the file.
    for (size_t j = 0; j < i && found == file.tensors.end(); ++j)
      if (graph.outputs[j] == graph.outputs[i]) found = file.tensors.find(program.manifest().outputs[j].name);
    if (found == file.tensors.end())
      return Error::bad_input(name, path + " has no tensor of this name",
                              "give the tensors the names of the graph's outputs");
    if (found->second.dtype != got[i].dtype || found->second.shape != got[i].shape)
      return Error::bad_input(
          name,
          fmt::format("{} holds {} [{}], the program gives {} [{}]", path, dtype_name(found->second.dtype),
                      fmt::join(found->second.shape, ", "), dtype_name(got[i].dtype), fmt::join(got[i].shape, ", ")),
          "give the outputs that belong to these inputs");
    const Tensor expected = found->second.contiguous();
    out.push_back(compare_output(name, "expected", got[i], expected, tolerances[i]));
    of_expected.push_back(compare_output(name, "oracle", expected, want[i].contiguous(), tolerances[i]));
  }
  return {};
}

// The places of the graph's states in the program, which has those of all its methods.
Result<std::vector<size_t>> places_of_states(const Program& program, const Graph& graph) {
  const auto& states = program.manifest().states;
  std::vector<size_t> places;
  for (const std::string& name : graph.states) {
    const auto found = std::ranges::find(states, name, [](const auto& state) { return state.name; });
    if (found == states.end())
      return Error::bad_input(name, "the program has no state of this name", "compile the graph again");
    places.push_back(static_cast<size_t>(found - states.begin()));
  }
  return places;
}

// All symbols that inputs determine m, as far as their ranges and the graph's conditions allow it.
Result<std::vector<int64_t>> sizes_near(const Program& program, const Graph& graph, int64_t m) {
  const std::vector<Symbol> symbols = given_symbols(graph);
  std::vector<int64_t> sizes;
  for (const Symbol& s : symbols) sizes.push_back(std::clamp(m, s.min, s.max));
  if (auto found = find_satisfying(graph.conditions, symbols, std::move(sizes))) return std::move(*found);
  return Error::bad_input(program.manifest().method, fmt::format("no sizes near {} satisfy its conditions", m),
                          "give inputs (--inputs)");
}

Result<CheckReport> check_program(const std::string& program_path, const CompileOptions& options,
                                  const CheckFlags& flags, ProgressLine& progress) {
  progress.show("load " + program_path);
  QCG_TRY(loaded, load_program(program_path, flags.threads, options.target, true));
  QCG_CHECK(choose_method(loaded, flags.method));
  QCG_TRY(graph, read_model(options.input, read_options(options)));
  const std::vector<double> allowed = output_tolerances(graph);
  QCG_TRY(states, places_of_states(*loaded.program, graph));
  CheckReport report;
  const std::vector<int64_t> ms = rows_to_try(flags);
  const bool is_sized = !given_symbols(graph).empty();
  const auto name_of = [&](size_t t) {
    if (!flags.inputs.empty()) return flags.inputs;
    return is_sized ? fmt::format("m={}", ms[t]) : fmt::format("seed {}", flags.seed + t);
  };
  QCG_CHECK(require_in_range(*loaded.program, flags.m_list));
  for (size_t t = 0; t < ms.size(); ++t) {
    if (interrupted()) return Error::interrupted();
    progress.show(fmt::format("check {}", name_of(t)));
    QCG_TRY(sizes, sizes_near(*loaded.program, graph, ms[t]));
    const std::vector<int64_t> symbols = values_of_all(graph, sizes);
    QCG_TRY(state, State::create(loaded.program));
    // Given inputs meet the initial state, random ones a random state.
    const auto run = [&]() -> Result<RandomRun> {
      if (flags.inputs.empty())
        return run_at_random(*loaded.program, *loaded.context, *state, symbols, flags.seed + t,
                             input_ranges(graph, named_symbols(*loaded.program, symbols)));
      QCG_TRY(io, ProgramIo::from_file(*loaded.program, flags.inputs));
      QCG_TRY(before, state_tensors(*loaded.program, *state));
      QCG_CHECK(loaded.context->run(*state, io.inputs(), io.outputs()));
      return RandomRun{std::move(io), std::move(before)};
    };
    QCG_TRY(done, run());
    ProgramIo& io = done.io;
    std::vector<Tensor> given = io.input_tensors();
    for (const size_t place : states) given.push_back(done.state_before[place]);
    const ReferenceOptions oracle{.emulate_casts = options.passes.emulate_precision_casts};
    QCG_TRY(want, evaluate_graph(graph, given, oracle));
    std::vector<Tensor> got = io.output_tensors();
    QCG_TRY(after, state_tensors(*loaded.program, *state));
    std::vector<OutputCheck> trial;
    for (size_t i = 0; i < got.size(); ++i)
      trial.push_back(compare_output(loaded.program->manifest().outputs[i].name, "oracle", got[i], want[i].contiguous(),
                                     allowed[i]));
    for (size_t i = 0; i < states.size(); ++i)
      trial.push_back(compare_output("state " + graph.states[i], "oracle", after[states[i]],
                                     want[got.size() + i].contiguous(), allowed[got.size() + i]));
    if (!flags.expected.empty())
      QCG_CHECK(
          compare_expected(flags.expected, *loaded.program, graph, got, want, allowed, trial, report.of_expected));
    for (const size_t place : states) got.push_back(after[place]);
    if (std::any_of(trial.begin(), trial.end(), [](const OutputCheck& o) { return !o.ok; }))
      QCG_CHECK(widen_bounds(graph, given, oracle, got, want, trial));
    report.add(trial);
    const bool same = !flags.inputs.empty() || std::ranges::count(sizes, ms[t]) == std::ssize(sizes);
    report.trials.push_back(same ? name_of(t) : fmt::format("sizes {}", fmt::join(sizes, ", ")));
  }
  return report;
}

// Compiles a graph without tuning to a temporary directory, and checks that program.
Result<CheckReport> check_graph(const Session& session, const CheckFlags& flags, ProgressLine& progress) {
  CompileOptions options;
  options.input = flags.path;
  options.weights = flags.weights;
  options.target = flags.target.empty() ? "cpu" : flags.target;
  options.tune = TuneMode::off;
  options.verify = Verify::kernels;  // check_program checks the whole program below
  options.cache_dir = session.cache_dir;
  options.toolchain = toolchain_options(session);
  options.cancel = &interrupted();
  options.on_step = [&](std::string_view text) { progress.show(text); };
  std::error_code failed;
  std::string dir = (std::filesystem::temp_directory_path(failed) / "qcodegen-check-XXXXXX").string();
  if (failed || !::mkdtemp(dir.data()))
    return Error::io(failed ? "TMPDIR" : dir, "cannot make a temporary directory", "set TMPDIR to a writable place");
  options.output = dir + "/program.qcg";
  auto work = [&]() -> Result<CheckReport> {
    QCG_TRY(compiled, compile_program(options));
    return check_program(compiled.program, options, flags, progress);
  };
  auto report = work();
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
  return report;
}

// The error of --expected against the oracle for row i; null if row i is not a comparison with the oracle.
const OutputCheck* expected_beside(const CheckReport& report, size_t i) {
  return report.outputs[i].against == "oracle" && i < report.of_expected.size() ? &report.of_expected[i] : nullptr;
}

nlohmann::json check_json(const CheckReport& report) {
  nlohmann::json outputs = nlohmann::json::array();
  for (size_t i = 0; i < report.outputs.size(); ++i) {
    const OutputCheck& o = report.outputs[i];
    outputs.push_back({{"name", o.name},
                       {"against", o.against},
                       {"max_err", o.max_err},
                       {"bound", o.bound},
                       {"snr_db", o.snr_db},
                       {"ok", o.ok}});
    if (!o.ok) outputs.back()["how"] = o.describe();
    if (const OutputCheck* expected = expected_beside(report, i)) {
      outputs.back()["expected_err"] = expected->max_err;
      outputs.back()["expected_snr_db"] = expected->snr_db;
    }
  }
  return {{"ok", report.ok()}, {"outputs", outputs}, {"trials", report.trials}};
}

std::string snr_text(double snr_db) { return snr_db == kExact_dB ? "exact" : fmt::format("{:.1f} dB", snr_db); }

void print_check(const CheckReport& report) {
  const bool beside = !report.of_expected.empty();
  std::vector<std::string> header = {"output", "against", "max error", "bound", "SNR", ""};
  if (beside) header.insert(header.end() - 1, "expected's error, SNR");
  Table table(header);
  for (size_t i = 0; i < report.outputs.size(); ++i) {
    const OutputCheck& o = report.outputs[i];
    std::vector<std::string> row = {o.name,
                                    o.against,
                                    fmt::format("{:.3g}", o.max_err),
                                    fmt::format("{:.3g}", o.bound),
                                    snr_text(o.snr_db),
                                    o.ok ? "ok" : "WRONG"};
    const OutputCheck* expected = expected_beside(report, i);
    if (beside)
      row.insert(row.end() - 1,
                 expected ? fmt::format("{:.3g}, {}", expected->max_err, snr_text(expected->snr_db)) : "");
    table.add(row);
  }
  show("{}worst of {} runs: {}\n", table.str(), report.trials.size(), fmt::join(report.trials, ", "));
  for (const OutputCheck& o : report.outputs)
    if (!o.ok) show("{}\n", o.describe());
}

int run_check(const Session& session, const CheckFlags& flags) {
  ProgressLine progress(session);
  auto work = [&]() -> Result<CheckReport> {
    if (!is_program(flags.path)) {
      QCG_CHECK(refuse_options(flags.of_program, "this option is for programs, and this is a graph"));
      return check_graph(session, flags, progress);
    }
    QCG_TRY(manifest, read_manifest_of(flags.path, flags.target));
    QCG_TRY(options, read_origin(flags.path, flags.graph, flags.weights, manifest.target, flags.method));
    return check_program(flags.path, options, flags, progress);
  };
  const auto report = work();
  progress.clear();
  if (!report.ok()) return fail(session, report.error());
  if (session.json) print_json("check", check_json(*report));
  else if (session.verbosity >= 0) print_check(*report);
  return report->ok() ? 0 : 1;
}

}  // namespace

void add_check_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("check", "compare a program with the oracle; a graph is compiled first");
  auto flags = std::make_shared<CheckFlags>();
  sub->add_option("path", flags->path, "a program directory or a graph")->required();
  auto* inputs = sub->add_option("--inputs", flags->inputs,
                                 "a safetensors file with one tensor per input (default: random inputs)");
  sub->add_option("--expected", flags->expected,
                  "a safetensors file with the expected outputs for --inputs, to compare with as well")
      ->needs(inputs);
  flags->of_program = {
      sub->add_option("--graph", flags->graph,
                      "the graph that a program was compiled from (default: its path at that time)"),
      sub->add_option("--method", flags->method, "the method to check, of a program that has several")};
  sub->add_option("--weights", flags->weights,
                  "the weights of the graph; may be repeated (default: those it was compiled with)");
  sub->add_option("--target", flags->target,
                  "the target to compile a graph for (default cpu), or the one to load of a program that was compiled "
                  "for several (default: the best that this machine can run)");
  sub->add_option("--trials", flags->trials, "number of random inputs (default 3; with --m, 1 for each m)")
      ->check(CLI::Range(1, 1000))
      ->excludes(inputs);
  sub->add_option("--m", flags->m_list,
                  "row counts to try, comma separated (default: 1, 5, 33 and so on, one per trial)")
      ->delimiter(',')
      ->check(whole_number<int64_t>(0))
      ->excludes(inputs);
  sub->add_option("--seed", flags->seed, "the seed of the random inputs (default 1)")
      ->check(whole_number<uint64_t>(0))
      ->excludes(inputs);
  sub->add_option("--threads", flags->threads, "threads to run on (default: all that this process may use)")
      ->check(CLI::Range(1, 4096));
  sub->footer(
      "Examples:\n  qcodegen check mlp.qcg --trials 10\n  qcodegen check mlp.qcg --inputs in.safetensors --expected "
      "eager.safetensors");
  sub->callback([&session, flags] { session.status = run_check(session, *flags); });
}

}  // namespace qcg
