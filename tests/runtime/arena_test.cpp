#include "runtime/arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace qcg;

namespace {

struct Case {
  std::vector<int64_t> sizes;
  std::vector<Lifetime> lifetimes;
};

Case random_case(std::mt19937_64& rng) {
  Case c;
  const int count = static_cast<int>(rng() % 60);
  for (int i = 0; i < count; ++i) {
    const int64_t first = static_cast<int64_t>(rng() % 40);
    c.sizes.push_back(static_cast<int64_t>(rng() % 4 == 0 ? rng() % 3 : rng() % 100000));
    c.lifetimes.push_back({first, first + static_cast<int64_t>(rng() % 10)});
  }
  return c;
}

int64_t round_up(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

// No plan can be smaller than what is alive in one step.
int64_t lower_bound(const Case& c) {
  int64_t most = 0;
  for (int64_t step = 0; step < 60; ++step) {
    int64_t live = 0;
    for (size_t i = 0; i < c.sizes.size(); ++i)
      if (c.lifetimes[i].first <= step && step <= c.lifetimes[i].last) live += round_up(c.sizes[i]);
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

TEST_CASE("buffers alive at the same time never overlap") {
  int64_t peaks = 0, bounds = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 rng(seed);
    const Case c = random_case(rng);
    const auto plan = plan_arena(c.sizes, c.lifetimes);
    REQUIRE(plan.ok());
    for (size_t i = 0; i < c.sizes.size(); ++i) {
      CHECK(plan->offsets[i] % kArenaAlignment == 0);
      CHECK(plan->offsets[i] + c.sizes[i] <= plan->peak_bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together =
            c.lifetimes[i].first <= c.lifetimes[j].last && c.lifetimes[j].first <= c.lifetimes[i].last;
        const bool apart =
            plan->offsets[i] + c.sizes[i] <= plan->offsets[j] || plan->offsets[j] + c.sizes[j] <= plan->offsets[i];
        CHECK((!together || apart || c.sizes[i] == 0 || c.sizes[j] == 0));
      }
    }
    CHECK(plan->peak_bytes >= lower_bound(c));
    peaks += plan->peak_bytes;
    bounds += lower_bound(c);
  }
  CHECK(static_cast<double>(peaks) < 1.15 * static_cast<double>(bounds));
}

TEST_CASE("memory is used again after its last step") {
  const std::vector<int64_t> sizes = {100, 50, 100};
  const std::vector<Lifetime> lifetimes = {{0, 1}, {1, 2}, {2, 3}};
  const auto plan = plan_arena(sizes, lifetimes);
  REQUIRE(plan.ok());
  CHECK(plan->offsets == std::vector<int64_t>{0, 128, 0});
  CHECK(plan->peak_bytes == 192);
}

TEST_CASE("impossible requests are errors") {
  const std::vector<Lifetime> two = {{0, 0}, {0, 0}};
  CHECK(!plan_arena(std::vector<int64_t>{-1, 0}, two).ok());
  CHECK(!plan_arena(std::vector<int64_t>{INT64_MAX, 0}, two).ok());
  CHECK(!plan_arena(std::vector<int64_t>{INT64_MAX / 2 + 1, INT64_MAX / 2 + 1}, two).ok());
  CHECK(!plan_arena(std::vector<int64_t>{1}, two).ok());
  CHECK(!plan_arena(std::vector<int64_t>{1, 1}, std::vector<Lifetime>{{1, 0}, {0, 0}}).ok());
}
