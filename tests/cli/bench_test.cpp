// bench of a whole program: what it runs, what it counts, and what it refuses.
#include <algorithm>

#include "tests/cli_runner.h"

using namespace qcg::test;
using nlohmann::json;

namespace {

// Caches of 8 places; one input is the places of the tokens, another one indexes a table that is written, too.
std::string decoder() {
  static TempDir dir;
  const std::string program = dir / "positions.qcg";
  if (!fs::exists(program))
    REQUIRE(
        qcodegen({"compile", source_path("tests/cli/state_models/positions/graph.pt2"), "--tune=off", "-o", program})
            .status == 0);
  return program;
}

json bench(const std::string& program, std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"bench", program, "--budget", "0.05", "--json"});
  const Run run = qcodegen(flags);
  INFO(run.err);
  REQUIRE(run.status == 0);
  return run.json();
}

void check_refused(const std::string& program, std::vector<std::string> flags, const std::string& text) {
  flags.insert(flags.begin(), {"bench", program});
  const Run run = qcodegen(flags);
  INFO(run.err);
  CHECK(run.status == 2);
  CHECK(run.err.find(text) != std::string::npos);
}

int64_t calls_of(const json& phase, const std::string& kind) {
  for (const json& row : phase["kinds"])
    if (row["kind"] == kind) return row["calls"];
  return 0;
}

}  // namespace

TEST_CASE("bench runs a prompt and then token by token on the state") {
  const json report = bench(decoder(), {"--prompt", "5", "--decode", "3", "--threads", "2"});
  REQUIRE(report["phases"].size() == 2);
  const json &prompt = report["phases"][0], &decode = report["phases"][1];
  CHECK(prompt["phase"] == "prompt");
  CHECK(prompt["tokens"] == 5);
  CHECK(prompt["runs"] == 1);
  CHECK(prompt["samples"] >= 3);
  CHECK(decode["phase"] == "decode");
  CHECK(decode["tokens"] == 1);
  CHECK(decode["samples"] == 3);
  for (const json& phase : report["phases"]) {
    CHECK(phase["median_us"] > 0);
    CHECK(phase["p10_us"] <= phase["p90_us"]);
    CHECK(phase["tokens_per_s"].get<double>() ==
          doctest::Approx(phase["tokens"].get<double>() / phase["median_us"].get<double>() * 1e6));
    CHECK(calls_of(phase, "attention") == 1);
    CHECK(calls_of(phase, "scatter") == 4);
    CHECK(phase["steps"].size() == 10);
    double kinds = 0, steps = 0;
    for (const json& row : phase["kinds"]) kinds += row["us"].get<double>();
    for (const json& row : phase["steps"]) steps += row["us"].get<double>();
    CHECK(kinds == doctest::Approx(steps));
  }
  CHECK(report["ceilings"]["threads"] == 2);
  CHECK(report["empty_step_us"] > 0);
  // Of two caches of 8 places, 5 and the 6 or 7 of the middle of three tokens hold something; other states count whole.
  const double bytes = report["ceilings"]["read_gbps"].get<double>() * 1e3;
  const double read = prompt["read_floor_us"].get<double>() * bytes,
               later = decode["read_floor_us"].get<double>() * bytes;
  CHECK(later - read == doctest::Approx(2 * 2 * 2 * 4 * 4));
  CHECK(qcodegen({"bench", decoder(), "--prompt", "8", "--budget", "0.05"}).out.find("prompt 8") != std::string::npos);
}

