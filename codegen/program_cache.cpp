#include "codegen/program_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cache/key.h"
#include "cache/sha256.h"
#include "codegen/link.h"
#include "codegen/origin.h"
#include "codegen/staging.h"
#include "codegen/vendor_module.h"
#include "runtime/memory.h"
#include "runtime/program_directory.h"

namespace qcg {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::string_view kTuneModes[] = {"off", "fast", "full"};

std::string options_text(const CompileOptions& options, int threads) {
  std::string out = fmt::format("target={} tune={} extern={} rounded={} threads={} m=[{}] emulate={} int4={} verify={}",
                                options.target, kTuneModes[static_cast<size_t>(options.tune)], options.extern_auto,
                                options.rounded, threads, fmt::join(options.m_list, ","),
                                options.passes.emulate_precision_casts, int4_packing_name(options.int4_packing),
                                options.verify == Verify::program ? "program" : "kernels");
  out += fmt::format(" passes=[{}] disabled=[{}]", fmt::join(options.passes.order, ","),
                     fmt::join(options.passes.disabled, ","));
  for_each_gate(options.passes.gates,
                [&](const char* name, int64_t value) { out += fmt::format(" {}={}", name, value); });
  return out;
}

// An ingredient of its own for each: a miss then names the option that changed.
void add_options(KeyBuilder& key, const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = std::min(word.find('='), word.size());
    key.add("option " + word.substr(0, equals), word.substr(std::min(equals + 1, word.size())));
  }
}

constexpr const char* kWeightsFile = "weights.bin";

KeyBuilder weights_key(const std::string& digest) {
  KeyBuilder key;
  key.add("packed weights", digest);
  return key;
}

std::string read_text(const std::string& path) {
  auto text = read_program_file(path);
  return text.ok() ? std::move(*text) : "";
}

std::string header_of(const std::string& program_name) { return program_name + ".h"; }

// What the manifest says of everything but origin.json and the header, which hold paths; empty if it is damaged.
std::string manifest_guard(const std::string& directory) {
  json manifest = json::parse(read_text(directory + "/manifest.json"), nullptr, false);
  if (!manifest.is_object() || !manifest["files"].is_object()) return "";
  manifest["files"].erase(std::string(kOriginFile));
  manifest["files"].erase(header_of(program_name_of(directory)));
  return sha256_hex(manifest.dump());
}

// What a report shows; what single instructions reach is the tuner's alone.
json ceilings_json(const Ceilings& ceilings) {
  return {{"threads", ceilings.threads},      {"read_gbps", ceilings.read_gbps},
          {"f32", ceilings.peak_gflops_f32},  {"bf16", ceilings.peak_gflops_bf16},
          {"int8", ceilings.peak_gops_int8},  {"isa", isa_info(ceilings.isa).name}};
}

Ceilings restore_ceilings(const json& in) {
  Ceilings out;
  out.threads = in.at("threads");
  out.read_gbps = in.at("read_gbps");
  out.peak_gflops_f32 = in.at("f32");
  out.peak_gflops_bf16 = in.at("bf16");
  out.peak_gops_int8 = in.at("int8");
  for (const IsaInfo& info : isa_table())
    if (info.name == in.at("isa").get<std::string>()) out.isa = info.isa;
  return out;
}

json report_json(const CompileReport& report) {
  json out = {{"format", report.format},
              {"torch_version", report.torch_version},
              {"nodes_read", report.nodes_read},
              {"nodes_lowered", report.nodes_lowered},
              {"weight_bytes", report.weight_bytes},
              {"symbols", report.symbols},
              {"program_bytes", report.program_bytes},
              {"merged", report.merged},
              {"cat_split", report.cat_split},
              {"notes", report.notes},
              {"warnings", report.warnings},
              {"candidates", report.candidates},
              {"correct", report.candidates_correct},
              {"failed", report.candidates_failed},
              {"wrong", report.candidates_wrong},
              {"misses", report.misses},
              {"ceilings", ceilings_json(report.ceilings)},
              {"earlier",
               {{"at", std::time(nullptr)},
                {"wall_s", report.wall_s},
                {"build_s", report.build_s},
                {"tune_s", report.tune_s},
                {"compiler_runs", report.compiler_runs},
                {"cache_hits", report.cache_hits}}},
              {"passes", json::array()},
              {"verified", to_json(report.verdict)},
              {"merges", json::array()},
              {"kernels", json::array()}};
  for (const PassReport& pass : report.passes) {
    json& to = out["passes"].emplace_back(json{{"name", pass.name},
                                               {"fired", pass.fired},
                                               {"counters", pass.counters},
                                               {"notes", pass.notes},
                                               {"groups", pass.groups},
                                               {"ms", pass.ms}});
    to["skipped"] = json::array();
    for (const Skipped& skipped : pass.skipped) to["skipped"].push_back({skipped.node, skipped.reason});
  }
  for (const MergeReport& merge : report.merges) {
    json& to = out["merges"].emplace_back(
        json{{"step", merge.step}, {"fusion", static_cast<int>(merge.fusion)}, {"kept", merge.kept}});
    to["timings"] = json::array();
    for (const MergeReport::Timed& t : merge.timings) to["timings"].push_back({t.m, t.merged_s, t.separate_s});
  }
  for (const KernelReport& k : report.kernels)
    out["kernels"].push_back({{"step", k.step},
                              {"name", k.name},
                              {"nodes", k.nodes},
                              {"segments", k.segments},
                              {"extern", k.status == "extern"},
                              {"m_min", k.m_min},
                              {"m_max", k.m_max},
                              {"m_probe", k.m_probe},
                              {"summary", k.summary},
                              {"record", to_json_line(k.record)},
                              {"reference", k.best_reference},
                              {"ratio", k.reference_ratio}});
  return out;
}

