// qcodegen compile: compiles a graph to a program directory.
#include "codegen/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/compile_flags.h"
#include "cli/lookups.h"
#include "cli/report.h"
#include "codegen/program/combine.h"
#include "codegen/program/compile_options.h"
#include "codegen/program/staging.h"
#include "runtime/memory.h"
#include "runtime/program.h"

namespace qcg {

namespace {

std::string default_output(const std::string& input) {
  return std::filesystem::path(input).replace_extension(".qcg").string();
}

// The m of a kernel's figures. --tune=fast times the widest ranges at a smaller m than their m_probe.
int64_t timed_m(const KernelReport& k) { return k.record.median_s > 0 && k.record.m > 0 ? k.record.m : k.m_probe; }

// The bytes of a run's temporaries with the least and with the greatest value of every symbol; null if they overflow.
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

// The cost of this compile (CompileReport), or of the earlier one that the cache kept.
template <class Report>
nlohmann::json cost_json(const Report& c) {
  return {{"wall_s", c.wall_s},
          {"compiler_runs", c.compiler_runs},
          {"cache_hits", c.cache_hits},
          {"build_s", c.build_s},
          {"tune_s", c.tune_s}};
}

nlohmann::json kernels_json(const CompileReport& report) {
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
                       {"share_doubtful", is_doubtful_share(k.record.share)},
                       {"samples", k.record.samples},
                       {"disturbed", is_disturbed(timing_of(k.record))},
                       {"reference", k.reference.kernel},
                       {"reference_samples", k.reference.samples},
                       {"reference_ratio", ratio_of(k.reference, k.record)}});
  return kernels;
}

nlohmann::json report_json(const CompileReport& report) {
  nlohmann::json out = cost_json(report);
  out.update({{"program", report.program},
              {"kernels", kernels_json(report)},
              {"merged", report.merged},
              {"cat_split", report.cat_split},
              {"merge_trials", merges_json(report.merges)},
              {"unchanged", report.unchanged},
              {"tuned", report.tuned},
              {"target", report.target},
              {"threads", report.threads},
              {"weight_bytes", report.weight_bytes},
              {"program_bytes", report.program_bytes},
              {"arena_bytes", arena_json(report.program)},
              {"noise",
               {{"timings", report.noise.timings},
                {"disturbed", report.noise.disturbed},
                {"close_decisions", report.noise.close},
                {"final", report.is_final()}}},
              {"notes", report.notes},
              {"warnings", report.warnings},
              {"misses", report.misses},
              {"lookups", lookups_json(report.lookups)},
              {"passes", passes_json(report.passes)},
              {"verified", to_json(report.verdict)}});
  if (report.earlier.at > 0) out["earlier"] = cost_json(report.earlier);
  if (!report.remote.server.empty()) out["remote_cache"] = remote_json(report.remote);
  if (report.ceilings.read_gbps > 0) out["ceilings"] = ceilings_json(report.ceilings);
  const PinReport& pins = report.pins;
  if (pins.kernels > 0)
    out["pins"] = {{"pinned", pins.pinned}, {"kernels", pins.kernels}, {"log", pins.log}, {"machine", pins.machine}};
  return out;
}

// The verb for the kernels in the report. Without tuning they are only verified, and only if the host can run them.
std::string_view verb_of(const CompileReport& report) {
  return report.is_tuned() ? "tuned" : report.candidates_correct > 0 ? "verified" : "built";
}

