// A fusion that loses its trial is planned again: from the graph in memory, and with the weights that are packed
// already.
#include <nlohmann/json.hpp>
#include <sstream>

#include "codegen/compile.h"
#include "codegen/program/staging.h"
#include "tests/pipeline/memory_model.h"
#include "tests/temp_dir.h"

using namespace qcg;
using namespace qcg::test;
using nlohmann::json;

namespace {

// Two pairs of siblings, which differ in K, and a linear by itself, whose weight a pass computes.
constexpr const char* kPairs = R"(symbol m in [1, 1]
param @wa: f32[48, 64]
param @wb: f32[32, 64]
param @wc: f32[48, 96]
param @wd: f32[32, 96]
param @we: f32[16, 32]
param @wf: f32[16, 32]
graph(%x: f32[m, 64], %z: f32[m, 96], %v: f32[m, 32]) {
  %a = aten.linear.default(%x, @wa) : f32[m, 48]
  %b = aten.linear.default(%x, @wb) : f32[m, 32]
  %c = aten.linear.default(%z, @wc) : f32[m, 48]
  %d = aten.linear.default(%z, @wd) : f32[m, 32]
  %w = aten.mul.Tensor(@we, @wf) : f32[16, 32]
  %e = aten.linear.default(%v, %w) : f32[m, 16]
  return %a, %b, %c, %d, %e
}
)";

// The same log, in which the fusion of K = 64 lost its trial and the one of K = 96 won.
void decide_fusions(const std::string& from, const std::string& to) {
  std::istringstream log(slurp(from));
  std::string rewritten;
  int fusions = 0;
  for (std::string line; std::getline(log, line);) {
    json record = json::parse(line);
    if (record["status"] == "separate") {
      ++fusions;
      record["merged_s"] = record["median_s"].get<double>() * (record["k"] == 64 ? 2 : 0.5);
    }
    rewritten += record.dump() + "\n";
  }
  REQUIRE(fusions == 2);
  spit(to, rewritten);
}

}  // namespace

TEST_CASE("planning again reads no model and packs only weights that changed") {
  TempDir dir;
  const Graph graph = graph_of(kPairs);
  CompileOptions options;
  options.output = dir / "first.qcg";
  options.tune = TuneMode::fast;
  options.threads = 1;
  options.cache_dir = dir / "cache";
  CountingModel model(graph, random_weights(graph));
  const auto first = compile_model(model, options);
  REQUIRE_MESSAGE(first.ok(), first.error().to_string());
  CHECK(model.reads == 1);

  decide_fusions(dir / "first.qcg/tune.jsonl", dir / "decided.jsonl");
  options.pin = dir / "decided.jsonl";
  options.output = dir / "second.qcg";
  const auto second = compile_model(model, options);
  REQUIRE_MESSAGE(second.ok(), second.error().to_string());
  REQUIRE(second->merges.size() == 2);
  CHECK(second->merges[0].kept + second->merges[1].kept == 1);
  CHECK(second->verdict.scope == "program");  // and right against the oracle
  CHECK(model.reads == 2);                    // one for each compile
  // The first plan packs three problems, the second the two that were one; it takes over the pair that stays and the
  // fifth.
  CHECK(second->packed == 3 + 2);
  CHECK(second->kept == 2);
}
