// Counters: what a launch asked of memory and of the instruction units.
//
// Why here: slow code shows without a device. A warp's access to shared memory takes as many wavefronts as the
// busiest bank has words; its access to global memory touches sectors of 32 bytes. Both have an ideal: the bytes,
// spread evenly.
//
//   counters.shared_wavefronts <= counters.shared_ideal * 1.1
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace qcg::ptx {

struct Cost {
  uint64_t requests = 0;  // of a warp
  uint64_t cost = 0, ideal = 0;
  void add(const Cost& other) { requests += other.requests, cost += other.cost, ideal += other.ideal; }
  double ratio() const { return ideal ? static_cast<double>(cost) / static_cast<double>(ideal) : 1.0; }
};

struct Counters {
  std::map<std::string, uint64_t> instructions;  // by opcode, of warps (threads / 32, rounded up per launch)
  std::map<int, Cost> shared, global;            // by PTX line: wavefronts, sectors
  std::map<uint64_t, Cost> buffers;              // sectors by address >> kBufferShift
  Cost all_shared, all_global;
  uint64_t bytes_read = 0, bytes_written = 0;  // of buffers
  uint64_t total() const;
  uint64_t count(const std::string& prefix) const;  // of opcodes that begin so
};

// Groups the accesses of lanes into those of warps: the n-th time that a lane is at a line belongs to the n-th of the
// others.
class AccessLog {
 public:
  enum class Kind : uint8_t { shared, global };
  void note(Kind kind, int line, uint32_t warp, uint32_t lane, uint64_t address, uint32_t bytes);
  void flush(Counters& counters);  // at the end of a CTA

 private:
  struct Request {
    std::array<uint64_t, 32> address;
    uint32_t lanes = 0, bytes = 0;
  };
  struct Site {
    std::deque<Request> open;
    uint64_t first = 0;  // number of open.front()
    std::array<uint64_t, 32> times{};
    Cost closed;
  };
  void close(Kind kind, const Request& r, Cost& cost);
  std::map<uint64_t, Cost> buffers_;
  std::map<std::pair<int, uint32_t>, Site> sites_[2];
};

uint64_t wavefronts(const uint64_t* addresses, uint32_t lanes, uint32_t bytes);

}  // namespace qcg::ptx
