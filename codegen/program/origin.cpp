#include "codegen/program/origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cache/store/sha256.h"
#include "codegen/program/staging.h"
#include "graph/read/pt2.h"
#include "runtime/memory.h"

namespace qcg {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string absolute_path(const std::string& path) {
  if (path.starts_with("random:")) return path;
  std::error_code failed;
  const fs::path absolute = fs::absolute(path, failed);
  return failed ? path : absolute.lexically_normal().string();
}

// A path is any bytes, JSON is UTF-8: a path that is not becomes a URI. No absolute path begins like one.
constexpr std::string_view kUri = "file://";

std::string path_to_text(const std::string& path) {
  const json plain = path;
  if (json::parse(plain.dump(-1, ' ', false, json::error_handler_t::replace)) == plain) return path;
  std::string uri(kUri);
  for (const unsigned char c : path)
    if (c <= ' ' || c > '~' || c == '%') uri += fmt::format("%{:02X}", c);
    else uri += static_cast<char>(c);
  return uri;
}

std::string path_from_text(const std::string& text) {
  if (!text.starts_with(kUri)) return text;
  std::string path;
  for (size_t i = kUri.size(); i < text.size(); ++i) {
    unsigned char byte = static_cast<unsigned char>(text[i]);
    if (byte == '%' && std::from_chars(&text[i] + 1, &text[std::min(i + 3, text.size())], byte, 16).ptr == &text[i] + 3)
      i += 2;
    path += static_cast<char>(byte);
  }
  return path;
}

json placed(json origin, const std::string& place) {
  if (const json at = json::parse(place, nullptr, false); at.is_object()) origin.update(at);
  return origin;
}

// Of the origins of several methods, that of `method`.
Status take_method(json& origin, const std::string& method) {
  std::vector<std::string> names;
  if (const auto methods = origin.find("methods"); methods != origin.end() && methods->is_object())
    for (const auto& [name, one] : methods->items()) names.push_back(name);
  QCG_CHECK(require_method(names, method));
  if (!names.empty()) origin = json(origin["methods"][method]);
  return {};
}

// Also the .pt2 of an exported program that was compiled in memory, of which the JSON is recorded.
bool is_recorded(const std::string& digest, const std::string& path, const std::string& digest_of_file) {
  if (digest_of_file == digest) return true;
  const auto exported = read_pt2_json(path);
  return exported.ok() && sha256_hex(*exported) == digest;
}

std::string text_of(const json& origin) { return origin.dump(1, ' ', false, json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string place_of_files(const CompileOptions& options) {
  json out = {{"graph", path_to_text(absolute_path(options.input))}, {"weights", json::array()}};
  for (const std::string& w : options.weights) out["weights"].push_back(path_to_text(absolute_path(w)));
  if (!options.naming.prefix.empty()) out["prefix"] = options.naming.prefix;
  if (!options.naming.renames.empty()) out["renames"] = options.naming.renames;
  return text_of(out);
}

Result<std::string> origin_json(const ModelSource& source, const CompileOptions& options) {
  QCG_TRY(digest, source.digest());
  json out = {{"target", options.target},
              {"passes", options.passes.order},
              {"disabled", options.passes.disabled},
              {"keep_apart", options.passes.keep_apart},
              {"keep_cats", options.passes.keep_cats},
              {"emulate_precision_casts", options.passes.emulate_precision_casts},
              {"rounded", options.rounded},
              {"int4_packing", int4_packing_name(options.int4_packing)}};
  for_each_gate(options.passes.gates, [&](const char* name, int64_t value) { out["gates"][name] = value; });
  if (!digest.empty()) out["sha256"] = digest;
  return text_of(placed(std::move(out), source.place()));
}

std::string moved_origin(const std::string& origin, const std::string& place) {
  json out = json::parse(origin, nullptr, false);
  if (!out.is_object()) return origin;
  return text_of(placed(std::move(out), place));
}

std::string record_of_target(const std::string& text, const std::string& target) {
  const json record = json::parse(text, nullptr, false);
  if (!record.is_object() || !record.contains("targets")) return text;
  const json& targets = record["targets"];
  return targets.is_object() && targets.contains(target) ? text_of(targets[target]) : "";
}

Status require_method(const std::vector<std::string>& names, const std::string& method) {
  if (names.empty() && method.empty()) return {};
  if (names.empty()) return Error{ErrorCode::Usage, "--method", "the program has no methods", "leave --method out"};
  if (std::ranges::find(names, method) != names.end()) return {};
  return Error{ErrorCode::Usage, "--method",
               method.empty() ? "is not given, and the program has several methods"
                              : "the program has no method '" + method + "'",
               fmt::format("choose one of: {}", fmt::join(names, ", "))};
}

Result<CompileOptions> read_origin(const std::string& program, const std::string& graph,
                                   const std::vector<std::string>& weights, const std::string& target,
                                   const std::string& method) {
  const std::string path = program + "/" + kOriginFile;
  const auto text = read_program_file(path);
  json origin = text.ok() ? json::parse(record_of_target(*text, target), nullptr, false) : json();
  const char* help = "name the graph with --graph FILE (and --weights)";
  if (origin.is_object()) QCG_CHECK(take_method(origin, method));
  if (!origin.is_object())
    return Error::bad_input(path, "the program does not record which graph it was compiled from", help);
  if (!origin.contains("graph") && !origin.contains("sha256"))
    return Error::bad_input(path, "the program was compiled from a graph in memory, which no file holds",
                            "compile the graph from a file");
  if (!origin.contains("graph") && graph.empty())
    return Error::bad_input(path, "the program was compiled from an exported program in memory",
                            "save it (torch.export.save), and name the file with --graph FILE (and --weights)");
  CompileOptions options;
  std::string digest;
  try {
    options.input = path_from_text(origin.value("graph", ""));
    digest = origin.at("sha256");
    for (const json& w : origin.value("weights", json::array())) options.weights.push_back(path_from_text(w));
    options.naming.prefix = origin.value("prefix", "");
    if (origin.contains("renames")) origin.at("renames").get_to(options.naming.renames);
    options.target = origin.at("target");
    options.passes.order = origin.value("passes", std::vector<std::string>());  // not in older programs
    options.passes.disabled = origin.at("disabled").get<std::set<std::string>>();
    options.passes.keep_apart = origin.at("keep_apart").get<std::set<std::string>>();
    options.passes.keep_cats = origin.value("keep_cats", std::set<std::string>());  // not in older programs
    options.passes.emulate_precision_casts = origin.at("emulate_precision_casts");
    options.rounded = origin.at("rounded");
    const auto* packing =
        std::find(std::begin(kInt4Packings), std::end(kInt4Packings), origin.value("int4_packing", "auto"));
    if (packing != std::end(kInt4Packings)) options.int4_packing = static_cast<Int4Packing>(packing - kInt4Packings);
    for_each_gate(options.passes.gates,
                  [&](const char* name, int64_t& value) { value = origin.at("gates").value(name, value); });
  } catch (const json::exception&) {
    return Error::bad_input(path, "this file is damaged or was not written by qcodegen", help);
  }
  if (!graph.empty()) options.input = graph;
  if (!weights.empty()) options.weights = weights;
  auto now = sha256_file(options.input);
  if (!now.ok())
    return Error::bad_input(options.input, "cannot read the graph from which this program was compiled", help);
  if (!is_recorded(digest, options.input, *now))
    return Error::bad_input(options.input, "the program was compiled from another graph", help);
  return options;
}

}  // namespace qcg
