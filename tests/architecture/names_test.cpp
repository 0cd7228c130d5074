// Functions in the unnamed namespaces of one folder have different names.
//
// Why: a unity build compiles the sources of a folder as one. Two functions of one name are overloads there, and a call
// may choose the other one without any message from the compiler.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/paths.h"
#include "tests/temp_dir.h"

namespace {

// The functions that a source defines at the top level of its unnamed namespaces. A definition begins in the first
// column,
// as clang-format writes it.
std::set<std::string> unnamed_functions(const std::string& text) {
  static const std::regex kDefinition(R"(^[A-Za-z_][^=;(]*[ *&>](\w+)\()");
  std::set<std::string> out;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "namespace {") inside = true;
    if (line == "}  // namespace") inside = false;
    std::smatch match;
    if (inside && !line.ends_with(';') && std::regex_search(line, match, kDefinition)) out.insert(match[1]);
  }
  return out;
}

}  // namespace

TEST_CASE("functions in the unnamed namespaces of one folder have different names") {
  namespace fs = std::filesystem;
  const fs::path root = qcg::test::source_dir();
  std::map<std::string, std::string> owners;  // "folder function" -> source
  for (const char* top : {"cache", "cli", "codegen", "graph", "runtime"})
    for (const fs::directory_entry& item : fs::recursive_directory_iterator(root / top)) {
      if (item.path().extension() != ".cpp") continue;
      const fs::path path = fs::relative(item.path(), root);
      for (const std::string& name : unnamed_functions(qcg::test::slurp(item.path().string()))) {
        const auto [owner, is_new] = owners.emplace(path.parent_path().string() + " " + name, path.string());
        CHECK_MESSAGE(is_new, path.string(), " and ", owner->second, " both define ", name, "()");
      }
    }
  CHECK(owners.size() > 500);
}
