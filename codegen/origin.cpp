#include "codegen/origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cache/sha256.h"
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

std::string with_paths(json origin, const CompileOptions& options) {
  origin["graph"] = absolute_path(options.input);
  origin["weights"] = json::array();
  for (const std::string& w : options.weights) origin["weights"].push_back(absolute_path(w));
  return origin.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

// Every gate by name: one list for writing and reading.
template <class Gates, class F>
void for_each_gate(Gates& g, F&& f) {
  f("cat_max_parts", g.cat_max_parts), f("cat_min_piece_width", g.cat_min_piece_width),
      f("cat_max_total_width", g.cat_max_total_width);
  f("merge_max_siblings", g.merge_max_siblings), f("epilogue_max_operands", g.epilogue_max_operands);
  f("epilogue_max_nodes", g.epilogue_max_nodes), f("constant_max_elements", g.constant_max_elements);
}

}  // namespace

Result<std::string> origin_json(const CompileOptions& options) {
  QCG_TRY(digest, sha256_file(options.input));
  json out = {{"sha256", digest},
              {"target", options.target},
              {"disabled", options.passes.disabled},
              {"keep_apart", options.passes.keep_apart},
              {"keep_cats", options.passes.keep_cats},
              {"emulate_precision_casts", options.passes.emulate_precision_casts},
              {"rounded", options.rounded},
              {"int4_packing", int4_packing_name(options.int4_packing)}};
  for_each_gate(options.passes.gates, [&](const char* name, int64_t value) { out["gates"][name] = value; });
  return with_paths(out, options);
}

std::string moved_origin(const std::string& origin, const CompileOptions& options) {
  const json before = json::parse(origin, nullptr, false);
  return before.is_object() ? with_paths(before, options) : origin;
}

Result<CompileOptions> read_origin(const std::string& program, const std::string& graph,
                                   const std::vector<std::string>& weights) {
  const std::string path = program + "/" + std::string(kOriginFile);
  const auto text = read_program_file(path);
  const json origin = text.ok() ? json::parse(*text, nullptr, false) : json();
  const char* help = "name the graph with --graph FILE (and --weights)";
  if (!origin.is_object()) return Error::bad_input(path, "the program does not say what it was compiled from", help);
  CompileOptions options;
  std::string digest;
  try {
    options.input = origin.at("graph");
    digest = origin.at("sha256");
    options.weights = origin.at("weights").get<std::vector<std::string>>();
    options.target = origin.at("target");
    options.passes.disabled = origin.at("disabled").get<std::set<std::string>>();
    options.passes.keep_apart = origin.at("keep_apart").get<std::set<std::string>>();
    options.passes.keep_cats = origin.value("keep_cats", std::set<std::string>());  // not in older programs
    options.passes.emulate_precision_casts = origin.at("emulate_precision_casts");
    options.rounded = origin.at("rounded");
    const auto* packing =
        std::find(std::begin(kInt4Packings), std::end(kInt4Packings), origin.value("int4_packing", "auto"));
    if (packing != std::end(kInt4Packings)) options.int4_packing = static_cast<Int4Packing>(packing - kInt4Packings);
    for_each_gate(options.passes.gates, [&](const char* name, int64_t& value) { value = origin.at("gates").at(name); });
  } catch (const json::exception&) {
    return Error::bad_input(path, "not as qcodegen writes it", help);
  }
  if (!graph.empty()) options.input = graph;
  if (!weights.empty()) options.weights = weights;
  auto now = sha256_file(options.input);
  if (!now.ok())
    return Error::bad_input(options.input, "the graph this program was compiled from cannot be read", help);
  if (*now != digest)
    return Error::bad_input(options.input, "this is not the graph the program was compiled from", help);
  return options;
}

}  // namespace qcg
