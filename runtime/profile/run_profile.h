// RunProfile: what each step of a run took, and when each thread worked on it.
//
// Why here: `run --profile`, `bench --trace` and the C API show the same figures. A Context fills them where its option
// `profile` is on, at the cost of two clock reads per step and two per range of items.
//
//   context->set_profile(true);
//   QCG_CHECK(context->run(inputs, outputs));
//   for (const StepProfile& step : context->last_profile().steps) total += step.us;
//
// Times are microseconds. They begin at 0 with the first step of the run.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace qcg {

// What one thread did in one phase of a kernel.
struct ThreadSpan {
  int thread = 0;  // 0: the caller's
  uint32_t phase = 0;
  double begin_us = 0, end_us = 0;  // of its first and its last range of items
  double busy_us = 0;               // in the kernel, between these two
  int64_t items = 0;
};

struct StepProfile {
  double begin_us = 0, us = 0;    // with what it takes to start threads and to wait for them
  double bytes = 0;               // read and written once (bytes_moved in reach.h); 0: unknown
  size_t kernel = 0;              // into ProgramManifest::Step::kernels
  std::vector<ThreadSpan> spans;  // by phase, then by thread; none of a program for a device
  double busy_us(int thread) const;
};

struct RunProfile {
  double us = 0;  // of all steps, with what is between them
  std::vector<StepProfile> steps;
};

// Takes the times of one run. run_kernel() calls the members with the word phase.
class SpanRecorder {
 public:
  using Clock = std::chrono::steady_clock;

  void begin_run() { begin_ = Clock::now(); }
  double since_begin_us(Clock::time_point now = Clock::now()) const {
    return std::chrono::duration<double, std::micro>(now - begin_).count();
  }
  void begin_phase(uint32_t phase, int threads);
  // Called by thread `thread` alone, between begin_phase and end_phase.
  void add(int thread, Clock::time_point begin, Clock::time_point end, int64_t items);
  void end_phase();
  std::vector<ThreadSpan> take_spans();  // of the phases since the last call

 private:
  struct alignas(64) Slot {  // a cache line of its own
    ThreadSpan span;
  };
  Clock::time_point begin_;
  std::vector<Slot> slots_;
  std::vector<ThreadSpan> spans_;
};

}  // namespace qcg
