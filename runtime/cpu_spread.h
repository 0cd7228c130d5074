// CpuSpread: threads that work side by side and find themselves on one CPU move apart.
//
// Why here: the system may wake a worker on the CPU of the caller who woke it, and leave both there for 100 ms and more while
// another CPU is idle; every call is then as slow as one of a single thread. Pinning would be worse: a pinned thread shares
// its CPU with whatever the rest of the machine puts there.
//
//   CpuSpread spread(threads);
//   spread.arrive(thread);   // now and then, by each thread
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

namespace qcg {

class CpuSpread {
 public:
  explicit CpuSpread(int threads);

  // Notes where `thread` is. If one with a smaller index was last seen there, leaves that CPU for one where none was seen, if
  // the affinity mask has one; the mask is the same afterwards. Thread 0 never moves: it is the host's own.
  void arrive(int thread);

 private:
  struct Seat {
    std::atomic<int> cpu{-1};
    std::chrono::steady_clock::time_point left{};  // when this thread last stepped aside
  };
  bool is_taken(int cpu, int thread) const;
  void step_aside(int thread);

  int threads_;
  std::unique_ptr<Seat[]> seats_;
};

}  // namespace qcg
