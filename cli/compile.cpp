// qcodegen compile: a graph becomes a program directory.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/report.h"
#include "runtime/memory.h"
#include "runtime/program.h"

namespace qcg {

namespace {

std::string default_output(const std::string& input) {
  return std::filesystem::path(input).replace_extension(".qcg").string();
}

// --tune=fast times the widest ranges below their probe: the m that was timed is what a figure belongs to.
int64_t timed_m(const KernelReport& k) { return k.record.median_s > 0 && k.record.m > 0 ? k.record.m : k.m_probe; }

// What a run's temporaries take where every symbol has its least, and where it has its greatest value; null: more than
// there can be.
nlohmann::json arena_json(const std::string& program) {
  const auto text = read_program_file(program + "/manifest.json");
  const auto manifest = text.ok() ? parse_program_manifest(*text) : Result<ProgramManifest>(text.error());
  if (!manifest.ok()) return nullptr;
  std::vector<int64_t> least, most;
  for (const ProgramManifest::Symbol& symbol : manifest->symbols)
    least.push_back(symbol.min), most.push_back(symbol.max);
  const auto bytes = [&](const std::vector<int64_t>& values) {
    const auto found = arena_bytes(*manifest, values);
    return found.ok() ? nlohmann::json(*found) : nlohmann::json();
  };
  return {{"least", bytes(least)}, {"most", bytes(most)}};
}

nlohmann::json report_json(const CompileReport& report) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const KernelReport& k : report.kernels)
    kernels.push_back({{"name", k.name},
                       {"step", k.step},
                       {"nodes", k.nodes},
                       {"segments", k.segments},
                       {"status", k.status},
                       {"m_min", k.m_min},
                       {"m_max", k.m_max},
                       {"m", timed_m(k)},
                       {"median_us", k.record.median_s * 1e6},
                       {"gbps", k.record.gbps},
                       {"gflops", k.record.gflops},
                       {"share", k.record.share},
                       {"reference", k.best_reference},
                       {"reference_ratio", k.reference_ratio}});
  return {{"program", report.program},         {"wall_s", report.wall_s},
          {"compiler_runs", report.compiler_runs}, {"cache_hits", report.cache_hits},
          {"kernels", kernels},                {"merged", report.merged},
          {"cat_split", report.cat_split},     {"merge_trials", merges_json(report.merges)},
          {"unchanged", report.unchanged},
          {"build_s", report.build_s},         {"tune_s", report.tune_s},
          {"target", report.target},           {"threads", report.threads},
          {"weight_bytes", report.weight_bytes}, {"program_bytes", report.program_bytes},
          {"arena_bytes", arena_json(report.program)},
          {"notes", report.notes},             {"warnings", report.warnings},
          {"passes", passes_json(report.passes)}, {"misses", report.misses},
          {"verified", to_json(report.verdict)}};
}

void print_header(const CompileOptions& options, const CompileReport& report) {
  const std::string input = std::filesystem::path(options.input).filename().string();
  const std::string torch = report.torch_version.empty() ? report.format : "torch " + report.torch_version;
  put(labelled("read", input,
               fmt::format("{} · {} nodes{}{} · {} of packed weights", torch, report.nodes_read,
                           report.symbols.empty() ? "" : " · ", report.symbols,
                           format_bytes(static_cast<double>(report.weight_bytes)))));
  std::string what;
  for (const auto& group : report.merged)
    what += fmt::format("{}{} siblings merged", what.empty() ? "" : " · ", group.size());
  if (!report.cat_split.empty())
    what += fmt::format("{}{} cat-linear", what.empty() ? "" : " · ", report.cat_split.size());
  for (const PassReport& pass : report.passes)
    if (pass.name == "fold_epilogue" && pass.fired > 0)
      what += fmt::format("{}{} operations folded into epilogues", what.empty() ? "" : " · ", pass.fired);
  put(labelled("lower", fmt::format("{} → {} steps", report.nodes_read, report.nodes_lowered), what));
  if (report.ceilings.read_gbps > 0)
    put(labelled(
        "target", report.target,
        fmt::format("{} · {} threads · read {} · f32 {} · bf16 {} · int8 {}", this_machine().cpu, report.threads,
                    format_rate(report.ceilings.read_gbps), format_flops(report.ceilings.peak_gflops_f32),
                    format_flops(report.ceilings.peak_gflops_bf16), format_flops(report.ceilings.peak_gops_int8))));
  else put(labelled("target", report.target, fmt::format("{} threads", report.threads)));
  show("{}\n", labelled("tune", fmt::format("{} kernels", report.kernels.size()),
                        fmt::format("{} candidates: {} correct, {} failed to build, {} wrong", report.candidates,
                                    report.candidates_correct, report.candidates_failed, report.candidates_wrong)));
}

// Not tuned, so there are no times: one line per step.
void print_untimed(const CompileReport& report) {
  Table table({"kernel", "scheme", "one kernel each for m around"});
  for (size_t i = 0; i < report.kernels.size();) {
    const KernelReport& first = report.kernels[i];
    std::string ms;
    for (; i < report.kernels.size() && report.kernels[i].step == first.step; ++i)
      ms += fmt::format("{}{}", ms.empty() ? "" : ", ", report.kernels[i].m_probe);
    table.add({first.step, first.summary, ms});
  }
  put(table.str());
}

