// qcodegen check: a program against the oracle, in double, on random or given inputs.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "cli/cli.h"
#include "cli/program_io.h"
#include "cli/report.h"
#include "codegen/compile.h"
#include "codegen/origin.h"
#include "codegen/staging.h"
#include "graph/graph.h"
#include "graph/read/safetensors.h"
#include "graph/steps.h"

namespace qcg {

namespace {

struct CheckFlags {
  std::string path, graph, inputs, expected, target = "cpu";
  std::vector<std::string> weights;
  std::vector<int64_t> m_list;
  int trials = 0;  // 0: three, or one at each --m
  uint64_t seed = 1;
  int threads = 0;
  std::vector<const CLI::Option*> of_graph, of_program;  // options that only one of them has a use for
};

// Whether something in between is rounded to codes: there the last bit of a sum can become a whole step.
bool has_steps(const Graph& graph) {
  const std::vector<bool> decides = find_step_inputs(graph);
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return decides[id]; });
  });
}

// Largest error relative to the largest output that rounding of intermediates to their dtypes, or to codes, explains.
double tolerance(DType dtype, bool steps) {
  if (steps && dtype == DType::f32) return 1e-2;
  switch (dtype) {
    case DType::f32: return 2e-4;
    case DType::f16: return 1e-2;
    case DType::bf16: return 4e-2;
    case DType::f8e4m3: return 0.125;  // one step of three and of two bits of mantissa
    case DType::f8e5m2: return 0.25;
    default: return 0;
  }
}

// Of each output: as of its dtype, or of the narrower one that something it is computed from was rounded to.
std::vector<double> tolerances(const Graph& graph) {
  const bool steps = has_steps(graph);
  std::vector<double> rounded(graph.values.size(), 0);  // by value
  for (const Node& node : graph.nodes) {
    double widest = 0;
    for_each_input(node, [&](ValueId id) { widest = std::max(widest, rounded[id]); });
    for (ValueId id : node.outputs) {
      const DType dtype = graph.value(id).dtype;
      const bool rounds = is_half(dtype);
      const bool moves = node.op->role == OpRole::view || node.op->role == OpRole::copy;
      rounded[id] = rounds && !moves ? std::max(widest, tolerance(dtype, steps)) : widest;
    }
  }
  std::vector<double> out;
  for (ValueId id : graph.outputs) {
    const DType dtype = graph.value(id).dtype;
    out.push_back(is_floating(dtype) ? std::max(tolerance(dtype, steps), rounded[id]) : tolerance(dtype, steps));
  }
  return out;
}

struct OutputCheck {
  std::string name;
  std::string against;  // "oracle" or "expected"
  double max_err = 0, bound = 0, snr_db = 0;
  bool ok = true;
};

OutputCheck compare(const std::string& name, const std::string& against, const Tensor& got, const Tensor& want,
                    double tolerance) {
  OutputCheck out{name, against, 0, 0, 0, true};
  double largest = 0, signal = 0, noise = 0;
  const size_t size = dtype_bytes(got.dtype);
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double g = element_to_double(got.dtype, got.bytes().data() + static_cast<size_t>(i) * size);
    const double w = element_to_double(want.dtype, want.bytes().data() + static_cast<size_t>(i) * size);
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w)), signal += w * w;
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    const double error = std::isfinite(g) && std::isfinite(w) ? std::fabs(g - w) : HUGE_VAL;
    out.max_err = std::max(out.max_err, error);
    noise += error * error;
  }
  out.bound = tolerance * largest;
  out.snr_db = noise == 0 ? 999 : 10 * std::log10(signal / noise);
  out.ok = std::isfinite(out.max_err) && out.max_err <= out.bound;
  return out;
}

// Where sums cancel, or steps follow, an output may be off by more than its tolerance: by as much as the oracle's is when what
// it is computed from is disturbed. `outputs`: against the oracle, then against what was expected.
constexpr int kDisturbances = 8;
constexpr double kBeyondDisturbance = 2;
Status widen_bounds(const Graph& graph, const std::vector<Tensor>& inputs, ReferenceOptions options,
                    const std::vector<Tensor>& want, std::vector<OutputCheck>& outputs) {
  for (int seed = 1; seed <= kDisturbances; ++seed) {
    options.disturbed = uint64_t(seed);
    QCG_TRY(moved, evaluate_graph(graph, inputs, options));
    for (size_t i = 0; i < outputs.size(); ++i) {
      OutputCheck& o = outputs[i];
      const Tensor& from = want[i % want.size()];
      if (!is_floating(from.dtype)) continue;
      const double by = compare(o.name, o.against, moved[i % want.size()].contiguous(), from.contiguous(), 0).max_err;
      if (std::isfinite(by)) o.bound = std::max(o.bound, kBeyondDisturbance * by);
      o.ok = std::isfinite(o.max_err) && o.max_err <= o.bound;
    }
  }
  return {};
}

