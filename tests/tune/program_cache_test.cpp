// Whole compiles that are larger than the cache lets in.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "codegen/compile.h"

using namespace qcg;
namespace fs = std::filesystem;

TEST_CASE("a program that the cache has no room for is found unchanged where it lies") {
  std::string dir = (fs::temp_directory_path() / "qcodegen-test-XXXXXX").string();
  REQUIRE(::mkdtemp(dir.data()));
  std::ofstream(dir + "/g.json") << R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 1]},
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 1024]}],
    "parameters": [{"name": "w", "dtype": "f32", "shape": [1024, 1024]}],
    "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["y"]}], "outputs": ["y"]})";
  CompileOptions options;
  options.input = dir + "/g.json";
  options.weights = {"random:1"};
  options.output = dir + "/p.qcg";
  options.tune = TuneMode::off;
  options.cache_dir = dir + "/cache";
  options.cache_max_bytes = 2 << 20;  // the weights alone take 4 MiB
  for (const bool again : {false, true}) {
    const auto report = compile_program(options);
    REQUIRE_MESSAGE(report.ok(), report.error().to_string());
    CHECK(report->unchanged == again);
  }
  options.output = dir + "/elsewhere.qcg";
  const auto report = compile_program(options);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  CHECK(!report->unchanged);
  CHECK(report->compiler_runs == 0);
  int64_t kept = 0;
  for (const auto& item : fs::recursive_directory_iterator(options.cache_dir))
    if (item.is_regular_file()) kept += static_cast<int64_t>(item.file_size());
  CHECK(kept < 2 << 20);
  fs::remove_all(dir);
}
