#include "codegen/program/compile_report.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "codegen/program/staging.h"

namespace qcg {

using nlohmann::json;

namespace {

// One list per struct, for writing and for reading: f(name, member).
template <class Earlier, class F>
void for_each_cost(Earlier& e, F&& f) {
  f("at", e.at), f("wall_s", e.wall_s), f("build_s", e.build_s), f("tune_s", e.tune_s);
  f("compiler_runs", e.compiler_runs), f("cache_hits", e.cache_hits);
}

template <class Report, class F>
void for_each_field(Report& r, F&& f) {
  f("key", r.key), f("tuned", r.tuned), f("format", r.format), f("torch_version", r.torch_version);
  f("nodes_read", r.nodes_read), f("nodes_lowered", r.nodes_lowered), f("weight_bytes", r.weight_bytes);
  f("target", r.target), f("symbols", r.symbols), f("threads", r.threads), f("merged", r.merged);
  f("cat_split", r.cat_split), f("candidates", r.candidates), f("correct", r.candidates_correct);
  f("failed", r.candidates_failed), f("wrong", r.candidates_wrong), f("notes", r.notes), f("warnings", r.warnings),
      f("misses", r.misses);
  f("timings", r.noise.timings), f("disturbed", r.noise.disturbed), f("close", r.noise.close);
  f("pinned", r.pins.pinned), f("pinnable", r.pins.kernels), f("pin_log", r.pins.log);
  f("pin_machine", r.pins.machine);
}

template <class Kernel, class F>
void for_each_kernel_field(Kernel& k, F&& f) {
  f("step", k.step), f("name", k.name), f("nodes", k.nodes), f("segments", k.segments), f("status", k.status);
  f("m_min", k.m_min), f("m_max", k.m_max), f("m_probe", k.m_probe), f("summary", k.summary);
}

template <class Pass, class F>
void for_each_pass_field(Pass& p, F&& f) {
  f("name", p.name), f("fired", p.fired), f("counters", p.counters), f("notes", p.notes), f("groups", p.groups);
  f("ms", p.ms);
}

template <class C, class F>
void for_each_ceiling(C& c, F&& f) {
  f("threads", c.threads), f("read_gbps", c.read_gbps), f("f32", c.peak_gflops_f32), f("bf16", c.peak_gflops_bf16);
  f("int8", c.peak_gops_int8);
}

auto into(json& out) {
  return [&out](const char* name, const auto& value) { out[name] = value; };
}
auto from(const json& in) {
  return [&in](const char* name, auto& value) { in.at(name).get_to(value); };
}

json passes_to_json(const std::vector<PassReport>& passes) {
  json out = json::array();
  for (const PassReport& pass : passes) {
    json& to = out.emplace_back();
    for_each_pass_field(pass, into(to));
    to["skipped"] = json::array();
    for (const Skipped& s : pass.skipped) to["skipped"].push_back({s.node, s.reason});
  }
  return out;
}

json merges_to_json(const std::vector<MergeReport>& merges) {
  json out = json::array();
  for (const MergeReport& merge : merges) {
    json& to =
        out.emplace_back(json{{"step", merge.step}, {"fusion", static_cast<int>(merge.fusion)}, {"kept", merge.kept}});
    to["timings"] = json::array();
    for (const MergeReport::Timed& t : merge.timings)
      to["timings"].push_back({t.m, t.merged_s, t.separate_s, t.disturbed});
  }
  return out;
}

json kernels_to_json(const std::vector<KernelReport>& kernels) {
  json out = json::array();
  for (const KernelReport& kernel : kernels) {
    json& to = out.emplace_back();
    for_each_kernel_field(kernel, into(to));
    to["record"] = json::parse(to_json_line(kernel.record));
    to["reference"] = json::parse(to_json_line(kernel.reference));
  }
  return out;
}

// Throws json::exception, as all of these do.
TuneRecord record_of(const json& in) {
  auto record = from_json_line(in.dump(), kReportFile);
  if (!record.ok()) throw json::other_error::create(501, record.error().message, &in);
  return std::move(*record);
}

void restore(const json& in, CompileReport& out) {
  for_each_field(out, from(in));
  for_each_cost(out.earlier, from(in.at("cost")));
  out.verdict = verdict_from_json(in.at("verified"));
  for_each_ceiling(out.ceilings, from(in.at("ceilings")));
  for (const IsaInfo& isa : isa_table())
    if (isa.name == in.at("ceilings").at("isa").get<std::string>()) out.ceilings.isa = isa.isa;
  for (const json& from_pass : in.at("passes")) {
    PassReport& pass = out.passes.emplace_back();
    for_each_pass_field(pass, from(from_pass));
    for (const json& s : from_pass.at("skipped")) pass.skipped.push_back({s.at(0), s.at(1)});
  }
  for (const json& merge : in.at("merges")) {
    const int fusion = merge.at("fusion");
    MergeReport& to = out.merges.emplace_back();
    to.step = merge.at("step"), to.kept = merge.at("kept");
    to.fusion = fusion == static_cast<int>(Fusion::cat) ? Fusion::cat : Fusion::siblings;
    for (const json& t : merge.at("timings")) to.timings.push_back({t.at(0), t.at(1), t.at(2), t.at(3)});
  }
  for (const json& from_kernel : in.at("kernels")) {
    KernelReport& kernel = out.kernels.emplace_back();
    for_each_kernel_field(kernel, from(from_kernel));
    if (kernel.status != "extern") kernel.status = "hit";
    kernel.record = record_of(from_kernel.at("record")), kernel.reference = record_of(from_kernel.at("reference"));
  }
  out.cache_hits = static_cast<int>(out.kernels.size());
}

}  // namespace

std::string report_text(const CompileReport& report) {
  json out = {{"passes", passes_to_json(report.passes)},
              {"verified", to_json(report.verdict)},
              {"merges", merges_to_json(report.merges)},
              {"kernels", kernels_to_json(report.kernels)}};
  for_each_field(report, into(out));
  const EarlierCompile cost{std::time(nullptr), report.wall_s,        report.build_s,
                            report.tune_s,      report.compiler_runs, report.cache_hits};
  for_each_cost(cost, into(out["cost"]));
  for_each_ceiling(report.ceilings, into(out["ceilings"]));
  out["ceilings"]["isa"] = isa_info(report.ceilings.isa).name;
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

bool restore_report(const std::string& text, CompileReport& report) {
  const json in = json::parse(text, nullptr, false);
  if (!in.is_object()) return false;
  try {
    CompileReport out;
    restore(in, out);
    out.wall_s = report.wall_s, out.program = report.program, out.unchanged = report.unchanged;
    report = std::move(out);
  } catch (const json::exception&) {
    return false;
  }
  return true;
}

}  // namespace qcg
