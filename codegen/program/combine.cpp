#include "codegen/program/combine.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cache/store/sha256.h"
#include "codegen/program/program_files.h"
#include "codegen/program/program_writer.h"
#include "codegen/program/staging.h"
#include "runtime/memory.h"
#include "runtime/program.h"

namespace qcg {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// One of the programs. It was loaded once, so that its manifest is known to be sound.
struct Part {
  std::string name, directory;
  json manifest;
  std::shared_ptr<const Program> program;

  std::string_view weights(int64_t offset, int64_t bytes) const {
    return {reinterpret_cast<const char*>(program->weights()) + offset, static_cast<size_t>(bytes)};
  }
};

Result<Part> open_part(const MethodProgram& method) {
  QCG_TRY(program, Program::load(method.directory));
  QCG_TRY(text, read_program_file(method.directory + "/manifest.json"));
  if (!program->manifest().method.empty() || program->manifest().on_device())
    return Error::unsupported(method.directory, "cannot be a method: it has methods itself, or is for a device",
                              "compile each method from its graph, for a CPU");
  return Part{method.name, method.directory, json::parse(text), std::move(program)};
}

class Combiner {
 public:
  Combiner(std::vector<Part> parts, StagingDir staging) : parts_(std::move(parts)), staging_(std::move(staging)) {}

  Result<CombineReport> run(const std::string& output) {
    const json& first = parts_[0].manifest;
    for (const Part& part : parts_)
      for (const char* field : {"target", "isa", "kernel_abi"})
        if (part.manifest[field] != first[field])
          return Error::bad_input(part.name, fmt::format("was compiled for another {} than {}", field, parts_[0].name),
                                  "compile all methods for one target");
    manifest_ = {{"format", "qcodegen-program"},    {"version", 3},
                 {"generator", first["generator"]}, {"kernel_abi", first["kernel_abi"]},
                 {"target", first["target"]},       {"isa", first["isa"]},
                 {"states", json::array()},         {"methods", json::array()}};
    QCG_TRY(weights, WeightsFile::create(staging_.path()));
    weights_ = std::make_unique<WeightsFile>(std::move(weights));
    for (Part& part : parts_) {
      QCG_TRY(modules, add_files(part, output));
      QCG_TRY(states, add_states(part));
      QCG_CHECK(add_method(part, modules, states));
    }
    QCG_CHECK(add_records());
    QCG_TRY(described, weights_->end());
    report_.weight_bytes = described["bytes"];
    manifest_["files"]["weights.bin"] = std::move(described);
    QCG_CHECK(write_manifest(staging_.path(), manifest_));
    report_.bytes = bytes_of_program(staging_.path());
    QCG_CHECK(staging_.publish());
    return report_;
  }

 private:
  // Kernels, sources and the header. Returns the names of kernels that had to change: two of one name differ.
  Result<std::map<std::string, std::string>> add_files(const Part& part, const std::string& output) {
    std::map<std::string, std::string> renamed;
    const std::string old_name = program_name_of(part.directory), new_name = program_name_of(output) + "_" + part.name;
    for (const auto& [file, about] : part.manifest["files"].items()) {
      if (file == "weights.bin") continue;
      QCG_TRY(bytes, read_program_file(part.directory + "/" + file));
      std::string name = file;
      if (file == old_name + ".h") {
        name = new_name + ".h";
        bytes = rename_program_header(bytes, old_name, new_name);
      } else if (const json& files = manifest_["files"]; files.contains(name)) {
        if (files[name]["sha256"] == about["sha256"]) continue;
        const fs::path path(file);
        name = (path.parent_path() / (part.name + "_" + path.filename().string())).string();
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
      if (json& init = state["init"]; init.is_object()) {
        QCG_TRY(place, place_of(part, init["offset"], init["bytes"]));
        init["offset"] = place;
      }
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

  Status add_method(const Part& part, const std::map<std::string, std::string>& modules,
                    const std::vector<size_t>& states) {
    json method = {{"name", part.name}};
    for (const char* list : {"symbols", "inputs", "outputs", "buffers", "steps"}) method[list] = part.manifest[list];
    for (json& buffer : method["buffers"]) {
      if (buffer["kind"] == "state") buffer["index"] = states[buffer["index"].get<size_t>()];
      if (buffer["kind"] != "weights") continue;
      QCG_TRY(place, place_of(part, buffer["offset"], buffer["bytes"]));
      buffer["offset"] = place;
    }
    for (json& step : method["steps"])
      for (json& kernel : step["kernels"])
        if (const auto renamed = modules.find(kernel["module"]); renamed != modules.end())
          kernel["module"] = renamed->second;
    manifest_["methods"].push_back(std::move(method));
    return {};
  }

  // The log has the lines of all methods. Origins and reports stay apart.
  Status add_records() {
    std::string log;
    json origins, reports;
    for (const Part& part : parts_) {
      const auto record = [&](const char* file) { return read_program_file(part.directory + "/" + file); };
      if (const auto text = record(kTuneLogFile); text.ok()) log += *text;
      if (const auto text = record(kOriginFile); text.ok())
        origins["methods"][part.name] = json::parse(*text, nullptr, false);
      if (const auto text = record(kReportFile); text.ok())
        reports["methods"][part.name] = json::parse(*text, nullptr, false);
    }
    QCG_CHECK(write_record(staging_.path(), kTuneLogFile, log));
    QCG_CHECK(write_record(staging_.path(), kOriginFile, origins.dump(1) + "\n"));
    return write_record(staging_.path(), kReportFile, reports.dump(1) + "\n");
  }

  std::vector<Part> parts_;
  StagingDir staging_;
  std::unique_ptr<WeightsFile> weights_;
  std::map<std::string, int64_t> places_;  // by SHA-256 of what is there
  json manifest_;
  CombineReport report_;
};

}  // namespace

Result<CombineReport> combine_programs(std::span<const MethodProgram> methods, const std::string& output) {
  std::vector<Part> parts;
  for (const MethodProgram& method : methods) {
    QCG_TRY(part, open_part(method));
    parts.push_back(std::move(part));
  }
  QCG_TRY(staging, StagingDir::create(output));
  return Combiner(std::move(parts), std::move(staging)).run(output);
}

}  // namespace qcg