// Tensors for the program's inputs with every symbol at a value of its range that is no multiple of anything.
Result<std::vector<Tensor>> random_inputs(const Program& program, int64_t m, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<int64_t> symbols;
  for (const auto& symbol : program.manifest().symbols) symbols.push_back(std::clamp(m, symbol.min, symbol.max));
  std::vector<Tensor> out;
  for (const auto& input : program.manifest().inputs) {
    std::vector<int64_t> shape;
    for (const SizeExpr& dim : input.shape) shape.push_back(dim.evaluate(symbols).value_or(0));
    Tensor zeros = Tensor::zeros(input.dtype, shape);
    std::vector<std::byte> bytes(zeros.bytes().begin(), zeros.bytes().end());
    std::normal_distribution<double> normal;
    std::uniform_int_distribution<int64_t> integers(input.dtype == DType::u8 ? 0 : -100, 100);
    for (int64_t i = 0; i < zeros.numel(); ++i) {
      std::byte* p = bytes.data() + static_cast<size_t>(i) * dtype_bytes(input.dtype);
      if (is_floating(input.dtype)) double_to_element(input.dtype, normal(rng), p);
      else int_to_element(input.dtype, integers(rng), p);
    }
    out.push_back(Tensor::from_bytes(input.dtype, shape, std::move(bytes)));
  }
  return out;
}

// One trial each; 0 stands for the rows of given inputs.
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

// Rows that no symbol can stand for would be tried as others.
Status require_in_range(const Program& program, const std::vector<int64_t>& ms) {
  const auto& symbols = program.manifest().symbols;
  for (int64_t m : ms)
    if (!symbols.empty() &&
        std::none_of(symbols.begin(), symbols.end(), [m](const auto& s) { return m >= s.min && m <= s.max; }))
      return Error{ErrorCode::Usage, "--m", fmt::format("the program takes no m={}", m),
                   fmt::format("{} is in [{}, {}]", symbols[0].name, symbols[0].min, symbols[0].max)};
  return {};
}

struct CheckReport {
  std::vector<OutputCheck> outputs;
  std::vector<std::string> trials;  // "m=3"
  bool ok() const {
    return std::all_of(outputs.begin(), outputs.end(), [](const OutputCheck& o) { return o.ok; });
  }
  // Keeps the worst of each output over the trials.
  void add(const std::vector<OutputCheck>& trial) {
    if (outputs.empty()) outputs = trial;
    for (size_t i = 0; i < trial.size(); ++i)
      if (trial[i].max_err * outputs[i].bound > outputs[i].max_err * trial[i].bound || !trial[i].ok)
        outputs[i] = trial[i];
  }
};

// Adds a comparison with the tensors of a file, say what PyTorch computed from the same inputs.
Status compare_expected(const std::string& path, const Program& program, const Graph& graph,
                        const std::vector<Tensor>& got, const std::vector<double>& tolerances,
                        std::vector<OutputCheck>& out) {
  QCG_TRY(file, read_safetensors(path));
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string& name = program.manifest().outputs[i].name;
    auto found = file.tensors.find(name);
    // A value that is returned twice has two names here and may have one there.
    for (size_t j = 0; j < i && found == file.tensors.end(); ++j)
      if (graph.outputs[j] == graph.outputs[i]) found = file.tensors.find(program.manifest().outputs[j].name);
    if (found == file.tensors.end())
      return Error::bad_input(name, path + " has no tensor of this name",
                              "name the tensors as the graph's outputs are named");
    if (found->second.dtype != got[i].dtype || found->second.shape != got[i].shape)
      return Error::bad_input(
          name,
          fmt::format("{} holds {} [{}], the program gives {} [{}]", path, dtype_name(found->second.dtype),
                      fmt::join(found->second.shape, ", "), dtype_name(got[i].dtype), fmt::join(got[i].shape, ", ")),
          "take the outputs that belong to these inputs");
    out.push_back(compare(name, "expected", got[i], found->second.contiguous(), tolerances[i]));
  }
  return {};
}