TEST_CASE("bench runs a prompt in as many runs as the program's sizes ask for, and static programs token by token") {
  TempDir dir;
  const auto compile = [&](const std::string& name, const std::string& shape, const std::string& symbols = "") {
    const std::string size = R"("dtype": "f32", "shape": [)" + shape + ", 4]}";
    spit(dir / (name + ".json"), R"({"format": "qcodegen", "version": 1, )" + symbols + R"("inputs": [{"name": "x", )" +
                                     size + R"(, {"name": "at", "dtype": "i64", "shape": [)" + shape + R"(]}],
             "states": [{"name": "cache", "dtype": "f32", "shape": [16, 4], "next": "c"}],
             "nodes": [{"op": "aten.index_copy.default", "inputs": {"self": "cache", "dim": 0, "index": "at", "source": "x"},
                        "outputs": ["c"]},
                       {"op": "aten.mul.Tensor", "inputs": {"self": "c", "other": 2.0}, "outputs": ["y"]}],
             "outputs": ["y"]})");
    const std::string program = dir / name;
    const Run run = qcodegen({"compile", dir / (name + ".json"), "--tune=off", "-o", program});
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return program;
  };
  const std::string few = compile("few.qcg", R"("n")", R"("symbols": {"n": [1, 3]}, )"), one = compile("one.qcg", "1"),
                    two = compile("two.qcg", "2");
  const json report = bench(few, {"--prompt", "8"});
  CHECK(report["phases"][0]["runs"] == 3);  // of 3, 3 and 2 tokens
  CHECK(report["phases"][0]["tokens"] == 8);
  CHECK(bench(one, {"--prompt", "4", "--decode", "2"})["phases"][0]["runs"] == 4);
  CHECK(bench(two, {"--prompt", "4"})["phases"][0]["runs"] == 2);
  check_refused(two, {"--prompt", "3"}, "choose multiples of 2");
  check_refused(few, {"--sizes", "n=2", "--decode", "1"}, "n is the number of tokens of a run");
  CHECK(bench(few, {"--decode", "2", "--positions", "at"})["phases"][0]["runs"] == 2);
  check_refused(few, {"--decode", "2", "--positions", "x"}, "has no integers");
}

TEST_CASE("bench refuses more tokens than there are places, and names that the program lacks") {
  check_refused(decoder(), {"--prompt", "7", "--decode", "2"}, "9 tokens in all do not fit 8 places");
  check_refused(decoder(), {"--prompt", "5", "--decode", "20"}, "25 tokens in all do not fit 8 places");
  check_refused(decoder(), {"--prompt", "2", "--positions", "nil"}, "its inputs: x, at, ids");
  check_refused(decoder(), {"--sizes", "m=2"}, "the program has no symbol m");
  check_refused(decoder(), {"--sizes", "m=2,m=3"}, "m=3 is the second size");
  check_refused(decoder(), {"--sizes", "m"}, "m is not NAME=NUMBER");
  check_refused(decoder(), {"--sizes", "=2"}, "=2 is not NAME=NUMBER");
  check_refused(decoder(), {"--decode", "2", "--m", "1"}, "excludes");
  check_refused(decoder(), {"--decode", "2", "--threads", "1,2"}, "--threads");
}

TEST_CASE("bench runs a program without a state at the sizes given") {
  TempDir dir;
  const std::string program = dir / "mlp.qcg";
  REQUIRE(qcodegen({"compile", source_path("examples/llama_mlp_int8/graph.pt2"), "--tune=off", "-o", program}).status ==
          0);
  const auto symbol = qcodegen({"inspect", program, "--json"}).json()["symbols"][0]["name"].get<std::string>();
  const json report = bench(program, {"--sizes", symbol + "=64"});
  REQUIRE(report["phases"].size() == 1);
  const json& run = report["phases"][0];
  CHECK(run["phase"] == "run");
  CHECK(calls_of(run, "gemm") == 2);
  // 256 × 704 × 2 and 704 × 256 multiply-adds of 64 rows, at most as fast as the fastest instruction measured.
  double peak = 0;
  for (const json& rate : report["ceilings"]["peak_gflops"]) peak = std::max(peak, rate.get<double>());
  CHECK(run["multiply_floor_us"] >= 2.0 * 64 * 3 * 256 * 704 / (peak * 1e3) * 0.999);
  // One symbol and no places: the prompt is that symbol.
  CHECK(bench(program, {"--prompt", "64"})["phases"][0]["runs"] == 1);
  check_refused(program, {"--sizes", symbol + "=0"}, "is out of range");
}

