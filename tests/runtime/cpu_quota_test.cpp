// What control groups say of processors, version 1 and 2, at every level.
#include "base/cpu_quota.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

using namespace qcg;
namespace fs = std::filesystem;

namespace {

struct Hierarchy {
  fs::path root = fs::temp_directory_path() / ("qcg_cgroup_" + std::to_string(getpid()));
  Hierarchy() { fs::create_directories(root); }
  ~Hierarchy() { fs::remove_all(root); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  int quota() const { return cpu_quota(root / "self", root / "fs"); }
};

}  // namespace

TEST_CASE("no control groups, no limit") {
  Hierarchy h;
  CHECK(h.quota() == 0);
  h.put("self", "0::/\nnonsense\n:\n");
  CHECK(h.quota() == 0);
}

TEST_CASE("version 2: the tightest of the group and its parents") {
  Hierarchy h;
  h.put("self", "0::/user/job\n");
  h.put("fs/user/job/cpu.max", "max 100000\n");
  CHECK(h.quota() == 0);
  h.put("fs/user/cpu.max", "350000 100000\n");
  CHECK(h.quota() == 3);
  h.put("fs/user/job/cpu.max", "50000 100000\n");
  CHECK(h.quota() == 1);  // half a processor is still one thread
  h.put("fs/user/job/cpu.max", "800000 100000\n");
  CHECK(h.quota() == 3);
  h.put("fs/cpu.max", "200000 100000\n");  // as a container sees its own limit
  CHECK(h.quota() == 2);
  h.put("fs/cpu.max", "rubbish");
  h.put("fs/user/cpu.max", "-5 0");
  CHECK(h.quota() == 8);
}

TEST_CASE("version 1: the cpu controller's two files") {
  Hierarchy h;
  h.put("self", "5:memory:/m\n4:cpu,cpuacct:/docker/x\n");
  h.put("fs/cpu/docker/x/cpu.cfs_quota_us", "-1\n");
  h.put("fs/cpu/docker/x/cpu.cfs_period_us", "100000\n");
  CHECK(h.quota() == 0);
  h.put("fs/cpu/docker/x/cpu.cfs_quota_us", "250000\n");
  CHECK(h.quota() == 2);
  h.put("self", "5:memory:/docker/x\n");
  CHECK(h.quota() == 0);
}
