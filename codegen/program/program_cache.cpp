#include "codegen/program/program_cache.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cache/store/key.h"
#include "cache/store/sha256.h"
#include "codegen/program/origin.h"
#include "codegen/program/program_writer.h"
#include "codegen/program/staging.h"
#include "codegen/vendor/vendor_module.h"
#include "runtime/memory.h"
#include "runtime/program_directory.h"

namespace qcg {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::string_view kTuneModes[] = {"off", "fast", "full"};

std::string options_text(const CompileOptions& options, int threads) {
  std::string out =
      fmt::format("target={} tune={} extern={} rounded={} threads={} m=[{}] emulate={} int4={} verify={}",
                  options.target, kTuneModes[static_cast<size_t>(options.tune)], options.extern_auto, options.rounded,
                  threads, fmt::join(options.m_list, ","), options.passes.emulate_precision_casts,
                  int4_packing_name(options.int4_packing), options.verify == Verify::program ? "program" : "kernels");
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

// The file that this code was loaded from: the program, or a library that another program has opened (Python's).
std::string own_file() {
  Dl_info info;
  link_map* map = nullptr;
  void* entry = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(&own_file), &info, &entry, RTLD_DL_LINKMAP) != 0)
    map = static_cast<link_map*>(entry);
  return map != nullptr && map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe";  // the program has no name there
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

// What the manifest says of everything but the header, which has the program's name; empty if it is damaged.
std::string manifest_guard(const std::string& directory) {
  json manifest = json::parse(read_text(directory + "/manifest.json"), nullptr, false);
  if (!manifest.is_object() || !manifest["files"].is_object()) return "";
  manifest["files"].erase(header_of(program_name_of(directory)));
  return sha256_hex(manifest.dump());
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

Result<ProgramCache> ProgramCache::open(const CompileOptions& options, const std::vector<ModelPart>& model, int threads,
                                        const Toolchain& cxx, Store& store) {
  ProgramCache out(store, options.cache_max_bytes);
  if (model.empty()) return out;
  KeyBuilder key;
  key.add("program", "whole compile");
  for (const ModelPart& part : model) key.add(part.role, part.identity);
  if (!options.pin.empty()) QCG_CHECK(key.add_file("pin", options.pin));
  add_options(key, options_text(options, threads));
  // The program that lowers, renders and tunes, byte for byte: a version number would miss a local change.
  QCG_CHECK(key.add_file("generator", own_file()));
  if (options.extern_auto) {
    if (const std::string module = find_onednn_module(); !module.empty())
      QCG_CHECK(key.add_file("vendor's module", module));
    key.add("vendor", onednn_status().detail);
  }
  key.add("toolchain", cxx.fingerprint);
  key.add("machine", this_machine().fingerprint);
  out.key_ = key.finish();
  if (!options.cache_dir.empty()) out.dump_ = key.dump();
  out.enabled_ = !options.cache_dir.empty() && options.reuse_programs;
  return out;
}

std::vector<std::string> ProgramCache::why_missed() const {
  return dump_.empty() ? std::vector<std::string>() : store_->explain_miss(dump_);
}

bool ProgramCache::try_restore(const CompileOptions& options, const std::string& place, CompileReport& out) {
  if (!enabled_ || options.retune) return false;
  auto found = CompileCache(*store_).find(key_);
  if (!found.ok() || !*found) return false;
  const CompileRecord& record = **found;
  // Parts that do not belong together: nothing will make them fit.
  auto give_up = [&] { return (void)store_->remove(key_), false; };
  const json guards = json::parse(record.guards_json, nullptr, false);
  if (guards.is_discarded() || !guards.contains("manifest")) return give_up();
  const auto kept = record.read(kReportFile);
  CompileReport report = out;
  if (!kept.ok() || !restore_report(*kept, report)) return give_up();
  const std::string& path = options.output;
  if (keep_newer(options, place, report)) return out = std::move(report), true;
  const std::string old_name = guards.value("name", ""), name = program_name_of(path);
  auto origin = record.read(kOriginFile), header = record.read(header_of(old_name));
  const auto log = record.read(kTuneLogFile);
  if (!origin.ok() || !header.ok() || !log.ok()) return give_up();
  *origin = moved_origin(*origin, place);
  *header = rename_program_header(*header, old_name, name);
  const auto holds = [&](std::string_view file, const std::string& text) {
    return read_text(fmt::format("{}/{}", path, file)) == text;
  };
  report.unchanged = manifest_guard(path) == guards["manifest"] && holds(kOriginFile, *origin) &&
                     holds(kReportFile, *kept) && holds(kTuneLogFile, *log) && holds(header_of(name), *header) &&
                     is_intact(path);
  if (!report.unchanged) {
    auto directory = StagingDir::create(path);
    if (!directory.ok()) return false;
    const std::string& staging = directory->path();
    if (!record.write_to(staging).ok() || !restore_weights(guards.value("weights", ""), staging) ||
        !write_record(staging, kOriginFile, *origin).ok() ||
        !replace_file(staging, header_of(old_name), header_of(name), *header).ok())
      return false;
    if (manifest_guard(staging) != guards["manifest"] || !is_intact(staging)) return give_up();
    if (!directory->publish().ok()) return false;
  }
  report.program_bytes = bytes_of_program(path);
  out = std::move(report);
  return true;
}

// A compile that kept nothing in the cache, or a cache elsewhere, has left a newer result of the same key where this
// one goes: it stays. One that was disturbed does not count.
bool ProgramCache::keep_newer(const CompileOptions& options, const std::string& place, CompileReport& report) const {
  const std::string& path = options.output;
  CompileReport there = report;
  const auto opened = ProgramDirectory::open(path);
  if (!opened.ok() || !restore_report(read_text(fmt::format("{}/{}", path, kReportFile)), there) ||
      there.key != key_.hex || there.tuned <= report.tuned || !there.is_final() || !is_intact(path))
    return false;
  const std::string before = read_text(fmt::format("{}/{}", path, kOriginFile)), origin = moved_origin(before, place);
  there.unchanged = before == origin;
  if (!there.unchanged) {  // compiled from the same bytes in files that lay elsewhere
    auto directory = StagingDir::create(path);
    std::error_code failed;
    if (!directory.ok()) return false;
    fs::copy(path, directory->path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing, failed);
    // What was read is of one program only if that is still there.
    if (failed || opened->is_replaced() || !write_record(directory->path(), kOriginFile, origin).ok() ||
        !directory->publish().ok())
      return false;
  } else if (opened->is_replaced()) {
    return false;
  }
  report = std::move(there);
  report.program_bytes = bytes_of_program(path);
  return true;
}

// Packed weights are an entry of their own: checking that a program is unchanged then reads them once, not twice, and
// programs with the same weights share them.
bool ProgramCache::restore_weights(const std::string& digest, const std::string& directory) const {
  auto found = store_->find(weights_key(digest).finish(), EntryKind::weights);
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
  // Weights that would push out half the cache stay out: the program itself is then the only copy, found unchanged
  // where it lies.
  const bool fits = max_bytes_ == 0 || static_cast<uint64_t>(report.program_bytes) <= max_bytes_ / 2;
  if (fits && !store_->publish(weights.finish(), {&weights_file, 1}, weights.dump()).ok()) return;
  const json guards = {{"manifest", manifest_guard(staging)}, {"weights", digest}, {"name", program_name_of(staging)}};
  // Without its weights a program is of no use to others.
  const uint64_t weight_bytes = fs::file_size(weights_file.source_path);
  const auto reach = fits && store_->shares(weight_bytes) ? Store::Reach::shared : Store::Reach::here;
  (void)CompileCache(*store_).publish(key_, files, guards.dump(), dump_, reach);
}

}  // namespace qcg
