// ThreadPool: runs ranges of independent items on a few threads that stay hot between calls.
//
// Why here: kernels are pure functions over item ranges and know nothing of threads; the runtime must not ask its host
// for OpenMP. Chunks are handed out dynamically and shrink towards the end, so that a core lost to another process
// costs its share of the work and not the whole call. The caller works too, and never waits for a worker that took
// nothing.
//
//   ThreadPool pool({.threads = 4});
//   pool.parallel_items(1000, [&](int64_t begin, int64_t end, int thread) { … });   // returns when done
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace qcg {

struct PoolOptions {
  int threads = 0;   // including the caller; 0 = usable_cpus()
  int spin_us = 80;  // how long an idle worker, or a waiting caller, spins before it sleeps; 0 = sleeps at once
};

class ThreadPool {
 public:
  // A thread the system refuses to start is left out: threads() says how many there are.
  explicit ThreadPool(PoolOptions options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls fn(begin, end, thread) on disjoint ranges that cover [0, items); thread is in [0, threads()) and no two calls
  // with the same thread overlap. fn must not throw and must not call parallel_items of the same pool. Callers on
  // several threads take turns. What happened before the call is visible to fn, what fn did to the caller afterwards.
  // A child made by fork() has no workers: there the caller does everything.
  template <class Fn>
  void parallel_items(int64_t items, Fn&& fn) {
    using F = std::remove_reference_t<Fn>;
    run_items(
        items, [](void* f, int64_t begin, int64_t end, int thread) { (*static_cast<F*>(f))(begin, end, thread); },
        const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

 private:
  using ItemFn = void (*)(void* context, int64_t begin, int64_t end, int thread);
  struct Shared;  // what the threads share

  void run_items(int64_t items, ItemFn fn, void* context);

  int threads_ = 1;
  unsigned fork_generation_ = 0;
  std::mutex turn_;
  std::unique_ptr<Shared> shared_;
  std::vector<std::thread> workers_;
};

}  // namespace qcg