void print_header(const CompileOptions& options, const CompileReport& report) {
  const std::string input = std::filesystem::path(options.input).filename().string();
  const std::string torch = report.torch_version.empty() ? report.format : "torch " + report.torch_version;
  put(labelled("read", input,
               fmt::format("{} · {}{}{} · {} of packed weights", torch, count_of(report.nodes_read, "node"),
                           report.symbols.empty() ? "" : " · ", report.symbols,
                           format_bytes(static_cast<double>(report.weight_bytes)))));
  std::string what;
  for (const auto& group : report.merged)
    what += fmt::format("{}{} siblings merged", what.empty() ? "" : " · ", group.size());
  if (!report.cat_split.empty())
    what += fmt::format("{}{} cat-linear", what.empty() ? "" : " · ", report.cat_split.size());
  for (const PassReport& pass : report.passes)
    if (pass.name == "fold_epilogue" && pass.fired > 0)
      what += fmt::format("{}{} folded into epilogues", what.empty() ? "" : " · ", count_of(pass.fired, "operation"));
  put(labelled("lower", fmt::format("{} → {}", report.nodes_read, count_of(report.nodes_lowered, "step")), what));
  if (report.ceilings.read_gbps > 0)
    put(labelled(
        "target", report.target,
        fmt::format("{} · {} · read {} · f32 {} · bf16 {} · int8 {}", this_machine().cpu,
                    count_of(report.threads, "thread"), format_rate(report.ceilings.read_gbps),
                    format_flops(report.ceilings.peak_gflops_f32), format_flops(report.ceilings.peak_gflops_bf16),
                    format_flops(report.ceilings.peak_gops_int8))));
  else put(labelled("target", report.target, count_of(report.threads, "thread")));
  std::string tried =
      fmt::format("{}: {} correct, {} failed to build, {} wrong", count_of(report.candidates, "candidate"),
                  report.candidates_correct, report.candidates_failed, report.candidates_wrong);
  if (report.earlier.at > 0)
    tried += fmt::format(" · {} {}, figures of that run", verb_of(report), format_date(report.tuned));
  const PinReport& pins = report.pins;
  if (pins.kernels > 0) tried += fmt::format(" · {} of {} pinned", pins.pinned, count_of(pins.kernels, "kernel"));
  put(labelled(report.is_tuned() ? "tune" : "verify", count_of(static_cast<int64_t>(report.kernels.size()), "kernel"),
               tried) +
      "\n");
}

// The table without tuning has no times: one line per step.
void print_untimed(const CompileReport& report) {
  Table table({"kernel", "scheme", "m of its kernels"});
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
  MarkNotes marks;
  for (const KernelReport& k : report.kernels) {
    const TuneRecord& r = k.record;
    const bool timed = r.median_s > 0;
    std::string against = k.status == "extern" ? "extern" : "";
    if (k.reference.median_s > 0)
      against += (against.empty() ? "" : " · ") + notes.mark(k.reference.kernel) + " " + format_ratio(k.reference, r);
    table.add({k.step == last ? "" : k.step, k.step == last ? "" : k.summary, fmt::format("{}", timed_m(k)),
               format_time(r), timed ? fmt::format("{:.1f}", r.gbps) : "-",
               timed ? fmt::format("{:.0f}", r.gflops) : "-", format_share(r.share), against});
    marks.see(r), marks.see(k.reference);
    last = k.step;
  }
  show("{}{}{}", table.str(), notes.str(), marks.str());
}

// "955.0 kB · 45 compiler runs, 0 from cache, 6.7 s · tuned in 6.0 s · total 13.1 s"
std::string describe_cost(const CompileReport& report) {
  std::string out = format_bytes(static_cast<double>(report.program_bytes));
  if (report.earlier.at > 0) return out + fmt::format(" · copied from the cache in {:.2f} s", report.wall_s);
  return out + fmt::format(" · {}, {} from cache, {:.1f} s · {} in {:.1f} s · total {:.1f} s",
                           count_of(report.compiler_runs, "compiler run"), report.cache_hits, report.build_s,
                           verb_of(report), report.tune_s, report.wall_s);
}

// All but where the program went.
void print_report(const CompileFlags& flags, const CompileOptions& options, const CompileReport& report) {
  print_header(options, report);
  for (const std::string& note : report.notes) show("note: {}\n", note);
  if (flags.explain || flags.time_passes) show("{}\n", describe_passes(report.passes, flags.time_passes));
  for (const auto& [reason, kernels] : report.misses)
    show("{} not in the cache: {}\n", count_of(kernels, "kernel"), reason);
  print_kernels(report);
  put(describe_merges(report.merges));
  put(labelled("verify", report.verdict.scope, report.verdict.describe()));
  for (const std::string& line : report.verdict.unchecked) put(labelled("", "not compared", line));
}