// Error Internal, or an exception: not what report_json wrote.
Status restore_report(const json& in, CompileReport& report) {
  const json& earlier = in.at("earlier");
  report.earlier = {earlier.at("at"),     earlier.at("wall_s"),        earlier.at("build_s"),
                    earlier.at("tune_s"), earlier.at("compiler_runs"), earlier.at("cache_hits")};
  report.misses = in.at("misses").get<std::map<std::string, int>>();
  report.ceilings = restore_ceilings(in.at("ceilings"));
  for (const json& pass : in.at("passes")) {
    PassReport& out = report.passes.emplace_back();
    out.name = pass.at("name");
    out.fired = pass.at("fired");
    out.counters = pass.at("counters").get<std::map<std::string, int64_t>>();
    out.notes = pass.at("notes").get<std::vector<std::string>>();
    out.groups = pass.at("groups").get<std::vector<std::vector<std::string>>>();
    out.ms = pass.at("ms");
    for (const json& skipped : pass.at("skipped")) out.skipped.push_back({skipped.at(0), skipped.at(1)});
  }
  report.format = in.at("format");
  report.torch_version = in.at("torch_version");
  report.nodes_read = in.at("nodes_read");
  report.nodes_lowered = in.at("nodes_lowered");
  report.weight_bytes = in.at("weight_bytes");
  report.program_bytes = in.at("program_bytes");
  report.symbols = in.at("symbols");
  report.merged = in.at("merged").get<std::vector<std::vector<std::string>>>();
  report.cat_split = in.at("cat_split").get<std::vector<std::string>>();
  report.notes = in.at("notes").get<std::vector<std::string>>();
  report.warnings = in.at("warnings").get<std::vector<std::string>>();
  report.candidates = in.at("candidates");
  report.candidates_correct = in.at("correct");
  report.candidates_failed = in.at("failed");
  report.candidates_wrong = in.at("wrong");
  report.verdict = verdict_from_json(in.at("verified"));
  for (const json& merge : in.at("merges")) {
    MergeReport& out = report.merges.emplace_back();
    out.step = merge.at("step");
    out.fusion = static_cast<Fusion>(merge.at("fusion").get<int>());
    out.kept = merge.at("kept");
    for (const json& t : merge.at("timings")) out.timings.push_back({t.at(0), t.at(1), t.at(2)});
  }
  for (const json& k : in.at("kernels")) {
    KernelReport out;
    out.step = k.at("step");
    out.name = k.at("name");
    out.nodes = k.at("nodes").get<std::vector<std::string>>();
    out.segments = k.at("segments");
    out.status = k.at("extern").get<bool>() ? "extern" : "hit";
    out.m_min = k.at("m_min");
    out.m_max = k.at("m_max");
    out.m_probe = k.at("m_probe");
    out.summary = k.at("summary");
    auto record = from_json_line(k.at("record").get<std::string>(), "cache");
    if (!record.ok()) return record.error();
    out.record = std::move(*record);
    out.best_reference = k.at("reference");
    out.reference_ratio = k.at("ratio");
    report.kernels.push_back(std::move(out));
  }
  report.cache_hits = static_cast<int>(report.kernels.size());
  return {};
}

// Whether every file of a program holds what its manifest says.
bool is_intact(const std::string& path) {
  auto verify = [&]() -> Status {
    QCG_TRY(directory, ProgramDirectory::open(path));
    QCG_TRY(text, directory.read_manifest());
    QCG_TRY(manifest, parse_program_manifest(text));
    return directory.verify(manifest);
  };
  return verify().ok();
}

}  // namespace

