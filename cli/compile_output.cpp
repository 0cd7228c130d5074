#include "cli/compile_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/bench.h"
#include "cli/lookups.h"
#include "cli/report.h"
#include "runtime/memory.h"
#include "runtime/program.h"

namespace qcg {

namespace {

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
                       {"disturbed", is_disturbed(k.record)},
                       {"reference", k.reference.kernel},
                       {"reference_samples", k.reference.samples},
                       {"reference_ratio", ratio_of(k.reference, k.record)}});
  return kernels;
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

}  // namespace

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

std::string_view verb_of(const CompileReport& report) {
  return report.is_tuned() ? "tuned" : report.candidates_correct > 0 ? "verified" : "built";
}

std::string describe_cost(const CompileReport& report) {
  std::string out = format_bytes(static_cast<double>(report.program_bytes));
  if (report.earlier.at > 0) return out + fmt::format(" · copied from the cache in {:.2f} s", report.wall_s);
  return out + fmt::format(" · {}, {} from cache, {:.1f} s · {} in {:.1f} s · total {:.1f} s",
                           count_of(report.compiler_runs, "compiler run"), report.cache_hits, report.build_s,
                           verb_of(report), report.tune_s, report.wall_s);
}

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

}  // namespace qcg
