#include "codegen/cold_weights.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "codegen/target.h"

namespace qcg {

namespace {

constexpr int64_t kColdUpToM = 64;  // weights of larger problems are streamed from L2 anyway
constexpr int64_t kMaxColdBytes = int64_t{640} << 20;
constexpr int64_t kMaxCopies = 4096;
constexpr int64_t kPage = 4096;

// Memory that can be had without pushing anything out, or a guess where the system does not say.
int64_t available_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string name, unit; in >> name;) {
    int64_t kib = 0;
    if (!(in >> kib)) break;
    std::getline(in, unit);
    if (name == "MemAvailable:") return kib << 10;
  }
  return int64_t{1} << 30;
}

}  // namespace

int64_t cold_bytes_at(int64_t m) {
  if (m > kColdUpToM) return 0;
  return std::min({kMaxColdBytes, this_machine().l3_bytes * 5 / 4 + (int64_t{32} << 20), available_bytes() / 8});
}

const std::vector<std::span<const std::byte>>& ColdWeights::copies(std::span<const std::byte> weights, int64_t bytes) {
  const int64_t stride = std::max<int64_t>(1, (std::ssize(weights) + kPage - 1) / kPage) * kPage;
  const int64_t count = std::clamp<int64_t>((bytes + stride - 1) / stride, 1, kMaxCopies);
  const bool mine = !copies_.empty() && copies_[0].data() == block_.data() && copies_[0].size() == weights.size();
  if (mine && std::ssize(copies_) >= count && std::memcmp(block_.data(), weights.data(), weights.size()) == 0) return copies_;
  copies_.clear();
  if (!block_.reserve(count * stride).ok()) return copies_.assign(1, weights), copies_;
  for (int64_t c = 0; c < count; ++c) {
    std::byte* at = block_.data() + c * stride;
    if (!weights.empty()) std::memcpy(at, weights.data(), weights.size());
    copies_.emplace_back(at, weights.size());
  }
  return copies_;
}

}  // namespace qcg
