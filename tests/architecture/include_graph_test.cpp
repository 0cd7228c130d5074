// The include graph of folders is the one that ARCHITECTURE.md shows: no circle, no arrow that runs up.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/temp_dir.h"

namespace fs = std::filesystem;
using namespace qcg::test;

namespace {

constexpr size_t kMostFiles = 40;

using Arrows = std::map<std::string, std::set<std::string>>;  // folder -> folders it includes

bool is_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h" || extension == ".hpp" || extension == ".cpp";
}

std::string folder_of(const fs::path& path) { return path.parent_path().generic_string(); }

// The names in quotes of a file's #include lines.
std::vector<std::string> included_names(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  constexpr std::string_view kInclude = "#include \"";
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (line.starts_with(kInclude))
      out.push_back(line.substr(kInclude.size(), line.find('"', kInclude.size()) - kInclude.size()));
  }
  return out;
}

// What the sources say; `missing` lists includes that name no file.
Arrows read_sources(std::map<std::string, size_t>& files, std::vector<std::string>& missing) {
  const fs::path root = source_dir();
  Arrows out;
  for (const char* top : {"base", "cache", "cli", "codegen", "graph", "python", "runtime"})
    for (const fs::directory_entry& item : fs::recursive_directory_iterator(root / top)) {
      if (!item.is_regular_file() || !is_source(item.path())) continue;
      const fs::path path = fs::relative(item.path(), root);
      const std::string from = folder_of(path);
      ++files[from];
      out[from];
      for (const std::string& name : included_names(slurp(item.path().string()))) {
        const bool beside = fs::exists(item.path().parent_path() / name);
        if (!beside && !fs::exists(root / name)) missing.push_back(path.generic_string() + " includes " + name);
        const std::string to = beside ? from : folder_of(name);
        if (to != from) out[from].insert(to);
      }
    }
  return out;
}

// The block of ARCHITECTURE.md between "```arrows" and "```": "folder: folders it may include", from the bottom up.
struct Allowed {
  std::vector<std::string> order;
  Arrows arrows;
};
Allowed read_allowed(const std::string& text) {
  Allowed out;
  constexpr std::string_view kBegin = "```arrows\n";
  const size_t begin = text.find(kBegin), end = text.find("\n```", begin);
  REQUIRE(end != std::string::npos);
  std::istringstream lines(text.substr(begin + kBegin.size(), end - begin - kBegin.size()));
  for (std::string line; std::getline(lines, line);) {
    const bool goes_on = line.starts_with(' ');  // with the folder of the line before
    const size_t colon = line.find(':');
    REQUIRE_MESSAGE(goes_on != (colon != std::string::npos), line);
    if (!goes_on) out.order.push_back(line.substr(0, colon));
    std::istringstream words(goes_on ? line : line.substr(colon + 1));
    std::set<std::string>& to = out.arrows[out.order.back()];
    for (std::string word; words >> word;)
      CHECK_MESSAGE(to.insert(word).second, out.order.back(), " has ", word, " twice");
  }
  return out;
}

// Folders from the bottom up, in the form of ARCHITECTURE.md's list. Where there is a circle, `!` marks an arrow that
// runs up.
std::string draw(const Arrows& arrows) {
  std::string out;
  std::set<std::string> drawn;
  while (drawn.size() < arrows.size()) {
    const auto next = std::min_element(arrows.begin(), arrows.end(), [&](const auto& a, const auto& b) {
      const auto rank = [&](const auto& row) {
        return drawn.contains(row.first)
                   ? SIZE_MAX
                   : size_t(std::count_if(row.second.begin(), row.second.end(),
                                          [&](const std::string& to) { return !drawn.contains(to); }));
      };
      return rank(a) < rank(b);
    });
    std::string line = next->first + ":";
    for (const std::string& to : next->second) {
      const std::string word = to + (drawn.contains(to) ? "" : "!");
      if (line.size() - (line.rfind('\n') + 1) + word.size() > 110) line += "\n ";
      line += " " + word;
    }
    out += line + "\n";
    drawn.insert(next->first);
  }
  return out;
}

}  // namespace

TEST_CASE("arrows between folders are those of ARCHITECTURE.md, and run down") {
  std::map<std::string, size_t> files;
  std::vector<std::string> missing;
  const Arrows arrows = read_sources(files, missing);
  MESSAGE("the include graph of folders, from the bottom up:\n", draw(arrows));
  for (const std::string& what : missing) FAIL_CHECK(what, ", which is no file");
  for (const auto& [folder, count] : files) CHECK_MESSAGE(count <= kMostFiles, folder, " has ", count, " source files");

  const Allowed allowed = read_allowed(slurp(source_dir() + "/ARCHITECTURE.md"));
  std::set<std::string> below;
  for (const std::string& folder : allowed.order) {
    REQUIRE_MESSAGE(arrows.contains(folder), folder, " is in the list and has no sources");
    const std::set<std::string>&real = arrows.at(folder), &listed = allowed.arrows.at(folder);
    for (const std::string& to : listed) {
      CHECK_MESSAGE(below.contains(to), folder, " -> ", to, " runs up");
      CHECK_MESSAGE(real.contains(to), folder, " -> ", to, " is in the list, and no source includes it");
    }
    for (const std::string& to : real) CHECK_MESSAGE(listed.contains(to), folder, " -> ", to, " is not in the list");
    CHECK_MESSAGE(below.insert(folder).second, folder, " is in the list twice");
  }
  for (const auto& [folder, to] : arrows) CHECK_MESSAGE(below.contains(folder), folder, " is not in the list");
}
