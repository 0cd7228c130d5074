#include "tests/cuda/ptx/counters.h"

#include <algorithm>

#include "tests/cuda/ptx/machine.h"

namespace qcg::ptx {

uint64_t Counters::total() const { return count(""); }

uint64_t Counters::count(const std::string& prefix) const {
  uint64_t sum = 0;
  for (const auto& [opcode, n] : instructions)
    if (opcode.starts_with(prefix)) sum += n;
  return sum;
}

void AccessLog::note(Kind kind, int line, uint32_t warp, uint32_t lane, uint64_t address, uint32_t bytes) {
  Site& site = sites_[static_cast<size_t>(kind)][{line, warp}];
  const uint64_t n = site.times[lane]++;
  while (site.first + site.open.size() <= n) site.open.emplace_back();
  Request& r = site.open[n - site.first];
  r.address[lane] = address;
  r.bytes = bytes;
  r.lanes |= 1u << lane;
  while (!site.open.empty() && site.open.front().lanes == ~0u) {
    close(kind, site.open.front(), site.closed);
    site.open.pop_front();
    ++site.first;
  }
}

// Words of 4 bytes in 32 banks; wide accesses go in groups of lanes that ask for 128 bytes.
uint64_t wavefronts(const uint64_t* addresses, uint32_t lanes, uint32_t bytes) {
  const uint32_t words = std::max<uint32_t>(1, bytes / 4), group = std::max<uint32_t>(1, 32 / words);
  uint64_t sum = 0;
  for (uint32_t first = 0; first < 32; first += group) {
    std::vector<uint64_t> all;
    for (uint32_t lane = first; lane < first + group; ++lane)
      if (lanes >> lane & 1)
        for (uint32_t w = 0; w < words; ++w) all.push_back(addresses[lane] / 4 + w);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::array<uint64_t, 32> banks{};
    for (const uint64_t word : all) ++banks[word % 32];
    sum += *std::max_element(banks.begin(), banks.end());
  }
  return sum;
}

namespace {
uint64_t distinct(std::vector<uint64_t>& v) {
  std::sort(v.begin(), v.end());
  return static_cast<uint64_t>(std::unique(v.begin(), v.end()) - v.begin());
}
}  // namespace

void AccessLog::close(Kind kind, const Request& r, Cost& cost) {
  std::vector<uint64_t> starts, sectors;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (!(r.lanes >> lane & 1)) continue;
    starts.push_back(r.address[lane]);
    for (uint64_t s = r.address[lane] / 32; s <= (r.address[lane] + r.bytes - 1) / 32; ++s) sectors.push_back(s);
  }
  const uint64_t bytes = distinct(starts) * r.bytes;
  Cost one{.requests = 1};
  if (kind == Kind::shared) {
    one.cost = wavefronts(r.address.data(), r.lanes, r.bytes);
    one.ideal = (bytes + 127) / 128;
  } else {
    one.cost = distinct(sectors);
    one.ideal = (bytes + 31) / 32;
    buffers_[starts[0] >> kBufferShift].add(one);
  }
  cost.add(one);
}

void AccessLog::flush(Counters& counters) {
  for (const Kind kind : {Kind::shared, Kind::global}) {
    auto& sites = sites_[static_cast<size_t>(kind)];
    for (auto& [at, site] : sites) {
      for (const Request& r : site.open)
        if (r.lanes) close(kind, r, site.closed);
      for (Cost* sum : {&(kind == Kind::shared ? counters.shared : counters.global)[at.first],
                        kind == Kind::shared ? &counters.all_shared : &counters.all_global}) {
        sum->add(site.closed);
      }
    }
    sites.clear();
  }
  for (const auto& [buffer, cost] : buffers_) counters.buffers[buffer].add(cost);
  buffers_.clear();
}

}  // namespace qcg::ptx
