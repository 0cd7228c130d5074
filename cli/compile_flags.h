// The flags that `compile` and `explain` share, and their meaning as CompileOptions.
//
// Why here: explain shows what compile would do, so both read the same flags with the same defaults.
#pragma once

#include <string>
#include <vector>

#include "cli/cli.h"
#include "codegen/program/compile_options.h"

namespace qcg {

struct CompileFlags {
  CompileOptions options;
  std::vector<std::string> disabled;
  std::string passes_file;
  std::string print_after;
  bool print_after_all = false, time_passes = false, explain = false, no_cache = false;
  std::string moved_graph;  // explain: of a program

  std::vector<const CLI::Option*> compiled_with;  // flags that a program which exists has its own answer to
  std::vector<const CLI::Option*> of_program;     // flags that a graph has no use for

  void add_pass_flags(CLI::App& sub, const std::string& input = "graph");
  // Options with session and pass flags applied; error Usage for a flag value that means nothing.
  Result<CompileOptions> resolve(const Session& session);
};

// "fired" and "skipped" of every pass, as lines for people.
std::string describe_passes(const std::vector<PassReport>& passes, bool times);
nlohmann::json passes_json(const std::vector<PassReport>& passes);

}  // namespace qcg
