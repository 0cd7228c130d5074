// cpu_quota: the number of processors that the control groups of this process allow, as for a container.
//
// Why here: kernel threads (runtime/), compiler processes (cache/) and the description of the machine (codegen/) must
// agree. The affinity mask does not show the quota: a container that may use 2 of 64 processors by quota sees all 64.
//
//   const int quota = cpu_quota();   // 0: no limit; 1.5 processors count as 1: a throttled thread stalls the others
#pragma once

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace qcg {

// The processors that one directory of the cgroup hierarchy allows; 0 if it sets no limit.
inline int quota_of_directory(const std::string& directory) {
  double quota = -1, period = 0;
  std::string word;
  if (std::ifstream both(directory + "/cpu.max");
      both >> word >> period) {  // version 2: "150000 100000" or "max 100000"
    std::istringstream(word) >> quota;
  } else {  // version 1: two files, -1 for none
    std::ifstream(directory + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(directory + "/cpu.cfs_period_us") >> period;
  }
  if (!(quota > 0) || !(period > 0)) return 0;
  return static_cast<int>(std::clamp(quota / period, 1.0, 1e6));
}

// The smallest limit from the process's own group up to the root. Only tests pass arguments.
inline int cpu_quota(const std::string& membership = "/proc/self/cgroup", const std::string& root = "/sys/fs/cgroup") {
  int limit = 0;
  auto consider = [&](int quota) {
    if (quota > 0) limit = limit == 0 ? quota : std::min(limit, quota);
  };
  std::ifstream in(membership);
  for (std::string line; std::getline(in, line);) {  // "0::/user.slice/a" or "4:cpu,cpuacct:/a"
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",cpu,") == std::string::npos) continue;
    const std::string mount = unified ? root : root + "/cpu";
    std::string path = line.substr(second + 1);
    for (size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/')) {
      consider(quota_of_directory(mount + path));  // a container may see only the mount itself
      path.resize(slash);
    }
    consider(quota_of_directory(mount));
  }
  return limit;
}

}  // namespace qcg
