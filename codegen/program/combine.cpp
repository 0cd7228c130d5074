#include "codegen/program/combine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cache/store/sha256.h"
#include "codegen/kernel/target.h"
#include "codegen/program/program_files.h"
#include "codegen/program/program_writer.h"
#include "codegen/program/staging.h"
#include "codegen/tune/tune.h"
#include "runtime/memory.h"
#include "runtime/module.h"
#include "runtime/program_directory.h"
#include "runtime/program_manifest.h"

namespace qcg {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// One of the programs. Its manifest is known to be sound.
struct Part {
  std::string name, directory;  // the name of a method or a target
  json manifest;
  ProgramManifest parsed;
  MappedWeights mapped;

  std::string_view weights(int64_t offset, int64_t bytes) const {
    return {reinterpret_cast<const char*>(mapped.data()) + offset, static_cast<size_t>(bytes)};
  }
};

// The program need not run here.
Result<Part> open_part(const std::string& directory) {
  QCG_TRY(opened, ProgramDirectory::open(directory));
  QCG_TRY(text, opened.read_manifest());
  QCG_TRY(parsed, parse_program_manifest(text));
  QCG_TRY(file, opened.open_weights(parsed.files["weights.bin"]));
  QCG_TRY(mapped, MappedWeights::map(file.fd.get(), file.bytes, opened.path_of("weights.bin")));
  return Part{"", directory, json::parse(text), std::move(parsed), std::move(mapped)};
}

constexpr std::string_view kMethods = "methods", kTargets = "targets";                  // the parts of a program
constexpr const char* kLists[] = {"symbols", "inputs", "outputs", "buffers", "steps"};  // of a method

// The lists of a method's signature and steps.
void copy_lists(const json& from, json& to) {
  for (const char* list : kLists) to[list] = from.at(list);
  if (const auto conditions = from.find("conditions"); conditions != from.end()) to["conditions"] = *conditions;
}

class Combiner {
 public:
  Combiner(std::vector<Part> parts, StagingDir staging) : parts_(std::move(parts)), staging_(std::move(staging)) {}

  Result<CombineReport> combine_methods(const std::string& output) {
    QCG_CHECK(begin(3, {"target", "isa"}));
    manifest_["states"] = json::array();
    for (Part& part : parts_) {
      const std::string header = program_name_of(output) + "_" + part.name;
      QCG_TRY(modules, add_files(part, part.name, header));
      QCG_TRY(states, add_states(part));
      QCG_CHECK(add_method(part, modules, states));
    }
    return end(kMethods);
  }

  Result<CombineReport> combine_targets() {
    QCG_CHECK(begin(4, {}));
    for (Part& part : parts_) {
      std::string prefix = part.name;
      std::ranges::replace(prefix, ':', '_');
      QCG_TRY(modules, add_files(part, prefix, program_name_of(part.directory)));
      QCG_CHECK(add_target(part, modules));
    }
    return end(kTargets);
  }

 private:
  Status begin(int version, std::initializer_list<const char*> shared) {
    const json& first = parts_[0].manifest;
    for (const Part& part : parts_) version = std::max(version, part.manifest["version"].get<int>());
    manifest_ = {{"format", "qcodegen-program"},
                 {"version", version},
                 {"generator", first["generator"]},
                 {"kernel_abi", first["kernel_abi"]}};
    for (const char* field : shared) manifest_[field] = first[field];
    for (const Part& part : parts_)
      for (const char* field : {"target", "isa", "kernel_abi"})
        if (manifest_.contains(field) && part.manifest[field] != first[field])
          return Error::bad_input(part.name, fmt::format("was compiled for another {} than {}", field, parts_[0].name),
                                  "compile all methods for one target");
    QCG_TRY(weights, WeightsFile::create(staging_.path()));
    weights_ = std::make_unique<WeightsFile>(std::move(weights));
    return {};
  }

  Result<CombineReport> end(std::string_view kind) {
    QCG_CHECK(add_records(kind));
    QCG_TRY(described, weights_->end());
    report_.weight_bytes = described["bytes"];
    manifest_["files"]["weights.bin"] = std::move(described);
    QCG_CHECK(write_manifest(staging_.path(), manifest_));
    report_.bytes = bytes_of_program(staging_.path());
    QCG_CHECK(staging_.publish());
    return report_;
  }

