// TimeBudget: how long one lookup may take: 200 ms, and more only while bytes arrive at a useful rate.
//
// Why here: a timeout per read lets a server that sends a byte now and then hold a compile forever, and one for the
// whole lookup would refuse large entries. A server that falls behind 20 MB/s is given up 200 ms later.
//
//   TimeBudget budget;
//   while (…) { wait(budget.left_ms()); budget.add(received); }
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace qcg {

inline constexpr double kRemoteTimeoutMs = 200;
inline constexpr double kLeastBytesPerMs = 20'000;

class TimeBudget {
 public:
  void add(uint64_t bytes) { moved_ += bytes; }
  double spent_ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }
  // At least 0; poll() takes it rounded up.
  int left_ms() const {
    const double left = kRemoteTimeoutMs + static_cast<double>(moved_) / kLeastBytesPerMs - spent_ms();
    return left <= 0 ? 0 : static_cast<int>(left) + 1;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  uint64_t moved_ = 0;
};

}  // namespace qcg
