#include "runtime/cpu_spread.h"

#include <vector>

#include "base/affinity.h"

namespace qcg {
namespace {

// Moving costs some 50 us, and where the other CPUs are busy the system may undo it.
constexpr std::chrono::milliseconds kRest{10};

}  // namespace

CpuSpread::CpuSpread(int threads) : threads_(threads), seats_(std::make_unique<Seat[]>(static_cast<size_t>(threads))) {}

bool CpuSpread::is_taken(int cpu, int thread) const {
  for (int t = 0; t < thread; ++t)
    if (seats_[static_cast<size_t>(t)].cpu.load(std::memory_order_relaxed) == cpu) return true;
  return false;
}

void CpuSpread::arrive(int thread) {
  Seat& seat = seats_[static_cast<size_t>(thread)];
  const int cpu = sched_getcpu();
  if (seat.cpu.load(std::memory_order_relaxed) != cpu) seat.cpu.store(cpu, std::memory_order_relaxed);
  if (is_taken(cpu, thread)) step_aside(thread);
}

void CpuSpread::step_aside(int thread) {
  Seat& seat = seats_[static_cast<size_t>(thread)];
  const auto now = std::chrono::steady_clock::now();
  if (now - seat.left < kRest) return;
  seat.left = now;
  std::vector<int> taken;
  for (int t = 0; t < threads_; ++t)
    taken.push_back(seats_[static_cast<size_t>(t)].cpu.load(std::memory_order_relaxed));
  const Affinity all;
  const Affinity free = all.without(taken);
  if (free.count() == 0 || !free.set()) return;
  seat.cpu.store(sched_getcpu(), std::memory_order_relaxed);
  all.set();
}

}  // namespace qcg
