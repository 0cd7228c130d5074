#include "cli/compile_several.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/cli.h"
#include "cli/compile_output.h"
#include "cli/lookups.h"
#include "cli/report.h"
#include "codegen/choose.h"
#include "codegen/compile.h"
#include "codegen/kernel/target.h"
#include "codegen/program/combine.h"
#include "codegen/program/staging.h"
#include "runtime/program_manifest.h"

namespace qcg {

namespace {

namespace fs = std::filesystem;

// "encode=a.pt2" as a name and a graph; no name: it is a graph.
std::pair<std::string, std::string> parse_method(const std::string& word) {
  const size_t equal = std::min(word.find('='), word.size());
  const std::string name = word.substr(0, equal);
  std::error_code failed;
  if (equal == word.size() || !is_method_name(name) || fs::exists(word, failed)) return {"", word};
  return {name, word.substr(equal + 1)};
}

bool has_methods(const CompileFlags& flags) {
  return !flags.more.empty() || !parse_method(flags.options.input).first.empty();
}

using NamedGraphs = std::vector<std::pair<std::string, std::string>>;

// One graph without a name, or several with names.
Result<NamedGraphs> parse_graphs(const CompileFlags& flags) {
  if (!has_methods(flags)) return NamedGraphs{{"", flags.options.input}};
  std::vector<std::string> words = {flags.options.input};
  words.insert(words.end(), flags.more.begin(), flags.more.end());
  NamedGraphs graphs;
  for (const std::string& word : words) {
    const auto [name, graph] = parse_method(word);
    if (name.empty() || graph.empty())
      return Error{ErrorCode::Usage, word, "is not NAME=GRAPH, as each of several graphs has to be",
                   "names of methods have letters, digits and underscores: encode=a.pt2 decode=b.pt2"};
    if (std::ranges::any_of(graphs, [&name = name](const auto& other) { return is_same_method(other.first, name); }))
      return Error{ErrorCode::Usage, word, "another graph has this name",
                   "give each method a name of its own, also in upper case, which macros of C are in"};
    graphs.emplace_back(name, graph);
  }
  if (flags.options.output.empty())
    return Error{ErrorCode::Usage, "--output", "is not given", "name the program of several methods with -o"};
  if (flags.options.emit != Emit::none)
    return Error{ErrorCode::Usage, "--emit", "takes one graph", "name one graph, without a name of a method"};
  return graphs;
}

Result<std::vector<Target>> parse_targets(const CompileFlags& flags) {
  std::vector<Target> targets;
  const std::string& list = flags.options.target;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    QCG_TRY(target, parse_target(std::string_view(list).substr(begin, end - begin)));
    if (std::ranges::any_of(targets, [&](const Target& other) { return other.str() == target.str(); }))
      return Error{ErrorCode::Usage, "--target", target.str() + " is named twice", "name each target once"};
    targets.push_back(target);
    begin = end + 1;
  }
  if (targets.size() > 1 && flags.options.emit != Emit::none)
    return Error{ErrorCode::Usage, "--emit", "takes one target", "name one target"};
  return targets;
}

class SeveralCompiles {
 public:
  SeveralCompiles(const Session& session, const CompileFlags& flags)
      : session_(session), flags_(flags), progress_(session) {}

  Result<CombineReport> run() {
    QCG_TRY(graphs, parse_graphs(flags_));
    QCG_TRY(targets, parse_targets(flags_));
    QCG_TRY(options, flags_.resolve(session_));
    graphs_ = std::move(graphs), options_ = std::move(options), is_fat_ = targets.size() > 1;
    output_ = options_.output.empty() ? default_output(options_.input) : options_.output;
    while (output_.size() > 1 && output_.ends_with('/')) output_.pop_back();
    QCG_CHECK(check_destination(output_));
    const fs::path folder = fs::path(output_).parent_path();
    QCG_TRY(scratch, ScratchDir::create(folder.empty() ? "." : folder.string()));
    options_.explain_misses = flags_.explain || session_.verbosity > 0;
    options_.on_step = [&](std::string_view text) { progress_.show(text); };
    std::vector<std::string> programs;
    CombineReport methods;
    for (const Target& target : targets) {
      std::string name = target.str();
      std::ranges::replace(name, ':', '_');
      const std::string place = scratch.path() + "/" + name;
      programs.push_back(is_fat_ ? place + "/" + fs::path(output_).filename().string() : output_);
      std::error_code failed;
      if (!fs::create_directory(place, failed)) return Error::io(place, failed.message(), "write elsewhere with -o");
      QCG_TRY(combined, compile_target(target, place, programs.back()));
      methods = combined;
    }
    if (!is_fat_) return methods;
    progress_.show("combine the targets");
    auto combined = combine_targets(programs, output_);
    progress_.clear();
    return combined;
  }

