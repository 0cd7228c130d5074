// Hostile inputs by the thousand: for every reader generators of what is cheap to write and could be dear to read.
// Whatever it is, a file of up to a megabyte is read or refused within a second and 256 MiB.
#include <cstdlib>

#include "tests/child_cost.h"
#include "tests/graph_read/generated_inputs.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("generated: any megabyte is read or refused in a second and 256 MiB") {
  const char* given = std::getenv("QCG_TEST_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 1;
  constexpr size_t kSmall = kSanitized ? 15 : 60, kLarge = kSanitized ? 1 : 4;
  constexpr double kSeconds = kSanitized ? 20 : kOptimized ? 1 : 3;
  TempFolder folder;
  const std::string graph = folder.write("graph", many_weights());
  for (const Recipe& recipe : recipes()) {
    double most_seconds = 0;
    long most_kib = 0;
    for (size_t i = 0; i < kSmall + kLarge; ++i) {
      Random random(seed + i);
      // Small ones first: what fails among them is easier to look at.
      const std::string bytes = recipe.make(random, i < kSmall ? size_t{64} << random.below(10) : kMegabyte);
      const std::string what = std::string(recipe.name) + ", " + std::to_string(bytes.size()) +
                               " bytes, QCG_TEST_SEED=" + std::to_string(seed + i);
      INFO(what);
      REQUIRE(bytes.size() <= kMegabyte + 8192);
      const std::string path = folder.write("input", bytes);
      const ChildCost cost = cost_of([&] {
        auto read = recipe.weights ? read_graph(graph, {{path}}) : read_graph(path);
        if (!read.ok() && read.error().to_string().size() > 10'000) abort();  // an error that repeats its input
        return read.ok();
      });
      CHECK(cost.outcome != ChildCost::died);
      CHECK(cost.seconds < kSeconds);
      if (!kSanitized) CHECK(cost.kib < 256 * 1024);
      most_seconds = std::max(most_seconds, cost.seconds), most_kib = std::max(most_kib, cost.kib);
    }
    MESSAGE(std::string(recipe.name) << ": at most " << most_seconds << " s, " << most_kib / 1024 << " MiB");
  }
}
