// in_parallel: calls f(0) … f(count - 1), each once, on several threads.
//
// Why here: the oracle's products (graph/), the packing of constants (codegen/) and random weights (graph/read/) share
// it. Kernels have a pool of their own (runtime/), whose threads wait for work.
//
//   in_parallel(panels, usable_cpus(), [&](size_t panel) { … });   // panels are taken in order, one at a time
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace qcg {

// Threads that cannot be had (a container's limit) cost time, not the result. The first exception of f is thrown again,
// and no call begins after it.
template <class F>
void in_parallel(size_t count, size_t threads, F&& f) {
  std::atomic<size_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (size_t i; (i = next++) < count;) f(i);
    } catch (...) {
      next = count;
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (size_t t = 1; t < std::min(threads, count); ++t) helpers.emplace_back(work);
  } catch (const std::system_error&) {
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace qcg
