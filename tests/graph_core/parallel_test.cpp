// Loops on several threads.
#include "base/parallel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

using namespace qcg;

TEST_CASE("in_parallel calls each index once, however many threads there are") {
  for (size_t threads : {0, 1, 2, 7, 100})
    for (size_t count : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int>> calls(count);
      in_parallel(count, threads, [&](size_t i) { ++calls[i]; });
      for (const std::atomic<int>& n : calls) CHECK(n == 1);
    }
}

TEST_CASE("in_parallel throws what one call threw, and begins no other") {
  std::atomic<int> calls{0};
  auto fail_at_third = [&](size_t i) {
    ++calls;
    if (i == 2) throw std::runtime_error("third");
  };
  CHECK_THROWS_WITH(in_parallel(100000, 1, fail_at_third), "third");
  CHECK(calls == 3);
  CHECK_THROWS_WITH(in_parallel(100000, 4, fail_at_third), "third");
}
