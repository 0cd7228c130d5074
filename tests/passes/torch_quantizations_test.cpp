// Quantizations of computed values, as torch gives them, to the bit: what the passes make of them gives the same
// integers.
#include <algorithm>

#include "graph/oracle/reference.h"
#include "tests/passes/passes_test_util.h"
#include "tests/torch_cases.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("fused quantizations give torch's integers") {
  int tried = 0;
  for (const TorchCase& test : read_torch_cases()) {
    if (!test.is_quantization()) continue;
    ++tried;
    Graph graph = test.graph();
    REQUIRE(run_passes(graph, {.verify_after_each = true}).ok());
    const auto got = evaluate_graph(graph, test.input_tensors());
    REQUIRE(got.ok());
    const std::vector<Tensor> want = test.output_tensors();
    for (size_t i = 0; i < want.size(); ++i) {
      const bool same = std::ranges::equal((*got)[i].contiguous().bytes(), want[i].bytes());
      CHECK_MESSAGE(same, test.title << "\n" << test.text << print_graph(graph));
    }
  }
  CHECK(tried > 100);
}
