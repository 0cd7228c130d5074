// ThreadPool: runs ranges of independent items on a few threads that spin between calls.
//
// Why here: kernels are pure functions over ranges of items without threads, and the runtime must not require OpenMP.
// Threads take chunks dynamically, and chunks shrink towards the end. So a core that is lost to another process costs
// its share of the work, not the whole call. The caller works, too, and does not wait for workers that have taken no
// items.
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
  int threads = 0;   // including the caller; 0: usable_cpus()
  int spin_us = 80;  // microseconds that an idle worker or waiting caller spins before it sleeps; 0: none
};

class ThreadPool {
 public:
  // If the system refuses to start a thread, the pool works with fewer: threads() returns their number.
  explicit ThreadPool(PoolOptions options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls fn(begin, end, thread) on disjoint ranges that cover [0, items); thread is in [0, threads()) and no two calls
  // with the same thread overlap. fn must not throw and must not call parallel_items of the same pool. Calls from
  // several threads run one after the other. Writes before the call are visible to fn, and writes of fn are visible to
  // the caller afterwards. A child of fork() has no workers: there the caller runs all items.
  template <class Fn>
  void parallel_items(int64_t items, Fn&& fn) {
    using F = std::remove_reference_t<Fn>;
    run_items(
        items, [](void* f, int64_t begin, int64_t end, int thread) { (*static_cast<F*>(f))(begin, end, thread); },
        const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

 private:
  using ItemFn = void (*)(void* context, int64_t begin, int64_t end, int thread);
  struct Shared;  // the state that all threads share

  void run_items(int64_t items, ItemFn fn, void* context);

  int threads_ = 1;
  unsigned fork_generation_ = 0;
  std::mutex turn_;
  std::unique_ptr<Shared> shared_;
  std::vector<std::thread> workers_;
};

}  // namespace qcg
