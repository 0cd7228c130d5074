#include "runtime/threads.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "base/affinity.h"

using namespace qcg;

namespace {

// How often each item was visited.
std::vector<int> visit(ThreadPool& pool, int64_t items) {
  std::vector<int> seen(static_cast<size_t>(items), 0);
  pool.parallel_items(items, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  return seen;
}

}  // namespace

TEST_CASE("every item is visited once, whatever the thread count") {
  for (int threads : {1, 2, 3, 8}) {
    for (int spin_us : {0, 80}) {
      ThreadPool pool({.threads = threads, .spin_us = spin_us});
      CHECK(pool.threads() == threads);
      for (int64_t items : {0, 1, 2, 3, 7, 64, 1000, 12345}) {
        CAPTURE(threads);
        CAPTURE(items);
        CHECK(visit(pool, items) == std::vector<int>(static_cast<size_t>(items), 1));
      }
      CHECK(visit(pool, -5 + 5).empty());
    }
  }
}

TEST_CASE("many short jobs in a row neither lose nor repeat an item") {
  ThreadPool pool({.threads = 4});
  std::atomic<int64_t> sum{0};
  int64_t expected = 0;
  for (int64_t round = 0; round < 20000; ++round) {
    const int64_t items = 2 + round % 5;
    expected += items * (items - 1) / 2;
    pool.parallel_items(items, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) sum.fetch_add(i, std::memory_order_relaxed);
    });
  }
  CHECK(sum == expected);
}

TEST_CASE("a pool ends while its workers are still on their way to its last job") {
  for (int again = 0; again < 5000; ++again) {
    std::atomic<int> visited = 0;
    {
      ThreadPool pool({.threads = 3});
      pool.parallel_items(2, [&](int64_t begin, int64_t end, int) { visited += static_cast<int>(end - begin); });
      const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(again % 1000 * 100);
      while (std::chrono::steady_clock::now() < end) {
      }
    }
    REQUIRE(visited == 2);
  }
}

TEST_CASE("a thread index is used by one thread at a time, and plain data is visible across jobs") {
  ThreadPool pool({.threads = 6});
  std::vector<std::atomic<int>> inside(6);
  std::vector<int64_t> data(500, 0);  // plain: a missing barrier is a race for the sanitizer and a wrong sum here
  std::atomic<bool> overlapped{false};
  for (int round = 0; round < 200; ++round) {
    pool.parallel_items(500, [&](int64_t begin, int64_t end, int thread) {
      if (inside[static_cast<size_t>(thread)].fetch_add(1) != 0) overlapped = true;
      for (int64_t i = begin; i < end; ++i) data[static_cast<size_t>(i)] += i;
      inside[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
  CHECK(!overlapped);
  CHECK(std::accumulate(data.begin(), data.end(), int64_t{0}) == 200 * (499 * 500 / 2));
}

TEST_CASE("ranges beyond 32 bits are covered") {
  ThreadPool pool({.threads = 2});
  const int64_t items = (int64_t{1} << 33) + 17;
  std::atomic<int64_t> covered{0}, last{0};
  pool.parallel_items(items, [&](int64_t begin, int64_t end, int) {
    covered += end - begin;
    if (end == items) last = end;
  });
  CHECK(covered == items);
  CHECK(last == items);
}

TEST_CASE("a worker that loses its core does not hold up the rest") {
  ThreadPool pool({.threads = 2});
  // On a busy machine the worker may come late, or the caller may lose its core instead: a round of each kind proves
  // nothing. A static split would give the stuck worker 500 items in every round.
  bool proved = false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!proved && std::chrono::steady_clock::now() < deadline) {
    std::atomic<int> stuck_items{0}, other_items{0};
    pool.parallel_items(1000, [&](int64_t begin, int64_t end, int thread) {
      const auto start = std::chrono::steady_clock::now();
      if (thread == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      } else {
        while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(10)) {
        }
      }
      (thread == 1 ? stuck_items : other_items) += static_cast<int>(end - begin);
    });
    CHECK(stuck_items + other_items == 1000);
    proved = stuck_items > 0 && stuck_items <= 250;  // its first chunk: half of an even share of two
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(proved);
}

TEST_CASE("more threads than CPUs still finish, and soon") {
  ThreadPool pool({.threads = 8 * usable_cpus()});
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 200; ++round) CHECK(visit(pool, 100).size() == 100);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("the default is the CPUs of the affinity mask") {
  std::thread([] {
    CHECK(ThreadPool().threads() == usable_cpus());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(usable_cpus() == 1);
    CHECK(ThreadPool().threads() == 1);
  }).join();
}

TEST_CASE("several callers share a pool") {
  ThreadPool pool({.threads = 3});
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round)
        if (visit(pool, 50) != std::vector<int>(50, 1)) ++wrong;
    });
  for (auto& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("the caller's signal mask and affinity stay as they were") {
  sigset_t mask_before, mask_after;
  cpu_set_t cpus_before, cpus_after;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  sched_getaffinity(0, sizeof cpus_before, &cpus_before);
  {
    ThreadPool pool({.threads = 3});
    visit(pool, 100);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  sched_getaffinity(0, sizeof cpus_after, &cpus_after);
  CHECK(sigismember(&mask_before, SIGTERM) == sigismember(&mask_after, SIGTERM));
  CHECK(CPU_EQUAL(&cpus_before, &cpus_after));
}

TEST_CASE("a forked child runs alone") {
  ThreadPool pool({.threads = 4});
  visit(pool, 100);
  const pid_t child = fork();
  if (child == 0) {
    const auto copy = visit(pool, 100);
#ifndef __SANITIZE_THREAD__  // ThreadSanitizer ends a forked child that starts threads
    ThreadPool own({.threads = 2});
    const auto again = visit(own, 100);
    if (again != copy) _exit(2);
#endif
    _exit(copy == std::vector<int>(100, 1) ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(visit(pool, 100) == std::vector<int>(100, 1));
}