// "encode=a.pt2" as a name and a graph; no name: it is a graph.
std::pair<std::string, std::string> parse_method(const std::string& word) {
  const size_t equal = std::min(word.find('='), word.size());
  const std::string name = word.substr(0, equal);
  std::error_code failed;
  if (equal == word.size() || !is_method_name(name) || std::filesystem::exists(word, failed)) return {"", word};
  return {name, word.substr(equal + 1)};
}

bool has_methods(const CompileFlags& flags) {
  return !flags.more.empty() || !parse_method(flags.options.input).first.empty();
}

using NamedGraphs = std::vector<std::pair<std::string, std::string>>;

Result<NamedGraphs> parse_methods(const CompileFlags& flags) {
  std::vector<std::string> words = {flags.options.input};
  words.insert(words.end(), flags.more.begin(), flags.more.end());
  NamedGraphs graphs;
  for (const std::string& word : words) {
    const auto [name, graph] = parse_method(word);
    if (name.empty() || graph.empty())
      return Error{ErrorCode::Usage, word, "is not NAME=GRAPH, as each of several graphs has to be",
                   "names of methods have letters, digits and underscores: encode=a.pt2 decode=b.pt2"};
    if (std::ranges::any_of(graphs, [&](const auto& other) { return other.first == name; }))
      return Error{ErrorCode::Usage, word, "another graph has this name", "give each method a name of its own"};
    graphs.emplace_back(name, graph);
  }
  if (flags.options.output.empty())
    return Error{ErrorCode::Usage, "--output", "is not given", "name the program of several methods with -o"};
  if (flags.options.emit != Emit::none)
    return Error{ErrorCode::Usage, "--emit", "takes one graph", "name one graph, without a name of a method"};
  return graphs;
}

// Each method as a program of its own, in a place that disappears; then all of them as one.
int run_compile_methods(const Session& session, CompileFlags& flags) {
  ProgressLine progress(session);
  nlohmann::json methods = nlohmann::json::object();
  const auto work = [&]() -> Result<CombineReport> {
    QCG_TRY(graphs, parse_methods(flags));
    QCG_TRY(options, flags.resolve(session));
    const std::string output = options.output;
    QCG_CHECK(check_destination(output));
    const auto folder = std::filesystem::path(output).parent_path();
    QCG_TRY(scratch, ScratchDir::create(folder.empty() ? "." : folder.string()));
    options.explain_misses = flags.explain || session.verbosity > 0;
    options.on_step = [&](std::string_view text) { progress.show(text); };
    std::vector<MethodProgram> programs;
    for (const auto& [name, graph] : graphs) {
      programs.push_back({name, scratch.path() + "/" + name + ".qcg"});
      options.input = graph, options.output = programs.back().directory;
      QCG_TRY(report, compile_program(options));
      progress.clear();
      for (const std::string& warning : report.warnings) say("warning: " + warning + "\n");
      methods[name] = report_json(report);
      methods[name]["program"] = output;
      if (session.json || session.verbosity < 0) continue;
      put(labelled("method", name, ""));
      print_report(flags, options, report);
    }
    progress.show("combine the methods");
    return combine_programs(programs, output);
  };
  const auto report = work();
  progress.clear();
  if (!report.ok()) return fail(session, report.error());
  const std::string shared = fmt::format("{} of weights · {} shared", format_bytes(double(report->weight_bytes)),
                                         format_bytes(double(report->shared_bytes)));
  if (session.json)
    print_json("compile_methods", {{"program", flags.options.output},
                                   {"methods", methods},
                                   {"weight_bytes", report->weight_bytes},
                                   {"shared_bytes", report->shared_bytes}});
  else if (session.verbosity >= 0)
    put(labelled("wrote", flags.options.output, format_bytes(double(report->bytes)) + " · " + shared));
  return 0;
}

int run_compile(const Session& session, CompileFlags& flags) {
  if (has_methods(flags)) return run_compile_methods(session, flags);
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
      "\n  qcodegen compile encode=encoder.pt2 decode=decoder.pt2 -o whisper.qcg");
  sub->callback([&session, flags] { session.status = run_compile(session, *flags); });
}

}  // namespace qcg
