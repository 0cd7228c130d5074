// qcodegen run: runs a program on tensors from a safetensors file.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/cli.h"
#include "cli/report.h"
#include "codegen/program/program_io.h"

namespace qcg {

namespace {

struct RunFlags {
  std::string program, inputs, outputs;
  int threads = 0;
  int repeat = 1;
};

int run_run(const Session& session, const RunFlags& flags) {
  ProgressLine progress(session);
  progress.show("load " + flags.program);
  auto loaded = load_program(flags.program, flags.threads);
  progress.clear();
  if (!loaded.ok()) return fail(session, loaded.error());
  auto io = ProgramIo::from_file(*loaded->program, flags.inputs);
  if (!io.ok()) return fail(session, io.error());
  progress.show(fmt::format("run {} times on {} threads", flags.repeat, loaded->context->threads()));
  std::vector<double> samples;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < flags.repeat && !interrupted(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (const Status status = loaded->context->run(io->inputs(), io->outputs()); !status.ok())
      return progress.clear(), fail(session, status.error());
    samples.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  progress.clear();
  if (samples.empty()) return fail(session, Error::interrupted());
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const bool done = samples.size() == static_cast<size_t>(flags.repeat);
  if (done && !flags.outputs.empty())
    if (const Status status = io->write_outputs(flags.outputs); !status.ok()) return fail(session, status.error());
  std::sort(samples.begin(), samples.end());
  auto quantile = [&](double q) { return samples[static_cast<size_t>(q * static_cast<double>(samples.size() - 1))]; };
  if (session.json) {
    print_json({{"wall_s", wall}, {"median_us", quantile(.5) * 1e6}, {"p10_us", quantile(.1) * 1e6},
                {"p90_us", quantile(.9) * 1e6}, {"threads", loaded->context->threads()}, {"runs", samples.size()},
                {"arena_bytes", loaded->context->arena_bytes()}, {"outputs", io->describe_outputs()}});
  } else if (session.verbosity >= 0) {
    show("ran {} times on {} threads: median {} (p10 {}, p90 {})\n", samples.size(), loaded->context->threads(),
         format_time(quantile(.5)), format_time(quantile(.1)), format_time(quantile(.9)));
  }
  return done ? 0 : complain(Error::interrupted());
}

}  // namespace

void add_run_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("run", "run a program on inputs from a safetensors file");
  auto flags = std::make_shared<RunFlags>();
  sub->add_option("program", flags->program, "a program directory")->required();
  sub->add_option("--inputs", flags->inputs,
                  "a safetensors file with one tensor per input (`qcodegen inspect` shows them)")
      ->required();
  sub->add_option("--outputs", flags->outputs, "the safetensors file to write the outputs to");
  sub->add_option("--threads", flags->threads, "threads to run on (default: all that this process may use)")
      ->check(CLI::Range(1, 4096));
  sub->add_option("--repeat", flags->repeat, "number of runs, whose median time is printed (default 1)")
      ->check(CLI::Range(1, 100000000));
  sub->footer("Example:\n  qcodegen run mlp.qcg --inputs in.safetensors --outputs out.safetensors");
  sub->callback([&session, flags] { session.status = run_run(session, *flags); });
}

}  // namespace qcg
