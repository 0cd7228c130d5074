// explain of a valid graph (reading, passes, plan, report) costs what the graph is large: four times the nodes, about
// four times the time.
#include "tests/child_cost.h"
#include "tests/cli_runner.h"
#include "tests/large_graphs.h"

using namespace qcg::test;

TEST_CASE("scaling: explain of four times the nodes takes about four times the time") {
  constexpr int kNodes = kOptimized && !kSanitized ? 5'000 : 1'250;
  TempDir dir;
  for (const LargeGraph& graph : kLargeGraphs) {
    const std::string path = dir / "graph.json";
    INFO(std::string(graph.name));
    const auto seconds_of = [&](int nodes) {
      spit(path, graph.json(nodes));
      const ChildCost cost = cost_of([&] { return qcodegen({"explain", path, "--json"}).status == 0; });
      CHECK(cost.outcome == ChildCost::yes);
      return cost.seconds;
    };
    CHECK(growth_of_four_times(kNodes, kLinearGrowth, seconds_of) <= kLinearGrowth);
  }
}
