// What a piece of work costs: run in a child process, whose processor time, peak memory and death are then known.
//
// Why here: bounds on hostile and on large inputs are tested in several folders; on a busy machine wall time says
// nothing.
//
//   const ChildCost cost = cost_of([&] { return read_graph(path).ok(); });
//   CHECK(cost.outcome == ChildCost::yes);
//   CHECK(cost.seconds < 1);
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

namespace qcg::test {

#if defined(QCG_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

#ifdef NDEBUG
inline constexpr bool kOptimized = true;
#else
inline constexpr bool kOptimized = false;
#endif

struct ChildCost {
  enum Outcome { no, yes, died };
  Outcome outcome = died;
  double seconds = 0;  // of processor time
  long kib = 0;        // at its peak
};

// A child that hangs is killed after a minute of processor time.
inline ChildCost cost_of(const std::function<bool()>& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit limit{60, 60};
    setrlimit(RLIMIT_CPU, &limit);
    _exit(work() ? 1 : 0);
  }
  int status = 0;
  rusage used{};
  REQUIRE(wait4(child, &status, 0, &used) == child);
  ChildCost cost;
  if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
    cost.outcome = WEXITSTATUS(status) == 1 ? ChildCost::yes : ChildCost::no;
  cost.seconds = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  cost.kib = used.ru_maxrss;
  return cost;
}

// How many times longer four times the work takes: 4 where the cost is linear, 16 where it is quadratic.
//
// Both sides are the least of several runs, because other programs only ever add time. It measures again until the
// growth is at most `bound` or six rounds have passed. `seconds_of(n)` is the processor time of n pieces of work.
inline double growth_of_four_times(int n, double bound, const std::function<double(int)>& seconds_of) {
  double small = seconds_of(n), large = seconds_of(4 * n);
  for (int round = 1; round < 6 && large > bound * small; ++round) {
    small = std::min(small, seconds_of(n));
    large = std::min(large, seconds_of(4 * n));
  }
  MESSAGE(n << " nodes in " << small << " s, " << 4 * n << " in " << large << " s");
  return large / small;
}

// Between 16 and the 4 to 6 that is measured: trees and cold caches cost the difference from 4.
inline constexpr double kLinearGrowth = 8;

}  // namespace qcg::test
