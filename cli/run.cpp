// qcodegen run: runs a program on tensors from safetensors files, one call per file, on one state.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>

#include "cli/cli.h"
#include "cli/profile.h"
#include "cli/report.h"
#include "codegen/program/program_io.h"
#include "codegen/program/state_io.h"
#include "codegen/trial/timing.h"

namespace qcg {

namespace {

struct RunFlags {
  std::string program, method, target, state_in, state_out;
  std::vector<std::string> inputs, outputs;  // one per call
  int threads = 0;
  int repeat = 1;
  bool profile = false;
};

// Splits lists of paths at commas, except a path that is_whole accepts as one.
template <class F>
std::vector<std::string> split_paths(const std::vector<std::string>& lists, F&& is_whole) {
  std::vector<std::string> paths;
  for (const std::string& list : lists) {
    if (list.empty() || is_whole(list)) {
      paths.push_back(list);
      continue;
    }
    std::istringstream parts(list);
    for (std::string path; std::getline(parts, path, ',');) paths.push_back(path);
  }
  return paths;
}

// A comma may be part of a path. Text that names an existing file is one input. Outputs are not split where there is
// one text for each call already.
void split_calls(RunFlags& flags) {
  std::error_code ignored;
  flags.inputs =
      split_paths(flags.inputs, [&](const std::string& path) { return std::filesystem::exists(path, ignored); });
  const bool one_each = flags.outputs.size() == flags.inputs.size();
  flags.outputs = split_paths(flags.outputs, [&](const std::string&) { return one_each; });
}

Status check_flags(const RunFlags& flags) {
  if (!flags.outputs.empty() && flags.outputs.size() != flags.inputs.size())
    return Error{ErrorCode::Usage, "--outputs",
                 fmt::format("{} files for the outputs of {} calls", flags.outputs.size(), flags.inputs.size()),
                 "give one file per file of --inputs"};
  if (flags.repeat > 1 && flags.inputs.size() > 1)
    return Error{ErrorCode::Usage, "--repeat", "the calls of several files are not repeated",
                 "give one file with --inputs, or leave --repeat out"};
  return {};
}

Status check_state_flags(const RunFlags& flags, const Program& program) {
  const char* flag = !flags.state_in.empty() ? "--state-in" : !flags.state_out.empty() ? "--state-out" : nullptr;
  if (flag == nullptr || !program.manifest().states.empty()) return {};
  return Error{ErrorCode::Usage, flag, "the program has no state", "`qcodegen inspect PROGRAM` lists states"};
}

struct RunResult {
  std::vector<double> samples;  // seconds, one per call
  double wall = 0;
  int threads = 0;
  std::string target;
  int64_t arena_bytes = 0;
  nlohmann::json outputs = nlohmann::json::array();  // of the last call
  bool done = false;                                 // else it was interrupted
  std::optional<StepTable> profile;                  // of the calls of the last file
};

Result<RunResult> run_calls(const RunFlags& flags, ProgressLine& progress) {
  QCG_CHECK(check_flags(flags));
  progress.show("load " + flags.program);
  QCG_TRY(loaded, load_program(flags.program, flags.threads, flags.target));
  QCG_CHECK(choose_method(loaded, flags.method));
  const Program& program = *loaded.program;
  QCG_CHECK(check_state_flags(flags, program));
  QCG_TRY(state, State::create(loaded.program));
  if (!flags.state_in.empty()) QCG_CHECK(read_state_file(flags.state_in, program, *state));
  RunResult result;
  result.threads = loaded.context->threads();
  result.target = program.manifest().target;
  loaded.context->set_profile(flags.profile);
  const size_t calls = flags.inputs.size() * static_cast<size_t>(flags.repeat);
  for (size_t file = 0; file < flags.inputs.size(); ++file) {
    QCG_TRY(io, ProgramIo::from_file(program, flags.inputs[file]));
    if (flags.profile) {
      progress.show("measure this machine");
      QCG_TRY(symbols, program.bind_symbols(io.inputs()));
      result.profile.emplace(flags.program, loaded.program, std::move(symbols), result.threads);
    }
    progress.show(fmt::format("run {} times on {} threads", calls, result.threads));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < flags.repeat && !interrupted(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      QCG_CHECK(loaded.context->run(*state, io.inputs(), io.outputs()));
      result.samples.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      if (flags.profile) result.profile->add(loaded.context->last_profile());
    }
    result.wall += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (interrupted()) break;
    if (!flags.outputs.empty()) QCG_CHECK(io.write_outputs(flags.outputs[file]));
    result.outputs = io.describe_outputs();
  }
  if (result.samples.empty()) return Error::interrupted();
  result.arena_bytes = loaded.context->arena_bytes();
  result.done = result.samples.size() == calls;
  if (result.done && !flags.state_out.empty()) QCG_CHECK(write_state_file(flags.state_out, program, *state));
  std::sort(result.samples.begin(), result.samples.end());
  return result;
}

int run_run(const Session& session, const RunFlags& flags) {
  ProgressLine progress(session);
  const auto run = run_calls(flags, progress);
  progress.clear();
  if (!run.ok()) return fail(session, run.error());
  const auto& samples = run->samples;
  const auto quantile = [&](double q) { return quantile_of(samples, q); };
  if (session.json) {
    nlohmann::json out = {
        {"wall_s", run->wall},          {"median_us", quantile(.5) * 1e6}, {"p10_us", quantile(.1) * 1e6},
        {"p90_us", quantile(.9) * 1e6}, {"threads", run->threads},         {"target", run->target},
        {"runs", samples.size()},       {"arena_bytes", run->arena_bytes}, {"outputs", run->outputs}};
    if (!run->done) out["interrupted"] = true;
    if (run->profile) out["profile"] = run->profile->json();
    print_json("run", std::move(out));
  } else if (session.verbosity >= 0) {
    show("ran {} times on {} threads: median {} (p10 {}, p90 {})\n", samples.size(), run->threads,
         format_time(quantile(.5)), format_time(quantile(.1)), format_time(quantile(.9)));
    if (run->profile) put(run->profile->text(session.verbosity > 0));
  }
  return run->done ? 0 : complain(Error::interrupted());
}

}  // namespace

void add_run_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("run", "run a program on inputs from safetensors files");
  auto flags = std::make_shared<RunFlags>();
  sub->add_option("program", flags->program, "a program directory")->required();
  sub->add_option("--method", flags->method, "the method to run, of a program that has several");
  sub->add_option(
      "--target", flags->target,
      "the target to run, of a program that was compiled for several, or the device: cpu, cuda, hip (default: "
      "the best that this machine can run)");
  sub->add_option("--inputs", flags->inputs,
                  "a safetensors file with one tensor per input (`qcodegen inspect` shows them); several files, comma "
                  "separated or the option repeated, are calls one after the other on one state")
      ->required()
      ->allow_extra_args(false);
  sub->add_option("--outputs", flags->outputs,
                  "the safetensors files to write the outputs to, one per call, comma separated or the option repeated")
      ->allow_extra_args(false);
  sub->add_option("--state-in", flags->state_in,
                  "a safetensors file with the state to start from (default: the program's initial state)");
  sub->add_option("--state-out", flags->state_out, "the safetensors file to write the state to after the last call");
  sub->add_option("--threads", flags->threads, "threads to run on (default: all that this process may use)")
      ->check(CLI::Range(1, 4096));
  sub->add_option("--repeat", flags->repeat, "number of runs, on one state, whose median time is printed (default 1)")
      ->check(CLI::Range(1, 100000000));
  sub->add_flag(
      "--profile", flags->profile,
      "also print the time, rate and busy threads of each kernel (-v: of each step), in the calls of the last "
      "file; best with --repeat 20 or more");
  sub->footer(
      "Examples:\n  qcodegen run mlp.qcg --inputs in.safetensors --outputs out.safetensors\n"
      "  qcodegen run mlp.qcg --inputs in.safetensors --repeat 100 --profile\n  qcodegen run llm.qcg "
      "--inputs prompt.safetensors,token.safetensors --outputs o1.safetensors,o2.safetensors \\\n    --state-out "
      "cache.safetensors");
  sub->callback([&session, flags] {
    split_calls(*flags);
    session.status = run_run(session, *flags);
  });
}

}  // namespace qcg
