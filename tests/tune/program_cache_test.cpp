// Whole compiles that are larger than the cache lets in.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "codegen/compile.h"
#include "codegen/program/compile_options.h"

using namespace qcg;
namespace fs = std::filesystem;

namespace {

// A folder with a graph of one linear [m, size] x [size, size].
struct Folder {
  explicit Folder(int64_t size) {
    REQUIRE(::mkdtemp(path.data()));
    const std::string n = std::to_string(size);
    std::ofstream(path + "/g.json") << R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 1]},
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", )" +
                                           n + R"(]}],
    "parameters": [{"name": "w", "dtype": "f32", "shape": [)" +
                                           n + ", " + n + R"(]}],
    "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w"}, "outputs": ["y"]}], "outputs": ["y"]})";
    options.input = path + "/g.json";
    options.weights = {"random:1"};
    options.output = path + "/p.qcg";
    options.cache_dir = path + "/cache";
  }
  ~Folder() { fs::remove_all(path); }

  std::string path = (fs::temp_directory_path() / "qcodegen-test-XXXXXX").string();
  CompileOptions options;
};

}  // namespace

TEST_CASE("a program whose kernels lost one to a late compiler says so and is not remembered") {
  Folder folder(64);
  CompileOptions& options = folder.options;
  // For ever with the first kernel it is given, g++ with all others.
  const std::string cxx = folder.path + "/slow++", first = folder.path + "/first";
  std::ofstream(cxx) << "#!/bin/sh\nif [ -e kernel.cpp ]; then\n  [ -e " << first << " ] || cp kernel.cpp " << first
                     << "\n  cmp -s kernel.cpp " << first << " && exec sleep 300\nfi\nexec g++ \"$@\"\n";
  fs::permissions(cxx, fs::perms::owner_all);
  options.toolchain.cxx = cxx;
  options.jobs = 1;
  options.compiler_s = 8;
  options.m_list = {1};
  const auto report = compile_program(options);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  CHECK(report->candidates_failed == 1);
  const std::string warning = fmt::format("{}", fmt::join(report->warnings, "\n"));
  CHECK(warning.find("1 kernel was left out: slow++ did not finish within 8 s; use fewer --jobs") != std::string::npos);
  std::ofstream(first) << "no kernel any more";
  const auto again = compile_program(options);
  REQUIRE_MESSAGE(again.ok(), again.error().to_string());
  CHECK(!again->unchanged);
  CHECK(again->candidates_failed == 0);
  // A compile whose timings were disturbed is not remembered either.
  CHECK(compile_program(options)->unchanged == again->is_final());
}

TEST_CASE("a program that the cache has no room for is found unchanged where it lies") {
  Folder folder(1024);
  CompileOptions& options = folder.options;
  options.tune = TuneMode::off;
  options.cache_max_bytes = 2 << 20;  // the weights alone take 4 MiB
  for (const bool again : {false, true}) {
    const auto report = compile_program(options);
    REQUIRE_MESSAGE(report.ok(), report.error().to_string());
    CHECK(report->unchanged == again);
  }
  options.output = folder.path + "/elsewhere.qcg";
  const auto report = compile_program(options);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  CHECK(!report->unchanged);
  CHECK(report->compiler_runs == 0);
  int64_t kept = 0;
  for (const auto& item : fs::recursive_directory_iterator(options.cache_dir))
    if (item.is_regular_file()) kept += static_cast<int64_t>(item.file_size());
  CHECK(kept < 2 << 20);
}
