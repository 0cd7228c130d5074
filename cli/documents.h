// The JSON documents that commands print with --json, each with its name and its version.
//
// Why here: a document without a row does not compile, and a row without docs/schemas/NAME.json fails the test
// `schemas`. A field may be added within a version. A field that goes away or changes its meaning makes a new version.
//
//   print_json("doctor", {{"checks", checks}});   // {"document": "doctor", "version": 1, "checks": …}
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace qcg {

struct DocumentInfo {
  std::string_view name;
  int version;
  std::string_view printed_by;
};

inline constexpr DocumentInfo kDocuments[] = {
    // clang-format off
    {"bench",           1, "bench PROGRAM, bench --all, bench --n --k"},
    {"bench_compare",   1, "bench --compare"},
    {"bench_program",   1, "bench PROGRAM --whole, --prompt, --decode, --sizes, --trace"},
    {"cache_entries",   1, "cache ls"},
    {"cache_entry",     1, "cache show"},
    {"cache_gc",        1, "cache gc"},
    {"cache_path",      1, "cache path"},
    {"cache_stats",     1, "cache stats"},
    {"cache_verify",    1, "cache verify"},
    {"check",           1, "check"},
    {"compile",         1, "compile GRAPH"},
    {"compile_methods", 1, "compile NAME=GRAPH..."},
    {"compile_targets", 1, "compile --target A,B..."},
    {"doctor",          1, "doctor"},
    {"done",            1, "cache clear, cache export, cache import"},
    {"emit",            1, "compile --emit"},
    {"error",           1, "every command that fails"},
    {"explain",         1, "explain"},
    {"inspect",         1, "inspect"},
    {"list",            1, "list"},
    {"log",             1, "log"},
    {"log_compare",     1, "log --compare"},
    {"report",          1, "report"},
    {"run",             1, "run"},
    // clang-format on
};

// The name of a row of kDocuments; any other name does not compile.
class Document {
 public:
  consteval Document(const char* name) : row_(find(name)) {}  // NOLINT: a name is a document
  constexpr const DocumentInfo& info() const { return kDocuments[row_]; }

 private:
  static consteval size_t find(std::string_view name) {
    for (size_t row = 0; row < std::size(kDocuments); ++row)
      if (kDocuments[row].name == name) return row;
    throw "documents.h has no row of this name";
  }
  size_t row_;
};

}  // namespace qcg
