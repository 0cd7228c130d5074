// What a benchmark of kernels needs of a machine: huge pages, pinned threads that spin, a lock against other
// benchmarks.
//
// Why here: the runtime's own threads sleep and wake; how fast they do is not what a kernel is judged by.
//
//   Team team(2);
//   Launcher{team, scratch, shared}.run(kernel, call);
#pragma once

#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/abi.h"

namespace qcg::bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline std::byte* huge_alloc(size_t bytes) {
  const size_t page = size_t{2} << 20, size = (bytes + page - 1) / page * page + page;
  auto* p = static_cast<std::byte*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (p == MAP_FAILED) std::abort();
  p = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(p) + page - 1) / page * page);
  madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

// Threads that spin between jobs: wake-up time is the runtime's affair, not the kernel's. Real-time priority where the
// system allows it, so that what is measured is this machine and not its other users.
class Team {
 public:
  explicit Team(int threads) {
    pthread_getaffinity_np(pthread_self(), sizeof everywhere_, &everywhere_);
    for (int i = 0; i < threads; ++i) pin(i, i > 0);
  }
  ~Team() {
    job_ = nullptr;
    generation_.fetch_add(1);
    for (auto& w : workers_) w.join();
    const sched_param normal{};
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &normal);
    pthread_setaffinity_np(pthread_self(), sizeof everywhere_, &everywhere_);
  }
  void run(const std::function<void(int)>& f) {
    job_ = &f;
    done_.store(0);
    generation_.fetch_add(1);
    f(0);
    while (done_.load() != int(workers_.size())) _mm_pause();
  }
  int size() const { return int(workers_.size()) + 1; }

 private:
  void pin(int cpu, bool worker) {
    auto set = [cpu](pthread_t t) {
      cpu_set_t s;
      CPU_ZERO(&s);
      CPU_SET(cpu, &s);
      pthread_setaffinity_np(t, sizeof s, &s);
      const sched_param param{.sched_priority = 1};
      pthread_setschedparam(t, SCHED_FIFO, &param);
    };
    if (!worker) return set(pthread_self());
    workers_.emplace_back([this, cpu] {
      for (int seen = 0;;) {
        while (generation_.load() == seen) _mm_pause();
        seen = generation_.load();
        if (!job_) return;
        (*job_)(cpu);
        done_.fetch_add(1);
      }
    });
    set(workers_.back().native_handle());
  }
  cpu_set_t everywhere_;
  std::vector<std::thread> workers_;
  std::atomic<int> generation_{0}, done_{0};
  const std::function<void(int)>* job_ = nullptr;
};

// Held while timing.
class TimingLock {
 public:
  explicit TimingLock(const std::string& path) {
    if (path.empty()) return;
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ >= 0) flock(fd_, LOCK_EX);
  }
  ~TimingLock() {
    if (fd_ >= 0) close(fd_);
  }

 private:
  int fd_ = -1;
};

struct Launcher {
  Team& team;
  std::vector<std::byte*> scratch;
  std::byte* shared;
  void run(const qcg_kernel& kernel, qcg_call& call) {
    call.shared = shared;
    for (uint32_t phase = 0; phase < kernel.phases; ++phase) {
      const int64_t items = kernel.items(&call, phase);
      std::atomic<int64_t> next{0};
      const auto work = [&](int t) {
        for (int64_t i; (i = next.fetch_add(1)) < items;) kernel.run(&call, phase, i, i + 1, scratch[size_t(t)]);
      };
      if (items == 1) work(0);
      else team.run(work);
    }
  }
};

}  // namespace qcg::bench
