#include "codegen/trial/cold_weights.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "codegen/kernel/target.h"

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

int64_t stride_of(int64_t size) { return std::max<int64_t>(1, (size + kPage - 1) / kPage) * kPage; }

int64_t copies_for(int64_t size, int64_t bytes) {
  return std::clamp<int64_t>((bytes + stride_of(size) - 1) / stride_of(size), 1, kMaxCopies);
}

}  // namespace

int64_t cold_bytes_at(int64_t m) {
  if (m > kColdUpToM) return 0;
  return std::min({kMaxColdBytes, this_machine().l3_bytes * 5 / 4 + (int64_t{32} << 20), available_bytes() / 8});
}

const ColdWeights::Copies& ColdWeights::copies(std::span<const std::byte> weights, int64_t bytes) {
  const bool mine = !copies_.empty() && copies_[0].data() == block_.data() && copies_[0].size() == weights.size();
  const bool enough = mine && std::ssize(copies_) >= copies_for(std::ssize(weights), bytes);
  if (enough && std::memcmp(block_.data(), weights.data(), weights.size()) == 0) return copies_;
  if (!lay_out(std::ssize(weights), bytes).ok()) return copies_.assign(1, weights), copies_;
  if (!weights.empty()) std::memcpy(block_.data(), weights.data(), weights.size());
  repeat_first();
  return copies_;
}

Result<const ColdWeights::Copies*> ColdWeights::filled_copies(int64_t size, int64_t bytes,
                                                              const std::function<Status(std::span<std::byte>)>& fill) {
  QCG_CHECK(lay_out(size, bytes));
  QCG_CHECK(fill({block_.data(), static_cast<size_t>(size)}));
  repeat_first();
  return &copies_;
}

Status ColdWeights::lay_out(int64_t size, int64_t bytes) {
  copies_.clear();
  const int64_t count = copies_for(size, bytes), stride = stride_of(size);
  QCG_CHECK(block_.reserve(
      std::max(count * stride, 2 * bytes)));  // at once: a larger block would be new pages, to be cleared again
  for (int64_t c = 0; c < count; ++c) copies_.emplace_back(block_.data() + c * stride, static_cast<size_t>(size));
  return {};
}

void ColdWeights::repeat_first() {
  for (size_t c = 1; c < copies_.size(); ++c)
    if (!copies_[c].empty()) std::memcpy(const_cast<std::byte*>(copies_[c].data()), block_.data(), copies_[c].size());
}

}  // namespace qcg