  // Kernels, sources and headers. That of the program becomes `header`. Returns the names of kernels that had to change,
  // because two of one name differ: they begin with `prefix`.
  using Renamed = std::map<std::string, std::string>;
  Result<Renamed> add_files(const Part& part, const std::string& prefix, const std::string& header) {
    Renamed renamed;
    const std::string old_name = program_name_of(part.directory);
    for (const auto& [file, about] : part.manifest["files"].items()) {
      if (file == "weights.bin") continue;
      const std::string path = part.directory + "/" + file;
      QCG_TRY(opened, open_program_file(path));
      QCG_TRY(bytes, read_module(opened, path, about["sha256"]));
      std::string name = file;
      if (file == old_name + ".h") {
        name = header + ".h";
        bytes = rename_program_header(bytes, old_name, header);
      }
      if (const json& files = manifest_["files"]; files.contains(name)) {
        if (files[name]["sha256"] == about["sha256"]) continue;
        const fs::path path(file);
        name = (path.parent_path() / (prefix + "_" + path.filename().string())).string();
        renamed[file] = name;
      }
      QCG_CHECK(add_file(staging_.path(), name, bytes, manifest_));
    }
    return renamed;
  }

  // The place of these bytes of a part's weights. Equal bytes have one place.
  Result<int64_t> place_of(const Part& part, int64_t offset, int64_t bytes) {
    const std::string_view content = part.weights(offset, bytes);
    const auto [known, is_new] = places_.try_emplace(sha256_hex(content), weights_->bytes());
    if (!is_new) return report_.shared_bytes += bytes, known->second;
    QCG_CHECK(weights_->append(content));
    return known->second;
  }

  // The numbers that the part's states have in the program.
  Result<std::vector<size_t>> add_states(const Part& part) {
    std::vector<size_t> numbers;
    for (json state : part.manifest.value("states", json::array())) {
      QCG_CHECK(relocate_initial(part, state));
      size_t number = 0;
      json& states = manifest_["states"];
      while (number < states.size() && states[number]["name"] != state["name"]) ++number;
      if (number == states.size()) states.push_back(state);
      if (states[number] != state)
        return Error::bad_input(
            fmt::format("state {} of {}", state["name"].get<std::string>(), part.name),
            "differs in dtype, shape or initial value from the state of this name in another method",
            "give states that methods do not share different names");
      numbers.push_back(number);
    }
    return numbers;
  }

  Status add_method(const Part& part, const Renamed& modules, const std::vector<size_t>& states) {
    json method = {{"name", part.name}};
    copy_lists(part.manifest, method);
    for (json& buffer : method["buffers"])
      if (buffer["kind"] == "state") buffer["index"] = states[buffer["index"].get<size_t>()];
    QCG_CHECK(relocate(part, modules, method));
    manifest_["methods"].push_back(std::move(method));
    return {};
  }

  Status add_target(const Part& part, const Renamed& modules) {
    json target;
    for (const char* field : {"target", "isa", "states", "methods"})
      if (part.manifest.contains(field)) target[field] = part.manifest[field];
    for (json& state : target.contains("states") ? target["states"] : none_) QCG_CHECK(relocate_initial(part, state));
    for (json& method : target.contains("methods") ? target["methods"] : none_)
      QCG_CHECK(relocate(part, modules, method));
    if (!target.contains("methods")) {
      copy_lists(part.manifest, target);
      QCG_CHECK(relocate(part, modules, target));
    }
    manifest_["targets"].push_back(std::move(target));
    return {};
  }

  // Buffers and steps of a method: the places of its weights, and the names of its modules.
  Status relocate(const Part& part, const Renamed& modules, json& method) {
    for (json& buffer : method["buffers"]) {
      if (buffer["kind"] != "weights") continue;
      QCG_TRY(place, place_of(part, buffer["offset"], buffer["bytes"]));
      buffer["offset"] = place;
    }
    for (json& step : method["steps"])
      for (json& kernel : (step.contains("groups") ? step["groups"] : step)["kernels"])
        if (const auto renamed = modules.find(kernel["module"]); renamed != modules.end())
          kernel["module"] = renamed->second;
    return {};
  }

  Status relocate_initial(const Part& part, json& state) {
    json& init = state["init"];
    if (!init.is_object()) return {};
    QCG_TRY(place, place_of(part, init["offset"], init["bytes"]));
    init["offset"] = place;
    return {};
  }

  // The lines of a log, each with the target that it is of.
  static Result<std::string> marked_log(const std::string& text, const std::string& target) {
    if (target.empty()) return text;
    std::string out, line;
    std::istringstream lines(text);
    while (std::getline(lines, line)) {
      QCG_TRY(record, from_json_line(line, kTuneLogFile));
      record.compiled_for = target;
      out += to_json_line(record) + "\n";
    }
    return out;
  }

