// Reading a valid graph and running all passes over it costs what the graph is large: four times the nodes, about four
// times the time. tests/cli/scaling_test.cpp asks the same of the program with twice the nodes.
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

TEST_CASE("scaling: four times the nodes take about four times the time") {
  for (const LargeGraph& graph : kLargeGraphs) {
    INFO(std::string(graph.name));
    if (kSanitized) seconds_of(graph, 1'000);  // what is read and written, not how long it takes
    else
      CHECK(growth_of_four_times(kOptimized ? 2'500 : 1'000, kLinearGrowth,
                                 [&](int nodes) { return seconds_of(graph, nodes); }) <= kLinearGrowth);
  }
}