TEST_CASE("what a run does not touch of a large state costs it nothing") {
  TempDir dir;
  const auto compile = [&](const std::string& rows) {
    const std::string program = dir / (rows + ".qcg");
    spit(dir / (rows + ".json"), R"({"format": "qcodegen", "version": 1, "symbols": {"n": [1, 8]},
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 64]}, {"name": "p", "dtype": "i64", "shape": ["n"]}],
      "states": [{"name": "s", "dtype": "f32", "shape": [)" +
                                     rows + R"(, 64], "next": "t"}],
      "nodes": [{"op": "index_copy", "inputs": {"self": "s", "dim": 0, "index": "p", "source": "x"}, "outputs": ["t"]},
                {"op": "relu", "inputs": {"self": "x"}, "outputs": ["y"]}],
      "outputs": ["y"]})");
    const Run run = qcodegen({"compile", dir / (rows + ".json"), "--tune=off", "-o", program});
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return program;
  };
  const std::string small = compile("64"), big = compile("65536");  // 16 KB and 16 MB
  CHECK(bench(small, {"--compare", big, "--threads", "1"})["ratio"] < 20);
  const auto run_us = [](const std::string& program) {
    return bench(program, {"--whole", "--threads", "1"})["phases"][0]["median_us"].get<double>();
  };
  CHECK(run_us(big) < 20 * run_us(small));
}

TEST_CASE("bench goes on with a new state where a position in it is at its end") {
  TempDir dir;
  spit(dir / "g.json", R"({"format": "qcodegen", "version": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 4]}],
    "parameters": [{"name": "one", "dtype": "i64", "shape": [1], "data": [1]}],
    "states": [{"name": "at", "dtype": "i64", "shape": [1], "next": "later"},
               {"name": "s", "dtype": "f32", "shape": [8, 4], "next": "t"}],
    "nodes": [{"op": "index_copy", "inputs": {"self": "s", "dim": 0, "index": "at", "source": "x"}, "outputs": ["t"]},
              {"op": "add.Tensor", "inputs": {"self": "at", "other": "one"}, "outputs": ["later"]},
              {"op": "relu", "inputs": {"self": "x"}, "outputs": ["y"]}],
    "outputs": ["y"]})");
  const std::string program = dir / "g.qcg";
  const Run run = qcodegen({"compile", dir / "g.json", "--tune=off", "-o", program});
  REQUIRE_MESSAGE(run.status == 0, run.err);
  const json whole = bench(program, {"--whole", "--threads", "1"})["phases"][0];
  CHECK(whole["samples"] > 8);
  // Of a run that takes a microsecond, the clocks of a profile are no part.
  CHECK(whole["between_us"].get<double>() * static_cast<double>(whole["steps"].size()) <= whole["median_us"]);
  CHECK(bench(program, {"--compare", program})["rounds"] >= 5);
}

TEST_CASE("bench times products of groups, whose matrices share one buffer") {
  TempDir dir;
  spit(dir / "groups.txt", R"(symbol n in [0, 512]
param @a: bf16[240, 64]
graph(%x: bf16[n, 64], %ends: i64[5]) {
  %m = aten.reshape.default(@a, shape = [5, 48, 64]) : bf16[5, 48, 64]
  %w = aten.permute.default(%m, dims = [0, 2, 1]) : bf16[5, 64, 48]
  %y = aten._grouped_mm.default(%x, %w, offs = %ends) : bf16[n, 48]
  return %y
}
)");
  const Run compiled =
      qcodegen({"compile", dir / "groups.txt", "--weights", "random:3", "--tune=off", "-o", dir / "groups.qcg"});
  REQUIRE_MESSAGE(compiled.status == 0, compiled.err);
  const json rows = bench(dir / "groups.qcg", {"--m", "4"})["rows"];
  CHECK(std::ranges::any_of(rows, [](const json& row) { return row["n"] == 48 && row["k"] == 64 && row["m"] == 4; }));
}
