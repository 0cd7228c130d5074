// Random graphs of linears, concatenations and pointwise operations: whatever the passes do, the oracle sees the same
// values. The seed of a failing graph is printed; QCG_SEED=N runs that one alone.
#include <cstdlib>

#include "graph/ops/verify.h"
#include "tests/passes/passes_test_util.h"
#include "tests/passes/random_graph.h"

using namespace qcg;

namespace {

void check_seed(uint64_t seed, std::map<std::string, int64_t>& fired) {
  INFO("QCG_SEED=", seed);
  Graph before = RandomGraph(seed).build(4 + static_cast<int>(seed % 20));
  before.remove_dead();
  auto verified = verify_graph(before);
  REQUIRE_MESSAGE(verified.ok(), verified.error().to_string());
  bind_random(before, seed);
  Graph after = before;
  auto reports = run_passes(after, {.verify_after_each = true});
  REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
  for (const PassReport& report : *reports) fired[report.name] += report.fired;
  check_same_values(before, after, seed + 1);
  const std::string printed = print_graph(after);
  REQUIRE(run_passes(after).ok());
  CHECK_MESSAGE(print_graph(after) == printed, "the passes change their own result");
}

}  // namespace

TEST_CASE("random graphs keep their values") {
  std::map<std::string, int64_t> fired;
  if (const char* seed = std::getenv("QCG_SEED")) return check_seed(std::strtoull(seed, nullptr, 10), fired);
  for (uint64_t seed = 1; seed <= 150; ++seed) check_seed(seed, fired);
  // The graphs must reach what they are there to test.
  for (const char* pass :
       {"recognize_linear", "merge_sibling_linears", "split_cat_linear", "fold_epilogue", "lower_loops"})
    CHECK_MESSAGE(fired[pass] > 20, pass << " fired " << fired[pass]);
}
