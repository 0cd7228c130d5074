// Affinity: the CPUs that the calling thread may run on; usable_cpus: how many of them there is time for.
//
// Why here: the mask may be larger than cpu_set_t on big machines. Who counts its CPUs (threads of kernels, processes of
// compilers) and who takes some out for a moment (runtime/cpu_spread.h) need all of it.
//
//   Affinity cpus;            // sched_getaffinity
//   cpus.count();             // 0 where the system does not say
//   cpus.without({3}).set();  // sched_setaffinity
#pragma once

#include <sched.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/cpu_quota.h"

namespace qcg {

class Affinity {
 public:
  Affinity() {
    for (size_t sets = 1; sets <= 256 && count() == 0; sets *= 4) {
      sets_.resize(sets);
      if (sched_getaffinity(0, bytes(), sets_.data()) != 0) sets_.clear();
    }
  }

  int count() const { return sets_.empty() ? 0 : CPU_COUNT_S(bytes(), sets_.data()); }

  Affinity without(std::span<const int> cpus) const {
    Affinity out = *this;
    for (int cpu : cpus)
      if (cpu >= 0) CPU_CLR_S(static_cast<size_t>(cpu), bytes(), out.sets_.data());
    return out;
  }

  bool set() const { return sched_setaffinity(0, bytes(), sets_.data()) == 0; }

 private:
  size_t bytes() const { return sets_.size() * sizeof(cpu_set_t); }

  std::vector<cpu_set_t> sets_;
};

// CPUs this process may run on (sched_getaffinity, quota of the control group), at least 1.
inline int usable_cpus() {
  const int mask = std::max(1, Affinity().count()), quota = cpu_quota();
  return quota > 0 ? std::min(mask, quota) : mask;
}

}  // namespace qcg
