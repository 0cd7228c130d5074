// Random graphs, compiled for several targets and run, give what the oracle gives. The passes' own random graphs:
// siblings, concatenations, tied inputs, epilogues and loops in combinations that no export has, and spellings of
// quantized linears. QCG_SEED=N runs one seed alone, QCG_SECONDS=N takes fresh spellings for so long.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>

#include "graph/read/safetensors.h"
#include "runtime/host/host_isa.h"
#include "tests/cli_runner.h"
#include "tests/passes/random_graph.h"
#include "tests/passes/random_net.h"
#include "tests/passes/random_spelling.h"

using namespace qcg;
using namespace qcg::test;
using nlohmann::json;

namespace {

struct Rows {
  int64_t min, max;
  const char* tried;  // for check --m
};
// One or two of the tuner's ranges of M each: every range is a kernel to compile.
constexpr Rows kRows[] = {{1, 4, "1,3,4"}, {5, 16, "5,7,16"}, {17, 64, "17,33,64"}};

void check_seed(uint64_t seed, const std::string& isa) {
  if (!isa.empty() && !why_host_lacks(isa).empty()) return;
  const std::string target = isa.empty() ? "cpu" : "cpu:" + isa;
  INFO("QCG_SEED=", seed, " target ", target);
  const Rows& rows = kRows[seed % std::size(kRows)];
  Graph graph = RandomGraph(seed, rows.min, rows.max).build(4 + static_cast<int>(seed % 9));
  graph.remove_dead();
  TempDir dir;
  spit(dir / "graph.txt", print_graph(graph));
  const Run run = qcodegen({"check", dir / "graph.txt", "--weights", "random:" + std::to_string(seed), "--target",
                            target, "--m", rows.tried, "--seed", std::to_string(seed), "--json"});
  CHECK_MESSAGE(run.status == 0, run.out << run.err << print_graph(graph));
}

void check_layers(const std::string& text, const std::string& isa, uint64_t seed) {
  if (!isa.empty() && !why_host_lacks(isa).empty()) return;
  const std::string target = isa.empty() ? "cpu" : "cpu:" + isa;
  INFO("seed ", seed, " target ", target, "\n", text);
  TempDir dir;
  spit(dir / "graph.txt", text);
  const Run run = qcodegen({"check", dir / "graph.txt", "--weights", "random:" + std::to_string(seed), "--target",
                            target, "--m", "1,3", "--seed", std::to_string(seed), "--json"});
  CHECK_MESSAGE(run.status == 0, run.out << run.err);
}

// Up to four rows: one or two kernels per linear. False: the graph is refused as unsupported, such as a cast to i16.
bool check_spelling(uint64_t seed) {
  INFO("QCG_SEED=", seed);
  RandomSpelling spelling(seed, 4);
  Graph graph = spelling.build();
  graph.remove_dead();
  TempDir dir;
  std::vector<std::pair<std::string, Tensor>> weights;
  for (const Value& value : graph.values)
    if (value.kind == ValueKind::parameter) weights.emplace_back(value.name, value.data);
  REQUIRE(write_safetensors(dir / "weights.safetensors", weights).ok());
  spit(dir / "graph.txt", print_graph(graph));
  std::string rows;
  for (int64_t m : spelling.rows()) rows += (rows.empty() ? "" : ",") + std::to_string(m);
  const Run run = qcodegen({"check", dir / "graph.txt", "--weights", dir / "weights.safetensors", "--m", rows, "--seed",
                            std::to_string(seed), "--json"});
  const json document = json::parse(run.out, nullptr, false);
  if (document.is_object() && document.contains("error") && document["error"]["code"] == "Unsupported") return false;
  CHECK_MESSAGE(run.status == 0, run.out << run.err << print_graph(graph));
  return true;
}

}  // namespace

TEST_CASE("compiled random spellings give the oracle's values") {
  if (const char* seed = std::getenv("QCG_SEED")) {
    CHECK(check_spelling(std::strtoull(seed, nullptr, 10)));
    return;
  }
  if (const char* seconds = std::getenv("QCG_SECONDS")) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(seconds));
    const uint64_t first = std::random_device()();
    std::cout << "seeds from " << first << std::endl;
    uint64_t seed = first, refused = 0;
    for (; std::chrono::steady_clock::now() < end; ++seed) refused += !check_spelling(seed);
    std::cout << "to " << seed - 1 << "\n";
    CHECK_MESSAGE(refused * 20 <= seed - first, refused, " of ", seed - first, " graphs are refused");
    return;
  }
  for (uint64_t seed = 1; seed <= 24; ++seed) CHECK(check_spelling(seed));
}

TEST_CASE("compiled random graphs give the oracle's values") {
  if (const char* seed = std::getenv("QCG_SEED")) {
    for (const char* target : {"", "avx2", "portable"}) check_seed(std::strtoull(seed, nullptr, 10), target);
    return;
  }
  // The host's best target sees every seed; the narrower ones, whose kernels come from the same templates, a third
  // each.
  for (uint64_t seed = 1; seed <= 18; ++seed) {
    check_seed(seed, "");
    if (seed % 3 == 1) check_seed(seed, "avx2");
    if (seed % 3 == 2) check_seed(seed, "portable");
  }
}

TEST_CASE("compiled convolutions, pools and recurrent layers give the oracle's values") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const std::string text = RandomNet(seed, 1, 3).build();
    check_layers(text, seed % 3 == 1 ? "avx2" : seed % 3 == 2 ? "portable" : "", seed);
  }
  check_layers(std::string(kResidual), "", 1);
  check_layers(R"(symbol s0 in [1, 4]
param @v: f32[20, 6]
param @w: f32[20, 5]
param @b: f32[20]
param @c: f32[20]
graph(%x: f32[s0, 4, 6], %h: f32[1, s0, 5], %k: f32[1, s0, 5]) {
  %y, %m, %n = aten.lstm.input(%x, [%h, %k], [@v, @w, @b, @c], true, 1, 0.0, false, false, true) : f32[s0, 4, 5], f32[1, s0, 5], f32[1, s0, 5]
  return %y, %m, %n
}
)",
               "", 1);
}

TEST_CASE(
    "sizes that are sums of others, triangles whose diagonal is a size, and a table read from one size to another") {
  check_layers(R"(symbol s0 in [1, 9]
symbol s0_rest in [0, 9]
param @table: f32[64, 6]
graph(%y: f32[s0, 6], %x: f32[s0+s0_rest, 6]) {
  %a = aten.slice.Tensor(%x, 0, s0_rest, s0+s0_rest) : f32[s0, 6]
  %b = aten.mul.Tensor(%a, %y) : f32[s0, 6]
  %p = aten.arange.start(s0_rest, s0+s0_rest, dtype=i64) : i64[s0]
  %c = aten.index_select.default(@table, 0, %p) : f32[s0, 6]
  %d = aten.add.Tensor(%b, %c) : f32[s0, 6]
  %t = aten.t.default(%x) : f32[6, s0+s0_rest]
  %e = aten.mm.default(%y, %t) : f32[s0, s0+s0_rest]
  %f = aten.tril.default(%e, s0_rest) : f32[s0, s0+s0_rest]
  return %d, %f
}
)",
               "", 1);
}
