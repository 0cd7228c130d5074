#include "runtime/cpu_spread.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

#include "base/affinity.h"
#include "runtime/threads.h"

using namespace qcg;

namespace {

cpu_set_t only(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  return set;
}

cpu_set_t mask_of(pid_t thread) {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(thread, sizeof set, &set) == 0);
  return set;
}

// Brings a thread to a CPU without leaving it bound to that: it may run on `all`.
void bring_to(int cpu, pid_t thread, const cpu_set_t& all) {
  const cpu_set_t one = only(cpu);
  REQUIRE(sched_setaffinity(thread, sizeof one, &one) == 0);
  REQUIRE(sched_setaffinity(thread, sizeof all, &all) == 0);
}

bool is_alone(const char* what) {
  if (Affinity().count() > 1) return false;
  MESSAGE("skipped: one CPU only, " << what);
  return true;
}

}  // namespace

TEST_CASE("of threads on one CPU those after the first should leave, and not twice within 10 ms") {
  if (is_alone("all threads are on it")) return;
  CpuSpread spread(4);
  CHECK(!spread.shares(0, 0));
  CHECK(!spread.shares(1, 1));
  CHECK(spread.shares(2, 0));
  CHECK(spread.shares(3, 0));
  CHECK(spread.taken() == std::vector<int>{0, 1, 0, 0});
  CHECK(!spread.shares(0, 1));  // it goes before thread 1, who was there
  CHECK(spread.shares(1, 1));
  CHECK(!spread.shares(2, 0));  // which thread 0 has left
  CHECK(spread.shares(3, 0));
  CHECK(!spread.shares(1, 0));
  CHECK(spread.shares(2, 0));
  CHECK(!spread.shares(2, -1));       // the system did not say
  CHECK(!spread.shares(2, 1 << 20));  // a CPU that came later

  const auto start = CpuSpread::Clock::time_point() + std::chrono::hours(1);
  CHECK(spread.leaves(1, start));
  CHECK(!spread.leaves(1, start + std::chrono::milliseconds(9)));
  CHECK(spread.leaves(2, start));
  CHECK(spread.leaves(1, start + std::chrono::milliseconds(10)));
}

TEST_CASE("a thread leaves the CPU where one of smaller index was seen, its mask does not change") {
  if (is_alone("nowhere to step aside to")) return;
  std::thread([] {
    const int cpu = sched_getcpu();
    const cpu_set_t before = mask_of(0);
    int left = 0;
    for (int round = 0; round < 20; ++round) {
      CpuSpread spread(2);
      bring_to(cpu, 0, before);
      spread.arrive(0);  // thread 0 was here
      bring_to(cpu, 0, before);
      spread.arrive(1);
      left += sched_getcpu() != cpu;
      const cpu_set_t after = mask_of(0);
      CHECK(CPU_EQUAL(&before, &after));
    }
    CHECK(left >= 15);  // the system may move a thread of its own accord at any time
  }).join();
}

TEST_CASE("thread 0 stays, and so does one that may run nowhere else") {
  std::thread([] {
    const int cpu = sched_getcpu();
    const cpu_set_t one = only(cpu);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CpuSpread spread(2);
    spread.arrive(0);
    spread.arrive(1);
    CHECK(sched_getcpu() == cpu);
    const cpu_set_t after = mask_of(0);
    CHECK(CPU_EQUAL(&one, &after));
  }).join();
  if (is_alone("thread 0 cannot move")) return;
  std::thread([] {
    CpuSpread spread(2);
    const int cpu = sched_getcpu();
    const cpu_set_t one = only(cpu), before = mask_of(0);
    spread.arrive(1);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    spread.arrive(0);
    CHECK(sched_getcpu() == cpu);
    REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  }).join();
}

TEST_CASE("a worker on its caller's CPU steps aside during the job") {
  if (is_alone("nowhere to step aside to")) return;
  std::thread([] {
    ThreadPool pool({.threads = 2});
    const int cpu = sched_getcpu();
    const cpu_set_t one = only(cpu), all = mask_of(0);  // the worker's too, but it may be moving
    std::atomic<pid_t> worker{0};
    const auto run_job = [&] {  // 10 ms alone; where the worker ran last, -1 if it did not
      std::atomic<int> last{-1};
      pool.parallel_items(200, [&](int64_t begin, int64_t end, int thread) {
        const auto until = std::chrono::steady_clock::now() + (end - begin) * std::chrono::microseconds(50);
        if (thread == 1) worker = gettid(), last = sched_getcpu();
        while (std::chrono::steady_clock::now() < until) {
        }
      });
      return last.load();
    };
    for (int round = 0; round < 1000 && worker == 0; ++round) run_job();
    REQUIRE(worker != 0);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    int together = 0, apart = 0;
    for (int round = 0; round < 20; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(11));  // it does not move twice within 10
      bring_to(cpu, worker, all);
      const int last = run_job();
      if (last >= 0) ++(last == cpu ? together : apart);
    }
    CAPTURE(together);
    CHECK(apart > together);
    // One that came too late for the last job may still be moving.
    const auto is_back = [&] {
      const cpu_set_t after = mask_of(worker);
      return CPU_EQUAL(&all, &after) != 0;
    };
    for (int ms = 0; ms < 5000 && !is_back(); ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(is_back());
  }).join();
}
