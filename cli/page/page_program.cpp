// What a program directory says of itself, for the page.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/page/page.h"
#include "cli/profile.h"
#include "cli/report.h"
#include "cli/signature.h"
#include "codegen/compile.h"
#include "codegen/kernel/target.h"
#include "codegen/program/file_model.h"
#include "codegen/program/origin.h"
#include "codegen/program/program_io.h"
#include "codegen/program/staging.h"
#include "runtime/memory.h"

namespace qcg {

using nlohmann::json;

namespace {

constexpr size_t kMostSourceBytes = 3 << 20;  // of all kernels of a page; the sources of others are only named

std::string stem_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

// The graph, where the program was compiled from a file that is still there.
Status read_graph_of(const PageSource& source, PageProgram& out) {
  if (!out.manifest.method.empty())
    return Error::unsupported(source.program, "has several methods, each compiled from a graph of its own",
                              "compile the graph of one method alone, and report on that program");
  QCG_TRY(options, read_origin(source.program, source.graph, source.weights, out.manifest.target));
  QCG_TRY(model, FileModel(options).read());
  PassCheckpoint none;
  QCG_TRY(explanation, explain_model(model, options, none));
  out.graph = std::move(model.graph);
  out.source = std::move(explanation.source);
  out.passes = std::move(explanation.passes);
  if (explanation.plan.steps.size() == out.manifest.steps.size()) out.plan = std::move(explanation.plan);
  return {};
}

int64_t bytes_of(const ProgramManifest& manifest, std::string_view prefix) {
  int64_t bytes = 0;
  for (const auto& [name, file] : manifest.files)
    if (name.starts_with(prefix)) bytes += file.bytes;
  return bytes;
}

json record_json(const TuneRecord& r, int kernel) {
  return {{"step", r.step},
          {"kernel", r.kernel},
          {"module", kernel},
          {"problem", r.problem},
          {"family", r.family},
          {"kind", r.group > 0 ? fmt::format("{} g{}", kind_of(r), r.group) : kind_of(r)},
          {"candidate", r.candidate},
          {"m", r.m},
          {"m_min", r.m_min},
          {"n", r.n},
          {"k", r.k},
          {"us", r.median_s * 1e6},
          {"p10", r.p10_s * 1e6},
          {"p90", r.p90_s * 1e6},
          {"noisy", is_disturbed(r)},
          {"gbps", r.gbps},
          {"gflops", r.gflops},
          {"share", r.share},
          {"status", status_of(r)},
          {"reason", r.reason},
          {"build", r.compile_s},
          {"hit", r.cache_hit},
          {"key", r.key.substr(0, 8)}};
}

json passes_of(const PageProgram& program) {
  json out = json::array();
  const auto& passes = program.compiled ? program.compiled->passes : program.passes;
  for (const PassReport& pass : passes) {
    const auto info = std::ranges::find(kPasses, pass.name, &PassInfo::name);
    json skipped = json::array();
    for (const Skipped& s : pass.skipped) skipped.push_back({s.node, s.reason});
    out.push_back({{"index", out.size() + 1},
                   {"name", pass.name},
                   {"summary", info == std::end(kPasses) ? "" : info->summary},
                   {"fired", pass.fired},
                   {"ms", pass.ms},
                   {"counters", pass.counters.empty() ? json::object() : json(pass.counters)},
                   {"notes", pass.notes},
                   {"groups", pass.groups},
                   {"skipped", skipped}});
  }
  return out;
}

json merges_of(const PageProgram& program) {
  json out = json::array();
  if (!program.compiled) return out;
  for (const MergeReport& merge : program.compiled->merges) {
    json timings = json::array();
    for (const MergeReport::Timed& t : merge.timings) timings.push_back({t.m, t.merged_s * 1e6, t.separate_s * 1e6});
    const FusionInfo& info = fusion_info(merge.fusion);
    out.push_back({{"step", merge.step}, {"verdict", merge.kept ? info.fused : info.apart}, {"timings", timings}});
  }
  return out;
}

// The source of a module, which lies beside it under the same name.
json kernels_of(const PageProgram& program, const std::map<std::string, int>& steps) {
  const KernelLog log(program.log);
  json out = json::array();
  size_t bytes = 0;
  for (const std::string& module : program.modules) {
    const auto* const kind =
        std::ranges::find_if(kSuffixes, [&](const KernelSuffixes& s) { return module.ends_with(s.module); });
    if (kind == std::end(kSuffixes)) continue;
    const std::string file = "sources/" + stem_of(module) + std::string(kind->source);
    const auto source = read_program_file(program.path + "/" + file);
    const bool fits = source.ok() && bytes + source->size() <= kMostSourceBytes;
    if (fits) bytes += source->size();
    out.push_back(
        {{"name", stem_of(module)},
         {"object", module},
         {"file", file},
         {"family", log.family(module)},
         {"kind", log.kind(module)},
         {"steps", steps.at(module)},
         {"source", fits ? json(*source) : json()},
         {"why", fits          ? ""
                 : source.ok() ? "Left out, because the sources of this program are large. The file is in the program."
                               : "The program has no such file."}});
  }
  return out;
}

json cost_of(const std::optional<CompileReport>& compiled) {
  const EarlierCompile cost = compiled ? compiled->earlier : EarlierCompile();
  return {{"wall", cost.wall_s},
          {"build", cost.build_s},
          {"tune", cost.tune_s},
          {"compiler_runs", cost.compiler_runs},
          {"hits", cost.cache_hits}};
}

}  // namespace

std::vector<const ProgramManifest*> PageProgram::methods() const {
  std::vector<const ProgramManifest*> out = {&manifest};
  for (const ProgramManifest& other : manifest.others) out.push_back(&other);
  return out;
}

int PageProgram::kernel_of(const std::string& module) const {
  const auto found = std::ranges::find(modules, module);
  return found == modules.end() ? -1 : static_cast<int>(found - modules.begin());
}

Result<PageProgram> read_page_program(const PageSource& source) {
  PageProgram out;
  out.path = source.program;
  QCG_TRY(manifest, read_manifest_of(source.program, source.target));
  out.manifest = std::move(manifest);
  if (auto log = read_tune_log(tune_log_of(source.program)); log.ok()) out.log = std::move(*log);
  std::erase_if(out.log, [&](const TuneRecord& r) { return !r.is_of(out.manifest.target); });
  CompileReport compiled;
  if (const auto report = read_program_file(source.program + "/" + kReportFile);
      report.ok() && restore_report(record_of_target(*report, out.manifest.target), compiled))
    out.compiled = std::move(compiled);
  for (const ProgramManifest* method : out.methods())
    for (const auto& step : method->steps)
      for (const auto& choice : step.kernels)
        if (out.kernel_of(choice.module) < 0) out.modules.push_back(choice.module);
  std::map<std::string, int> by_stem;
  for (size_t i = 0; i < out.modules.size(); ++i) by_stem[stem_of(out.modules[i])] = static_cast<int>(i);
  for (const TuneRecord& record : out.log) {
    const auto found = record.key.empty() ? by_stem.end() : by_stem.find(module_stem(record));
    out.log_kernels.push_back(found == by_stem.end() ? -1 : found->second);
  }
  if (const Status graph = read_graph_of(source, out); !graph.ok()) {
    if (!source.graph.empty()) return graph.error();  // it was named
    out.why_no_graph = graph.error().where + " " + graph.error().message + "; " + graph.error().help;
  }
  return out;
}

json program_json(const PageProgram& program) {
  const ProgramManifest& m = program.manifest;
  const std::optional<CompileReport>& compiled = program.compiled;
  std::map<std::string, int> steps;
  for (const ProgramManifest* method : program.methods())
    for (const auto& step : method->steps)
      for (const auto& choice : step.kernels) ++steps[choice.module];
  std::vector<std::string> warnings;
  if (compiled) warnings = compiled->warnings;
  if (compiled && compiled->noise.disturbed > 0) warnings.push_back(describe_noise(compiled->noise));
  json records = json::array();
  for (size_t i = 0; i < program.log.size(); ++i)
    records.push_back(record_json(program.log[i], program.log_kernels[i]));
  const auto target = parse_target(m.target);
  json signature;
  add_signature(signature_of(m), signature);
  const Ceilings ceilings = compiled ? compiled->ceilings : Ceilings();
  const ProgramVerdict verdict = compiled ? compiled->verdict : ProgramVerdict();
  return {{"path", program.path},
          {"name", std::filesystem::path(program.path + "/").parent_path().filename().string()},
          {"target", m.target},
          {"generator", m.generator},
          {"why_not_here", target.ok() ? why_isa_unavailable(target->isa) : target.error().message},
          {"bytes",
           {{"total", bytes_of(m, "")},
            {"weights", bytes_of(m, "weights.bin")},
            {"kernels", bytes_of(m, "kernels/")},
            {"state", m.state_bytes}}},
          {"input", {{"nodes", compiled ? compiled->nodes_read : 0}, {"format", compiled ? compiled->format : ""}}},
          {"machine", program.log.empty() ? "" : program.log.back().machine},
          {"tuned", compiled && compiled->is_tuned() ? format_date(compiled->tuned) : ""},
          {"ceilings",
           {{"read", ceilings.read_gbps},
            {"f32", ceilings.peak_gflops_f32},
            {"bf16", ceilings.peak_gflops_bf16},
            {"int8", ceilings.peak_gops_int8},
            {"threads", ceilings.threads}}},
          {"cost", cost_of(compiled)},
          {"misses", compiled && !compiled->misses.empty() ? json(compiled->misses) : json::object()},
          {"verified",
           {{"scope", verdict.scope},
            {"text", compiled ? verdict.describe() : "nothing is known of its compile"},
            {"unchecked", verdict.unchecked}}},
          {"warnings", warnings},
          {"notes", compiled ? compiled->notes : std::vector<std::string>()},
          {"signature", signature},
          {"passes", passes_of(program)},
          {"merges", merges_of(program)},
          {"records", records},
          {"kernels", kernels_of(program, steps)},
          {"methods", methods_json(program)},
          {"graph", graph_json(program)}};
}

}  // namespace qcg
