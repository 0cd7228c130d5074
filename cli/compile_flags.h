// The flags that `compile` and `explain` share, and their translation to CompileOptions.
//
// Why here: explain shows what compile would do, so both need the same flags with the same defaults.
//
//   flags->add_pass_flags(*sub);                         // before the command line is parsed
//   QCG_TRY(options, flags->resolve(session));           // after that
#pragma once

#include <string>
#include <vector>

#include "cli/cli.h"
#include "codegen/program/compile_options.h"

namespace qcg {

struct CompileFlags {
  CompileOptions options;
  std::vector<std::string> disabled;
  std::vector<std::string> renames;  // --rename OLD=NEW
  std::string passes_file;
  std::string print_after;
  bool print_after_all = false, time_passes = false, explain = false, no_cache = false;
  std::vector<std::string> more;  // compile: further methods, NAME=GRAPH
  std::string moved_graph;        // explain --graph: where a program's graph is now
  std::string method;             // explain --method: of a program that has several

  const CLI::Option* target = nullptr;
  std::vector<const CLI::Option*> compiled_with;  // flags that an existing program has already fixed
  std::vector<const CLI::Option*> of_program;     // flags that apply only to programs, not to graphs

  void add_pass_flags(CLI::App& sub, const std::string& input = "graph");
  // Returns the options with session and pass flags applied. Error Io or BadInput: the file of --passes is unusable.
  Result<CompileOptions> resolve(const Session& session) const;
};

// Lines that show for every pass what it changed and which nodes it skipped; `times` adds its duration.
std::string describe_passes(const std::vector<PassReport>& passes, bool times);
nlohmann::json passes_json(const std::vector<PassReport>& passes);

}  // namespace qcg
