// CpuSpread: moves threads of one pool to different CPUs when two of them run on the same CPU.
//
// Why here: Linux may wake a worker on the CPU of its caller, and leave both there for 100 ms and more while another
// CPU is idle. Then every call is as slow as with a single thread. Pinning would be worse, because a pinned thread must
// share its CPU with whatever other processes run there.
//
//   CpuSpread spread(threads);
//   spread.arrive(thread);   // called by each thread from time to time
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

  // Records the CPU of `thread`. If a thread of smaller index was last seen there, moves `thread` to a CPU of its
  // affinity mask where no thread was seen, if there is one; the mask stays. Thread 0 is the host's and never moves.
  void arrive(int thread);

  // Part of arrive(): whether `thread`, now on `cpu`, shares it with a thread of smaller index. It costs a few loads.
  bool shares(int thread, int cpu);
  // Whether a thread that shares its CPU may move: at most once in 10 ms, because moving costs about 50 us and Linux
  // may undo it if the other CPUs are busy.
  bool leaves(int thread, Clock::time_point now);
  // The CPUs where threads were last seen.
  std::vector<int> taken() const;

 private:
  struct Seat {
    std::atomic<int> cpu{-1};
    Clock::time_point left{};  // when this thread last left a CPU
  };

  int threads_, cpus_;
  std::unique_ptr<Seat[]> seats_;
  // By CPU: the thread that may stay there. The entry is outdated if that thread's seat names another CPU.
  std::unique_ptr<std::atomic<int>[]> first_;
};

}  // namespace qcg
