#include "cli/compile_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "graph/read/files/json.h"

namespace qcg {

namespace {

std::string check_pass_name(const std::string& name) {
  std::vector<std::string> names;
  for (const PassInfo& pass : kPasses) names.emplace_back(pass.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return "";
  return name + " is not a pass" + did_you_mean(name, names) + ": `qcodegen list passes` shows the passes";
}

constexpr size_t kMostBytes = 1 << 16;

Result<std::vector<std::string>> read_pass_list(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() == 0)
    return Error::io(path, "cannot read a list of passes from this file", "name a file with the names of passes");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes) return Error::bad_input(path, "the list of passes is longer than 64 KiB", "shorten it");
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string name; words >> name;) names.push_back(name);
  }
  if (names.empty())
    return Error::bad_input(path, "the list of passes is empty", "`qcodegen list passes` shows the passes");
  return names;
}

}  // namespace

void CompileFlags::add_pass_flags(CLI::App& sub, const std::string& input) {
  sub.add_option(input, options.input, "a torch.export JSON, a .pt2, or native JSON")->required();
  sub.add_option("--weights", options.weights,
                 "a safetensors file, a directory, a GGUF file, or random:SEED; may be repeated; quantized checkpoints "
                 "serve a graph that was exported dense (default: those in the .pt2)");
  auto* prefix = sub.add_option(
      "--prefix", options.naming.prefix,
      "only tensors of the checkpoint whose names begin with this; the graph has their names without it");
  auto* rename = sub.add_option("--rename", renames,
                                "OLD=NEW, where names of the checkpoint have OLD, the graph has NEW; may be repeated");
  target = sub.add_option("--target", options.target,
                          "a target of `qcodegen list targets`; cpu (default) is the best target of this host");
  sub.add_option("--disable-pass", disabled, "skip this pass of `qcodegen list passes`; may be repeated");
  auto* list = sub.add_option("--pass", options.passes.order,
                              "run this pass; repeat the option to run several passes in its order (default: all of "
                              "`qcodegen list passes`)");
  sub.add_option("--passes", passes_file, "a file with the names of the passes to run; # begins a comment")
      ->excludes(list);
  sub.add_option("--print-after", print_after, "print the graph after this pass, with --json on stderr")
      ->check(check_pass_name);
  sub.add_flag("--print-after-all", print_after_all, "print the graph after every pass");
  sub.add_flag("--time-passes", time_passes, "print the time of each pass");
  auto* casts = sub.add_flag("--emulate-precision-casts", options.passes.emulate_precision_casts,
                             "round fused intermediates to their dtype in the graph, as eager execution does");
  auto* packing = add_choice<Int4Packing>(
      sub, "--int4-packing", options.int4_packing,
      {{"auto", Int4Packing::automatic}, {"avx512", Int4Packing::avx512}, {"avx2", Int4Packing::avx2}},
      "the byte order in which torch packed the weights of _weight_int4pack_mm_for_cpu (default auto: derived from "
      "the weights' values)");
  PassGates& gates = options.passes.gates;
  auto* parts = sub.add_option("--cat-max-parts", gates.cat_max_parts,
                               "split_cat_linear splits only concatenations of at most this many sources")
                    ->capture_default_str()
                    ->check(whole_number<int64_t>(0));
  auto* narrowest = sub.add_option("--cat-min-width", gates.cat_min_piece_width,
                                   "split_cat_linear splits only concatenations whose sources have at least this width")
                        ->capture_default_str()
                        ->check(whole_number<int64_t>(0));
  auto* widest = sub.add_option("--cat-max-width", gates.cat_max_total_width,
                                "split_cat_linear splits only concatenations of at most this width")
                     ->capture_default_str()
                     ->check(whole_number<int64_t>(0));
  compiled_with = {prefix, rename, casts, packing, parts, narrowest, widest};
}

Result<CompileOptions> CompileFlags::resolve(const Session& session) const {
  CompileOptions out = options;
  out.passes.disabled.insert(disabled.begin(), disabled.end());
  if (!passes_file.empty()) {
    QCG_TRY(names, read_pass_list(passes_file));
    out.passes.order = std::move(names);
  }
  for (const std::string& rename : renames) {
    const size_t equals = rename.find('=');
    if (equals == rename.npos || equals == 0)
      return Error{ErrorCode::Usage, "--rename", quote(rename) + " is not OLD=NEW",
                   "write a part of a name in the checkpoint, and what the graph has in its place"};
    out.naming.renames.emplace_back(rename.substr(0, equals), rename.substr(equals + 1));
  }
  out.toolchain = toolchain_options(session);
  out.cache_dir = no_cache ? "" : session.cache_dir;
  out.remote_cache = session.remote_cache;
  out.remote_key_file = session.remote_key;
  out.cancel = &interrupted();
  // A cached program would skip the passes, so there would be nothing to print.
  if (explain || time_passes || !print_after.empty() || print_after_all) out.reuse_programs = false;
  if (!print_after.empty() || print_after_all) {
    out.passes.after_each = [all = print_after_all, only = print_after, json = session.json](std::string_view pass,
                                                                                             const Graph& graph) {
      if (!all && pass != only) return;
      const std::string text = fmt::format("// after {}\n{}\n", pass, print_graph(graph));
      if (json) say(text);
      else put(text);
    };
  }
  return out;
}

std::string describe_passes(const std::vector<PassReport>& passes, bool times) {
  std::string out;
  const auto line = [&](const std::string& text) { out += "  " + printable(text) + "\n"; };
  for (const PassReport& pass : passes) {
    std::string counters;
    for (const auto& [name, count] : pass.counters)
      counters += fmt::format("{}{} {}", counters.empty() ? "" : ", ", count, name);
    out += fmt::format("{:<24} fired {:<4} {}", pass.name, pass.fired, counters);
    if (times) out += fmt::format(" ({:.2f} ms)", pass.ms);
    while (out.back() == ' ') out.pop_back();
    out += "\n";
    for (const auto& group : pass.groups) line(fmt::format("{}", fmt::join(group, " + ")));
    for (const std::string& note : pass.notes) line(note);
    for (const Skipped& skipped : pass.skipped) line(fmt::format("not {:<18} {}", skipped.node, skipped.reason));
  }
  return out;
}

nlohmann::json passes_json(const std::vector<PassReport>& passes) {
  nlohmann::json out = nlohmann::json::array();
  for (const PassReport& pass : passes) {
    nlohmann::json skipped = nlohmann::json::array();
    for (const Skipped& s : pass.skipped) skipped.push_back({{"node", s.node}, {"reason", s.reason}});
    out.push_back({{"name", pass.name},
                   {"fired", pass.fired},
                   {"skipped", skipped},
                   {"notes", pass.notes},
                   {"counters", pass.counters},
                   {"groups", pass.groups},
                   {"ms", pass.ms}});
  }
  return out;
}

}  // namespace qcg
