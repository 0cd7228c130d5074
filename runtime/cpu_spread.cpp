#include "runtime/cpu_spread.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "base/affinity.h"

namespace qcg {

CpuSpread::CpuSpread(int threads)
    : threads_(threads),
      cpus_(static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)))),
      seats_(std::make_unique<Seat[]>(static_cast<size_t>(threads))),
      first_(std::make_unique<std::atomic<int>[]>(static_cast<size_t>(cpus_))) {
  for (int cpu = 0; cpu < cpus_; ++cpu) first_[static_cast<size_t>(cpu)] = 0;
}

bool CpuSpread::shares(int thread, int cpu) {
  if (cpu < 0 || cpu >= cpus_) return false;
  std::atomic<int>& seat = seats_[static_cast<size_t>(thread)].cpu;
  if (seat.load(std::memory_order_relaxed) != cpu) seat.store(cpu, std::memory_order_relaxed);
  std::atomic<int>& first = first_[static_cast<size_t>(cpu)];
  const int before = first.load(std::memory_order_relaxed);
  if (before == thread) return false;
  if (before < thread && seats_[static_cast<size_t>(before)].cpu.load(std::memory_order_relaxed) == cpu) return true;
  first.store(thread, std::memory_order_relaxed);
  return false;
}

bool CpuSpread::leaves(int thread, Clock::time_point now) {
  constexpr std::chrono::milliseconds kRest{10};
  Seat& seat = seats_[static_cast<size_t>(thread)];
  if (now - seat.left < kRest) return false;
  seat.left = now;
  return true;
}

std::vector<int> CpuSpread::taken() const {
  std::vector<int> cpus;
  for (int t = 0; t < threads_; ++t) cpus.push_back(seats_[static_cast<size_t>(t)].cpu.load(std::memory_order_relaxed));
  return cpus;
}

void CpuSpread::arrive(int thread) {
  if (!shares(thread, sched_getcpu()) || !leaves(thread, Clock::now())) return;
  const Affinity all;
  const Affinity free = all.without(taken());
  if (free.count() == 0 || !free.set()) return;
  shares(thread, sched_getcpu());
  all.set();
}

}  // namespace qcg
