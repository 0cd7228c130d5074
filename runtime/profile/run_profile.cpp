#include "runtime/profile/run_profile.h"

#include <utility>

namespace qcg {

double StepProfile::busy_us(int thread) const {
  double us = 0;
  for (const ThreadSpan& span : spans)
    if (span.thread == thread) us += span.busy_us;
  return us;
}

void SpanRecorder::begin_phase(uint32_t phase, int threads) {
  slots_.assign(static_cast<size_t>(threads), {});
  for (int thread = 0; thread < threads; ++thread) {
    slots_[static_cast<size_t>(thread)].span.thread = thread;
    slots_[static_cast<size_t>(thread)].span.phase = phase;
  }
}

void SpanRecorder::add(int thread, Clock::time_point begin, Clock::time_point end, int64_t items) {
  ThreadSpan& span = slots_[static_cast<size_t>(thread)].span;
  if (span.items == 0) span.begin_us = since_begin_us(begin);
  span.end_us = since_begin_us(end);
  span.busy_us += std::chrono::duration<double, std::micro>(end - begin).count();
  span.items += items;
}

void SpanRecorder::end_phase() {
  for (const Slot& slot : slots_)
    if (slot.span.items > 0) spans_.push_back(slot.span);
}

std::vector<ThreadSpan> SpanRecorder::take_spans() { return std::exchange(spans_, {}); }

}  // namespace qcg
