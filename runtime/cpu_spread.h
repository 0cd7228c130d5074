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
#include <vector>

namespace qcg {

class CpuSpread {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CpuSpread(int threads);

  // Notes where `thread` is. If one with a smaller index was last seen there, leaves that CPU for one where none was seen, if
  // the affinity mask has one; the mask is the same afterwards. Thread 0 never moves: it is the host's own.
  void arrive(int thread);

  // What arrive() decides by. Whether `thread`, now on `cpu`, shares it with one of smaller index; costs a few loads.
  bool shares(int thread, int cpu);
  // Whether one that shares its CPU leaves it: not again within 10 ms, since moving costs some 50 us and the system may undo
  // it where the other CPUs are busy.
  bool leaves(int thread, Clock::time_point now);
  // Where any thread was last seen.
  std::vector<int> taken() const;

 private:
  struct Seat {
    std::atomic<int> cpu{-1};
    Clock::time_point left{};  // when this thread last left a CPU
  };

  int threads_, cpus_;
  std::unique_ptr<Seat[]> seats_;
  // By CPU: the thread that goes before others there, as far as it has not gone elsewhere (its seat knows).
  std::unique_ptr<std::atomic<int>[]> first_;
};

}  // namespace qcg
