// Affinity: the CPUs that the calling thread may run on. usable_cpus(): how many of them the CPU quota allows to use.
//
// Why here: on large machines the affinity mask is larger than cpu_set_t. Code that counts its CPUs (kernel threads,
// compiler processes) and code that removes some CPUs for a moment (runtime/cpu_spread.h) both need the whole mask.
//
//   Affinity cpus;            // sched_getaffinity
//   cpus.count();             // 0 if the system call fails
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

// The number of CPUs that this process may use by its affinity mask and its cgroup's quota; at least 1.
inline int usable_cpus() {
  const int mask = std::max(1, Affinity().count()), quota = cpu_quota();
  return quota > 0 ? std::min(mask, quota) : mask;
}

}  // namespace qcg
