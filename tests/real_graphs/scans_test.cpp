// Running products and extremes, and products over an axis, compiled: programs give what torch gives.
#include "graph/ops/op_table.h"
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("compiled scans and products give what torch gives") {
  constexpr Op kOps[] = {"aten.cumprod.default", "aten.cummax.default", "aten.cummin.default",
                         "aten.logcumsumexp.default", "aten.prod.dim_int"};
  TempDir dir;
  int met = 0, tried = 0;
  for (const TorchCase& test : read_torch_cases()) {
    const Graph graph = test.graph();
    if (graph.nodes.size() != 1 || !is_any_op(graph.nodes[0], kOps) || met++ % 4 != 0) continue;
    ++tried;
    const Run run = check_case(dir, test);
    CHECK_MESSAGE(run.status == 0, test.title << "\n" << run.out << run.err << test.text);
  }
  CHECK(tried > 10);
}
