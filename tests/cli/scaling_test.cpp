// explain of a valid graph (reading, passes, plan, report) costs what the graph is large: twice the nodes, twice the time.
#include "tests/child_cost.h"
#include "tests/cli_runner.h"
#include "tests/large_graphs.h"

using namespace qcg::test;

TEST_CASE("scaling: explain of twice the nodes takes about twice the time") {
  constexpr int kNodes = kOptimized && !kSanitized ? 5'000 : 1'250, kDoublings = 2;
  TempDir dir;
  for (const LargeGraph& graph : kLargeGraphs) {
    const std::string name(graph.name), path = dir / "graph.json";
    INFO(name);
    const auto seconds_of = [&](int nodes) {
      spit(path, graph.json(nodes));
      const ChildCost cost = cost_of([&] { return qcodegen({"explain", path, "--json"}).status == 0; });
      CHECK(cost.outcome == ChildCost::yes);
      return cost.seconds;
    };
    double before = seconds_of(kNodes);
    for (int i = 1; i <= kDoublings; ++i) {
      // What is quadratic takes four times as long; a machine that is disturbed is asked again.
      double after = seconds_of(kNodes << i);
      for (int attempt = 0; attempt < 2 && after > 2.5 * before; ++attempt)
        before = seconds_of(kNodes << (i - 1)), after = seconds_of(kNodes << i);
      MESSAGE(name << ": " << (kNodes << i) << " nodes in " << after << " s, half of them in " << before << " s");
      CHECK(after <= 2.5 * before);
      before = after;
    }
  }
}
