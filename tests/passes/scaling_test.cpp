// Reading a valid graph and running all passes over it costs what the graph is large: twice the nodes, twice the time.
#include <fstream>

#include "graph/passes/pass_list.h"
#include "graph/read/read_graph.h"
#include "tests/child_cost.h"
#include "tests/large_graphs.h"

using namespace qcg;
using namespace qcg::test;

namespace {

double seconds_of(const LargeGraph& graph, int nodes) {
  char path[] = "/tmp/qcg_large_XXXXXX";
  const int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  close(fd);
  std::ofstream(path) << graph.json(nodes);
  const ChildCost cost = cost_of([&] {
    auto read = read_graph(path);
    return read.ok() && run_passes(*read).ok();
  });
  unlink(path);
  CHECK(cost.outcome == ChildCost::yes);
  return cost.seconds;
}

}  // namespace

TEST_CASE("scaling: twice the nodes take about twice the time") {
  constexpr int kNodes = kOptimized && !kSanitized ? 10'000 : 2'000;
  for (const LargeGraph& graph : kLargeGraphs) {
    const std::string name(graph.name);
    INFO(name);
    // What is quadratic takes four times as long; a machine that is disturbed is asked again.
    double ratio = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const double once = seconds_of(graph, kNodes), twice = seconds_of(graph, 2 * kNodes);
      ratio = twice / once;
      MESSAGE(name << ": " << once << " s, " << twice << " s");
      if (ratio <= 2.5) break;
    }
    CHECK(ratio <= 2.5);
  }
}