Result<ProgramCache> ProgramCache::open(const CompileOptions& options, const InputFiles& inputs, int threads,
                                        const Toolchain& cxx, Store& store) {
  ProgramCache out(store, options.cache_max_bytes);
  if (options.cache_dir.empty() || !(options.reuse_programs || options.explain_misses)) return out;
  KeyBuilder key;
  key.add("program", "whole compile");
  for (const InputFile& file : inputs.files()) key.add(file.role, file.identity);
  add_options(key, options_text(options, threads));
  // The program that lowers, renders and tunes, byte for byte: a version number would miss a local change.
  QCG_CHECK(key.add_file("generator", "/proc/self/exe"));
  if (options.extern_auto) {
    if (const std::string module = find_onednn_module(); !module.empty())
      QCG_CHECK(key.add_file("vendor's module", module));
    key.add("vendor", onednn_status().detail);
  }
  key.add("toolchain", cxx.fingerprint);
  key.add("machine", this_machine().fingerprint);
  out.key_ = key.finish();
  out.dump_ = key.dump();
  out.enabled_ = options.reuse_programs;
  return out;
}

std::vector<std::string> ProgramCache::why_missed() const {
  return dump_.empty() ? std::vector<std::string>() : store_->explain_miss(dump_);
}

bool ProgramCache::try_restore(const CompileOptions& options, CompileReport& report) {
  if (!enabled_) return false;
  auto found = CompileCache(*store_).find(key_);
  if (!found.ok() || !*found) return false;
  const CompileRecord& record = **found;
  // Parts that do not belong together: nothing will make them fit.
  auto give_up = [&] { return (void)store_->remove(key_), false; };
  const json guards = json::parse(record.guards_json, nullptr, false);
  if (guards.is_discarded() || !guards.contains("manifest")) return give_up();
  const std::string& path = options.output;
  const std::string old_name = guards.value("name", ""), name = program_name_of(path);
  auto origin = record.read(std::string(kOriginFile)), header = record.read(header_of(old_name));
  if (!origin.ok() || !header.ok()) return give_up();
  CompileReport told = report;
  try {
    if (!restore_report(guards.at("report"), told).ok()) return give_up();
  } catch (const json::exception&) {
    return give_up();
  }
  *origin = moved_origin(*origin, options);
  *header = rename_program_header(*header, old_name, name);
  if (manifest_guard(path) == guards["manifest"] && read_text(path + "/" + std::string(kOriginFile)) == *origin &&
      read_text(path + "/" + header_of(name)) == *header && is_intact(path)) {
    told.unchanged = true;
  } else {
    auto directory = StagingDir::create(path);
    if (!directory.ok()) return false;
    const std::string& staging = directory->path();
    if (!record.write_to(staging).ok() || !restore_weights(guards.value("weights", ""), staging) ||
        !replace_file(staging, std::string(kOriginFile), std::string(kOriginFile), *origin).ok() ||
        !replace_file(staging, header_of(old_name), header_of(name), *header).ok())
      return false;
    if (manifest_guard(staging) != guards["manifest"] || !is_intact(staging)) return give_up();
    if (!directory->publish().ok()) return false;
  }
  report = std::move(told);
  return true;
}

// Packed weights are an entry of their own: checking that a program is unchanged then reads them once, not twice, and
// programs with the same weights share them.
bool ProgramCache::restore_weights(const std::string& digest, const std::string& directory) const {
  auto found = store_->find(weights_key(digest).finish());
  return found.ok() && *found && (*found)->copy_verified(kWeightsFile, directory + "/" + kWeightsFile).ok();
}

void ProgramCache::remember(const std::string& staging, const CompileReport& report) {
  if (!enabled_) return;
  const json manifest = json::parse(read_text(staging + "/manifest.json"), nullptr, false);
  if (manifest.is_discarded()) return;
  const std::string digest = manifest["files"][kWeightsFile]["sha256"];
  std::vector<EntryFile> files;
  for (const auto& item : fs::recursive_directory_iterator(staging)) {
    const std::string name = fs::relative(item.path(), staging).string();
    if (item.is_regular_file() && name != kWeightsFile) files.push_back({name, {}, 0644, item.path().string()});
  }
  const KeyBuilder weights = weights_key(digest);
  const EntryFile weights_file{kWeightsFile, {}, 0644, staging + "/" + kWeightsFile};
  // Weights that would push out half the cache stay out: the program itself is then the only copy, found unchanged where
  // it lies.
  const bool fits = max_bytes_ == 0 || static_cast<uint64_t>(report.program_bytes) <= max_bytes_ / 2;
  if (fits && !store_->publish(weights.finish(), {&weights_file, 1}, weights.dump()).ok()) return;
  const json guards = {{"manifest", manifest_guard(staging)},
                       {"weights", digest},
                       {"name", program_name_of(staging)},
                       {"report", report_json(report)}};
  (void)CompileCache(*store_).publish(key_, files, guards.dump(), dump_);
}

}  // namespace qcg