  nlohmann::json json(const CombineReport& report) const {
    nlohmann::json out = {
        {"program", output_}, {"weight_bytes", report.weight_bytes}, {"shared_bytes", report.shared_bytes}};
    if (is_fat_) {
      out["compiles"] = compiles_;
      return out;
    }
    for (nlohmann::json compile : compiles_) {
      const std::string method = compile["method"];
      compile.erase("method");
      out["methods"][method] = std::move(compile);
    }
    return out;
  }
  bool is_fat() const { return is_fat_; }
  const std::string& output() const { return output_; }
  const RemoteReport& remote() const { return remote_; }

 private:
  // The graphs for one target, as one program.
  Result<CombineReport> compile_target(const Target& target, const std::string& place, const std::string& program) {
    std::vector<MethodProgram> methods;
    for (const auto& [name, graph] : graphs_) {
      CompileOptions options = options_;
      options.input = graph, options.target = target.str();
      options.output = name.empty() ? program : place + "/" + name + ".qcg";
      if (!name.empty()) methods.push_back({name, options.output});
      // Few machines can run all of several targets: those that cannot run here are compiled untuned.
      const std::string untried = why_untried(target);
      if (is_fat_ && options.tune != TuneMode::off && !untried.empty()) {
        options.tune = TuneMode::off;
        say(fmt::format("warning: {} is not tuned: {}\n", options.target, untried));
      }
      QCG_TRY(report, compile_program(options));
      progress_.clear();
      add(name, options, report);
    }
    if (methods.empty()) return CombineReport();
    progress_.show("combine the methods");
    auto combined = combine_methods(methods, program);
    progress_.clear();
    return combined;
  }

  void add(const std::string& method, const CompileOptions& options, const CompileReport& report) {
    for (const std::string& warning : report.warnings)  // of the server each compile has the same one
      if (said_.insert(warning).second) say("warning: " + warning + "\n");
    add_remote(report.remote, remote_);
    nlohmann::json& out = compiles_.emplace_back(report_json(report));
    out["program"] = output_;
    if (!method.empty()) out["method"] = method;
    if (session_.json || session_.verbosity < 0) return;
    if (session_.verbosity > 0) say(describe_lookups(report.lookups));
    if (!method.empty()) put(labelled("method", method, ""));
    print_report(flags_, options, report);
  }

  const Session& session_;
  const CompileFlags& flags_;
  ProgressLine progress_;
  NamedGraphs graphs_;
  CompileOptions options_;
  std::string output_;
  bool is_fat_ = false;  // several targets
  std::vector<nlohmann::json> compiles_;
  std::set<std::string> said_;
  RemoteReport remote_;  // of all compiles
};

}  // namespace

std::string default_output(const std::string& input) { return fs::path(input).replace_extension(".qcg").string(); }

bool is_several(const CompileFlags& flags) {
  return has_methods(flags) || flags.options.target.find(',') != std::string::npos;
}

int run_compile_several(const Session& session, const CompileFlags& flags) {
  SeveralCompiles compiles(session, flags);
  const auto report = compiles.run();
  if (!report.ok()) return fail(session, report.error());
  if (session.json) {
    if (compiles.is_fat()) print_json("compile_targets", compiles.json(*report));
    else print_json("compile_methods", compiles.json(*report));
  } else if (session.verbosity >= 0) {
    put(describe_remote(compiles.remote()));
    put(labelled("wrote", compiles.output(),
                 fmt::format("{} · {} of weights · {} shared", format_bytes(double(report->bytes)),
                             format_bytes(double(report->weight_bytes)), format_bytes(double(report->shared_bytes)))));
  }
  return 0;
}

}  // namespace qcg