  // The log has the lines of all parts. Origins and reports stay apart.
  Status add_records(std::string_view kind) {
    std::string log;
    json origins, reports;
    for (const Part& part : parts_) {
      const auto record = [&](const char* file) { return read_program_file(part.directory + "/" + file); };
      if (const auto text = record(kTuneLogFile); text.ok()) {
        QCG_TRY(marked, marked_log(*text, kind == kTargets ? part.name : ""));
        log += marked;
      }
      if (const auto text = record(kOriginFile); text.ok())
        origins[kind][part.name] = json::parse(*text, nullptr, false);
      if (const auto text = record(kReportFile); text.ok())
        reports[kind][part.name] = json::parse(*text, nullptr, false);
    }
    QCG_CHECK(write_record(staging_.path(), kTuneLogFile, log));
    QCG_CHECK(write_record(staging_.path(), kOriginFile, origins.dump(1) + "\n"));
    return write_record(staging_.path(), kReportFile, reports.dump(1) + "\n");
  }

  std::vector<Part> parts_;
  StagingDir staging_;
  std::unique_ptr<WeightsFile> weights_;
  std::map<std::string, int64_t> places_;  // by SHA-256 of what is there
  json manifest_, none_;
  CombineReport report_;
};

// The place of a target among those of one program: devices first, then CPUs, the best of each first.
size_t rank_of(const ProgramManifest& manifest) {
  const auto table = isa_table();
  const auto row = std::ranges::find(table, manifest.isa, &IsaInfo::name);
  return static_cast<size_t>(row - table.begin()) + (manifest.on_device() ? 0 : table.size());
}

Status refuse_none(size_t parts, const char* what) {
  if (parts > 0) return {};
  return Error{ErrorCode::Usage, what, "there are none, and a program has one at least", "give one or more"};
}

}  // namespace

bool is_same_method(std::string_view a, std::string_view b) {
  const auto upper = [](unsigned char c) { return std::toupper(c); };
  return std::ranges::equal(a, b, {}, upper, upper);
}

Result<CombineReport> combine_methods(std::span<const MethodProgram> methods, const std::string& output) {
  QCG_CHECK(refuse_none(methods.size(), "methods"));
  std::vector<Part> parts;
  // Before anything is written: a program with such a name could not be loaded, and names become parts of paths.
  for (const MethodProgram& method : methods) {
    if (!is_method_name(method.name))
      return Error::bad_input(fmt::format("'{}'", method.name), "is no name of a method",
                              "name methods with 1 to 64 letters, digits and underscores");
    const auto is_same = [&](const MethodProgram& other) { return is_same_method(other.name, method.name); };
    if (std::ranges::count_if(methods, is_same) > 1)
      return Error::bad_input(method.name, "is the name of two methods",
                              "give each method a name of its own, also in upper case, which macros of C are in");
  }
  for (const MethodProgram& method : methods) {
    QCG_TRY(part, open_part(method.directory));
    if (!part.parsed.method.empty() || !part.parsed.other_targets.empty())
      return Error::unsupported(method.directory, "cannot be a method: it has methods or targets itself",
                                "compile each method from its graph");
    part.name = method.name;
    parts.push_back(std::move(part));
  }
  QCG_TRY(staging, StagingDir::create(output));
  return Combiner(std::move(parts), std::move(staging)).combine_methods(output);
}

Result<CombineReport> combine_targets(std::span<const std::string> directories, const std::string& output) {
  QCG_CHECK(refuse_none(directories.size(), "targets"));
  std::vector<Part> parts;
  for (const std::string& directory : directories) {
    QCG_TRY(part, open_part(directory));
    if (!part.parsed.other_targets.empty())
      return Error::bad_input(directory, "has several targets itself", "combine programs for one target each");
    for (const Part& other : parts)
      if (other.parsed.target == part.parsed.target)
        return Error::bad_input(directory, "is for " + part.parsed.target + ", and so is " + other.directory,
                                "give one program per target");
    part.name = part.parsed.target;
    parts.push_back(std::move(part));
  }
  std::ranges::stable_sort(parts, {}, [](const Part& part) { return rank_of(part.parsed); });
  QCG_TRY(staging, StagingDir::create(output));
  return Combiner(std::move(parts), std::move(staging)).combine_targets();
}

}  // namespace qcg