void print_kernels(const CompileReport& report) {
  if (std::none_of(report.kernels.begin(), report.kernels.end(),
                   [](const KernelReport& k) { return k.record.median_s > 0; }))
    return print_untimed(report);
  Table table({"kernel", "scheme", "m", "time", "GB/s", "GF/s", "roofline", "against"});
  std::string last;
  ReferenceNotes notes;
  for (const KernelReport& k : report.kernels) {
    const TuneRecord& r = k.record;
    const bool timed = r.median_s > 0;
    std::string against = k.status == "extern" ? "extern" : "";
    if (k.reference_ratio > 0)
      against +=
          (against.empty() ? "" : " · ") + notes.mark(k.best_reference) + " " + format_ratio(k.reference_ratio, 1);
    table.add({k.step == last ? "" : k.step, k.step == last ? "" : k.summary, fmt::format("{}", timed_m(k)),
               timed ? format_time(r.median_s) : "-", timed ? fmt::format("{:.1f}", r.gbps) : "-",
               timed ? fmt::format("{:.0f}", r.gflops) : "-", r.share > 0 ? format_percent(r.share) : "-", against});
    last = k.step;
  }
  show("{}{}", table.str(), notes.str());
}

int run_compile(const Session& session, CompileFlags& flags) {
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
    if (session.json) print_json({{"emitted", text}});
    else put(text);
    return 0;
  }
  auto report = compile_program(*options);
  progress.clear();
  if (!report.ok()) return fail(session, report.error());
  if (session.json) return print_json(report_json(*report)), 0;
  if (session.verbosity < 0) return 0;
  for (const std::string& warning : report->warnings) say("warning: " + warning + "\n");
  if (report->unchanged) {
    put(labelled("wrote", report->program,
                 fmt::format("unchanged: this graph, these weights and this machine were compiled before ({:.2f} s)",
                             report->wall_s)));
    return 0;
  }
  print_header(*options, *report);
  for (const std::string& note : report->notes) show("note: {}\n", note);
  if (flags.explain || flags.time_passes) show("{}\n", describe_passes(report->passes, flags.time_passes));
  for (const auto& [reason, kernels] : report->misses)
    show("{} kernel{} not in the cache: {}\n", kernels, kernels == 1 ? "" : "s", reason);
  print_kernels(*report);
  put(describe_merges(report->merges));
  put(labelled("verify", report->verdict.scope, report->verdict.describe()));
  for (const std::string& line : report->verdict.unchecked) put(labelled("", "not compared", line));
  put(labelled("wrote", report->program,
               fmt::format("{} · {} compiler runs, {} from cache, {:.1f} s · tuned in {:.1f} s · total {:.1f} s",
                           format_bytes(static_cast<double>(report->program_bytes)), report->compiler_runs,
                           report->cache_hits, report->build_s, report->tune_s, report->wall_s)));
  return 0;
}

}  // namespace

void add_compile_command(CLI::App& app, Session& session) {
  auto* sub = app.add_subcommand("compile", "compile a graph to a program directory: tuned, checked, self-contained");
  auto flags = std::make_shared<CompileFlags>();
  CompileOptions& o = flags->options;
  flags->add_pass_flags(*sub);
  sub->add_option("-o,--output", o.output, "the program directory (default: GRAPH with .qcg)");
  add_choice<TuneMode>(
      *sub, "--tune", o.tune, {{"off", TuneMode::off}, {"fast", TuneMode::fast}, {"full", TuneMode::full}},
      "fast (default) takes seconds per kernel, full takes minutes; off builds the best guess and verifies it");
  add_choice<bool>(
      *sub, "--extern", o.extern_auto, {{"never", false}, {"auto", true}},
      "never (default): the program is self-contained; auto: it calls oneDNN for ranges of m where that is "
      "faster, and needs it to load");
  add_choice<bool>(
      *sub, "--dequant", o.rounded, {{"exact", false}, {"rounded", true}},
      "exact (default): codes are multiplied as they are; rounded: grouped weights may be rounded to bf16 first");
  sub->add_option("--threads", o.threads, "threads to tune for (default: all that this process may use)")
      ->check(CLI::Range(1, 4096));
  sub->add_option("--jobs", o.jobs, "compiler processes at once (default: one per core, fewer where memory is short)")
      ->check(CLI::Range(1, 4096));
  sub->add_option("--m", o.m_list,
                  "rows to tune at, comma separated (default 1,4,16,64,128,257; --tune=full: …,64,256,1024)")
      ->delimiter(',')
      ->check(whole_number<int64_t>(1));
  sub->add_option("--pin", o.pin, "replay the winners of this tune log");
  add_choice<Verify>(*sub, "--verify", o.verify, {{"program", Verify::program}, {"kernels", Verify::kernels}},
                     "what must agree with the oracle before a program is published: all of it, run once (default), or "
                     "each kernel");
  add_choice<Emit>(*sub, "--emit", o.emit,
                   {{"graph", Emit::graph}, {"plan", Emit::plan}, {"source", Emit::source}, {"asm", Emit::assembly}},
                   "print this, and compile nothing");
  sub->add_flag("--explain", flags->explain,
                "print which passes fired, why the others did not, and why kernels and program had to be built");
  sub->add_flag("--no-cache", flags->no_cache, "neither read nor write the cache");
  sub->footer(
      "Examples:\n  qcodegen compile mlp.pt2 -o mlp.qcg\n  qcodegen compile graph.json --weights random:1 --tune=off");
  sub->callback([&session, flags] { session.status = run_compile(session, *flags); });
}

}  // namespace qcg