Result<CheckReport> check_program(const std::string& program_path, const CompileOptions& options,
                                  const CheckFlags& flags, ProgressLine& progress) {
  progress.show("load " + program_path);
  QCG_TRY(loaded, load_program(program_path, flags.threads, true));
  QCG_TRY(graph, read_graph(options.input, {.weights = options.weights, .int4_packing = options.int4_packing}));
  const std::vector<double> allowed = tolerances(graph);
  CheckReport report;
  const auto name_of = [&](int64_t m) { return flags.inputs.empty() ? fmt::format("m={}", m) : flags.inputs; };
  const std::vector<int64_t> ms = rows_to_try(flags);
  QCG_CHECK(require_in_range(*loaded.program, flags.m_list));
  for (size_t t = 0; t < ms.size(); ++t) {
    if (interrupted()) return Error::interrupted();
    progress.show(fmt::format("check {}", name_of(ms[t])));
    auto from = [&]() -> Result<ProgramIo> {
      if (!flags.inputs.empty()) return ProgramIo::from_file(*loaded.program, flags.inputs);
      QCG_TRY(tensors, random_inputs(*loaded.program, ms[t], flags.seed + t));
      return ProgramIo::from_tensors(*loaded.program, std::move(tensors));
    };
    QCG_TRY(io, from());
    QCG_CHECK(loaded.context->run(io.inputs(), io.outputs()));
    const ReferenceOptions oracle{.emulate_casts = options.passes.emulate_precision_casts};
    QCG_TRY(want, evaluate_graph(graph, io.input_tensors(), oracle));
    const std::vector<Tensor> got = io.output_tensors();
    std::vector<OutputCheck> trial;
    for (size_t i = 0; i < got.size(); ++i)
      trial.push_back(
          compare(loaded.program->manifest().outputs[i].name, "oracle", got[i], want[i].contiguous(), allowed[i]));
    if (!flags.expected.empty())
      QCG_CHECK(compare_expected(flags.expected, *loaded.program, graph, got, allowed, trial));
    if (std::any_of(trial.begin(), trial.end(), [](const OutputCheck& o) { return !o.ok; }))
      QCG_CHECK(widen_bounds(graph, io.input_tensors(), oracle, want, trial));
    report.add(trial);
    report.trials.push_back(name_of(ms[t]));
  }
  return report;
}

// A graph is compiled first, untuned, to a place that goes away again.
Result<CheckReport> check_graph(const Session& session, const CheckFlags& flags, ProgressLine& progress) {
  CompileOptions options;
  options.input = flags.path;
  options.weights = flags.weights;
  options.target = flags.target;
  options.tune = TuneMode::off;
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

int run_check(const Session& session, const CheckFlags& flags) {
  ProgressLine progress(session);
  auto work = [&]() -> Result<CheckReport> {
    if (!is_program(flags.path)) {
      QCG_CHECK(refuse_options(flags.of_program, "only a program can have lost its graph"));
      return check_graph(session, flags, progress);
    }
    QCG_CHECK(refuse_options(flags.of_graph, "a program is checked as it was compiled: only a graph takes this"));
    QCG_TRY(options, read_origin(flags.path, flags.graph, flags.weights));
    return check_program(flags.path, options, flags, progress);
  };
  const auto report = work();
  progress.clear();
  if (!report.ok()) return fail(session, report.error());
  if (session.json) {
    nlohmann::json outputs = nlohmann::json::array();
    for (const OutputCheck& o : report->outputs)
      outputs.push_back({{"name", o.name},
                         {"against", o.against},
                         {"max_err", o.max_err},
                         {"bound", o.bound},
                         {"snr_db", o.snr_db},
                         {"ok", o.ok}});
    print_json({{"ok", report->ok()}, {"outputs", outputs}, {"trials", report->trials}});
  } else {
    Table table({"output", "against", "max error", "bound", "SNR", ""});
    for (const OutputCheck& o : report->outputs)
      table.add({o.name, o.against, fmt::format("{:.3g}", o.max_err), fmt::format("{:.3g}", o.bound),
                 fmt::format("{:.1f} dB", o.snr_db), o.ok ? "ok" : "WRONG"});
    if (session.verbosity >= 0)
      show("{}worst of {} runs: {}\n", table.str(), report->trials.size(), fmt::join(report->trials, ", "));
  }
  return report->ok() ? 0 : 1;
}

}  // namespace

void add_check_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("check", "compare a program, or a graph compiled on the spot, with the oracle");
  auto flags = std::make_shared<CheckFlags>();
  sub->add_option("path", flags->path, "a program directory or a graph")->required();
  auto* inputs = sub->add_option("--inputs", flags->inputs,
                                 "a safetensors file with one tensor per input (default: random inputs)");
  sub->add_option("--expected", flags->expected,
                  "a safetensors file with the outputs of these inputs, to compare with them too")
      ->needs(inputs);
  flags->of_program = {sub->add_option("--graph", flags->graph,
                                       "the graph that a program was compiled from (default: where it lay then)")};
  sub->add_option("--weights", flags->weights,
                  "the weights of the graph; may be repeated (default: those it was compiled with)");
  flags->of_graph = {sub->add_option("--target", flags->target, "the target to compile a graph for (default cpu)")};
  sub->add_option("--trials", flags->trials, "random inputs to try (default 3; with --m 1 at each)")
      ->check(CLI::Range(1, 1000))
      ->excludes(inputs);
  sub->add_option("--m", flags->m_list, "rows to try, comma separated (default: 1, 5, 33 and so on, one per trial)")
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
