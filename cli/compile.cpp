// qcodegen compile: compiles a graph to a program directory.
#include "codegen/compile.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/compile_output.h"
#include "cli/compile_several.h"
#include "cli/lookups.h"
#include "cli/report.h"
#include "codegen/program/compile_options.h"

namespace qcg {

namespace {

int run_compile(const Session& session, CompileFlags& flags) {
  if (is_several(flags)) return run_compile_several(session, flags);
  auto options = flags.resolve(session);
  if (!options.ok()) return fail(session, options.error());
  if (options->output.empty()) options->output = default_output(options->input);
  options->explain_misses = flags.explain || session.verbosity > 0;
  ProgressLine progress(session);
  options->on_step = [&](std::string_view text) { progress.show(text); };
  if (options->emit != Emit::none) {
    std::string text;
    options->on_emit = [&](std::string_view piece) { text += piece; };
    if (const Status emitted = emit_text(*options); !emitted.ok()) return fail(session, emitted.error());
    if (session.json) print_json("emit", {{"emitted", text}});
    else put(text);
    return 0;
  }
  auto report = compile_program(*options);
  progress.clear();
  if (!report.ok()) return fail(session, report.error());
  if (session.json) return print_json("compile", report_json(*report)), 0;
  if (session.verbosity < 0) return 0;
  for (const std::string& warning : report->warnings) say("warning: " + warning + "\n");
  if (session.verbosity > 0) say(describe_lookups(report->lookups));
  if (report->unchanged) {
    put(labelled("wrote", report->program,
                 fmt::format("unchanged: the same graph and weights were compiled on this machine before, {} {} "
                             "({:.2f} s)",
                             verb_of(*report), format_date(report->tuned), report->wall_s)));
    return 0;
  }
  print_report(flags, *options, *report);
  put(describe_remote(report->remote));
  put(labelled("wrote", report->program, describe_cost(*report)));
  put(describe_noise(report->noise));
  return 0;
}

}  // namespace

void add_compile_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("compile", "compile a graph to a program directory: tuned, checked, self-contained");
  auto flags = std::make_shared<CompileFlags>();
  CompileOptions& o = flags->options;
  flags->add_pass_flags(*sub);
  sub->add_option("methods", flags->more,
                  "further graphs, NAME=GRAPH like the first one: methods of one program, which share weights and "
                  "states");
  sub->get_option("--target")
      ->description(
          "a target of `qcodegen list targets`; cpu (default) is the best target of this host; several, comma "
          "separated, are one program, of which the best is run");
  sub->add_option("-o,--output", o.output, "the program directory (default: GRAPH with .qcg)");
  add_choice<TuneMode>(
      *sub, "--tune", o.tune, {{"off", TuneMode::off}, {"fast", TuneMode::fast}, {"full", TuneMode::full}},
      "fast (default) takes seconds per kernel, full takes minutes; off builds and verifies the best guess");
  add_choice<bool>(
      *sub, "--extern", o.extern_auto, {{"never", false}, {"auto", true}},
      "never (default): the program is self-contained; auto: the program calls oneDNN in ranges of m where oneDNN is "
      "faster, and needs oneDNN to load");
  add_choice<bool>(*sub, "--dequant", o.rounded, {{"exact", false}, {"rounded", true}},
                   "exact (default): weights are not rounded; rounded: kernels may round scaled weights to bf16 first");
  sub->add_option("--threads", o.threads, "threads to tune for (default: all that this process may use)")
      ->check(CLI::Range(1, 4096));
  sub->add_option("--jobs", o.jobs,
                  "most compiler processes at a time (default: one per core, fewer if memory is short)")
      ->check(CLI::Range(1, 4096));
  sub->add_option("--m", o.m_list,
                  "row counts to tune at, comma separated; only their ranges get kernels (default 1,4,16,64,128,257; "
                  "--tune=full: …,64,256,1024)")
      ->delimiter(',')
      ->check(whole_number<int64_t>(1));
  sub->add_option("--pin", o.pin, "replay the winners of this tune log, or of this program");
  sub->add_flag("--retune", o.retune,
                "take kernels from the cache, but time everything again; the cache keeps the new result");
  add_choice<Verify>(*sub, "--verify", o.verify, {{"program", Verify::program}, {"kernels", Verify::kernels}},
                     "what must match the oracle before a program is published: program (default): each kernel, and "
                     "the whole program; kernels: each kernel");
  add_choice<Emit>(*sub, "--emit", o.emit,
                   {{"graph", Emit::graph}, {"plan", Emit::plan}, {"source", Emit::source}, {"asm", Emit::assembly}},
                   "print this instead of compiling a program");
  sub->add_flag("--explain", flags->explain,
                "print which passes fired, why the others did not, and why kernels and program were not in the cache");
  sub->add_flag("--no-cache", flags->no_cache, "neither read nor write the cache");
  sub->add_option(
      "--remote-cache", session.remote_cache,
      "redis://[:PASSWORD@]HOST:PORT/DB?ttl=30d, a server that keeps the cache of a team; entries are signed "
      "with the key in the file QCG_REMOTE_CACHE_KEY_FILE (default: QCG_REMOTE_CACHE, or none)");
  sub->footer(
      "Examples:\n  qcodegen compile mlp.pt2 -o mlp.qcg\n  qcodegen compile graph.json --weights random:1 --tune=off"
      "\n  qcodegen compile encode=encoder.pt2 decode=decoder.pt2 -o whisper.qcg"
      "\n  qcodegen compile mlp.pt2 --target cpu:avx2,cpu:avx512bf16,cuda:sm_80 -o mlp.qcg");
  sub->callback([&session, flags] { session.status = run_compile(session, *flags); });
}

}  // namespace qcg
