// Cta: bar.sync, barriers by name, mbarrier objects.
#include <fmt/format.h>

#include "tests/cuda/ptx/cta.h"

namespace qcg::ptx {

// ---- bar.sync, bar.arrive, bar.red
uint32_t Cta::expected_of(uint32_t threads) {
  if (threads) return threads;
  uint32_t live = 0;  // those that have returned no longer count
  for (const Thread& t : threads_) live += !t.done;
  return live;
}

Cta::Barrier& Cta::arrive_at(uint32_t id, uint32_t threads, bool predicate) {
  if (id > 15) fail(FaultKind::protocol, fmt::format("barrier {}; there are 16", id));
  if (threads % 32)
    fail(FaultKind::protocol, fmt::format("a barrier of {} threads, which are not whole warps", threads));
  Barrier& b = barriers_[id];
  if (b.arrived && b.expected != threads)
    fail(FaultKind::protocol,
         fmt::format("barrier {} with {} threads, while others wait there for {}", id, threads, b.expected));
  b.expected = threads;
  ++b.arrived;
  b.trues += predicate;
  release_into(b.clock);
  return b;
}

void Cta::settle(Barrier& b) {
  if (b.arrived < expected_of(b.expected) || b.arrived == 0) return;
  b.released = b.clock;
  b.result = b.trues;
  b.clock = {};
  b.arrived = b.trues = 0;
  for (const int t : b.waiting) {
    warps_[static_cast<size_t>(t) / 32].clock.join(b.released);
    fibers_.ready(t);
  }
  b.waiting.clear();
  ++progress_;
  polls_without_progress_ = 0;
}

void Cta::barrier(uint32_t id, uint32_t threads, bool wait) {
  Barrier& b = arrive_at(id, threads, false);
  const bool last = b.arrived >= expected_of(threads);
  if (!last && wait) b.waiting.push_back(fibers_.current());
  settle(b);
  if (last && wait) my_clock().join(b.released);
  else if (wait) block("bar.sync");
}

uint32_t Cta::barrier_reduce(uint32_t id, uint32_t threads, bool predicate) {
  Barrier& b = arrive_at(id, threads, predicate);
  const bool last = b.arrived >= expected_of(threads);
  if (!last) b.waiting.push_back(fibers_.current());
  settle(b);
  if (last) my_clock().join(b.released);
  else block("bar.red");
  return b.result;
}

// A cluster of one CTA: nobody arrives for the next time before all have waited for this one.
void Cta::cluster_barrier(bool arrive, bool wait) {
  Barrier& b = barriers_[16];
  if (arrive) {
    ++b.arrived;
    release_into(b.clock);
  }
  settle(b);
  if (!wait) return;
  if (b.arrived) b.waiting.push_back(fibers_.current()), block("barrier.cluster.wait");
  else my_clock().join(b.released);
}

void Cta::thread_left() {
  for (Barrier& b : barriers_)
    if (b.arrived && b.expected == 0) settle(b);
}

// ---- mbarrier
Cta::Mbarrier& Cta::mbarrier_at(uint64_t address) {
  auto found = mbarriers_.find(shared_address(address));
  if (found == mbarriers_.end())
    fail(FaultKind::protocol, fmt::format("there is no mbarrier at shared {}", shared_address(address)));
  return found->second;
}

void Cta::mbarrier_init(uint64_t address, uint32_t count) {
  const uint32_t at = shared_address(address);
  check_alignment(at, 8, "mbarrier.init");
  if (count == 0 || count >= 1u << 20) fail(FaultKind::protocol, fmt::format("an mbarrier of {} arrivals", count));
  uint64_t nothing = 0;
  store(Space::shared, at, &nothing, 8);
  Mbarrier b;
  b.slot = kBarrierSlot + static_cast<int>(mbarriers_.size()) % kBarrierSlots;
  if (auto known = mbarriers_.find(at); known != mbarriers_.end()) b.slot = known->second.slot;
  b.expected = b.pending = count;
  mbarriers_[at] = std::move(b);
}

void Cta::mbarrier_invalidate(uint64_t address) {
  mbarrier_at(address);
  mbarriers_.erase(shared_address(address));
}

void Cta::settle(Mbarrier& b) {
  if (b.pending || b.bytes) return;
  ++b.phase;
  b.pending = b.expected;
  b.released.join(b.clock);
  b.released.at[static_cast<size_t>(b.slot)] = static_cast<uint32_t>(b.phase);  // copies of the phase are there
  b.clock = {};
  for (const int t : b.waiting) {
    std::erase(sleepers_, t);
    fibers_.ready(t);
  }
  b.waiting.clear();
  ++progress_;
  polls_without_progress_ = 0;
}

void Cta::arrive_at(Mbarrier& b, uint32_t count, const Clock& clock) {
  if (b.pending < count)
    fail(FaultKind::protocol, fmt::format("{} arrivals at an mbarrier that misses {}", count, b.pending));
  b.clock.join(clock);
  b.pending -= count;
  ++progress_;
  settle(b);
}

void Cta::mbarrier_expect(uint64_t address, uint32_t bytes) {
  Mbarrier& b = mbarrier_at(address);
  b.bytes += bytes;
}

uint64_t Cta::mbarrier_arrive(uint64_t address, uint32_t count, uint32_t bytes, bool drop) {
  Mbarrier& b = mbarrier_at(address);
  shared_.read(as_warp(), shared_address(address), 8);  // it was initialized, and this warp knows
  const uint64_t phase = b.phase;
  b.bytes += bytes;
  if (drop) --b.expected;
  Clock clock;
  release_into(clock);
  arrive_at(b, count, clock);
  return phase;
}

// Parity p is asked for: the phase with that parity has completed. A state is the phase it was taken in.
bool Cta::mbarrier_wait(uint64_t address, bool parity, uint64_t phase, bool may_block) {
  Mbarrier& b = mbarrier_at(address);
  shared_.read(as_warp(), shared_address(address), 8);
  const auto complete = [&] { return parity ? (b.phase & 1) != (phase & 1) : b.phase > phase; };
  if (!complete()) {
    if (may_block) {
      b.waiting.push_back(fibers_.current());
      sleepers_.push_back(fibers_.current());
      block("mbarrier.try_wait");
      std::erase(b.waiting, fibers_.current());
    } else {
      poll();
    }
  }
  if (!complete()) return false;
  my_clock().join(b.released);
  return true;
}

}  // namespace qcg::ptx
