#include "runtime/reach.h"

namespace qcg {

bool is_within(const Reach& reach, std::span<const int64_t> params, int64_t stride, int64_t offset, int64_t bytes) {
  auto value = [&](const Reach::Number& n) { return value_of(n, params, stride); };
  for (const Reach::Axis& axis : reach.axes)
    if (const int64_t extent = value(axis.extent); extent <= 0) return extent == 0;
  constexpr int64_t kMost = int64_t{1} << 56;  // elements; larger than any buffer, and sums of it fit into int64
  int64_t low = 0, high = 0, dense = 1;
  for (size_t i = reach.axes.size(); i-- > 0;) {
    const Reach::Axis& axis = reach.axes[i];
    const int64_t extent = value(axis.extent), step = axis.stride ? value(*axis.stride) : dense;
    int64_t span;
    if (__builtin_mul_overflow(extent - 1, step, &span) || span > kMost || span < -kMost) return false;
    (span < 0 ? low : high) += span;
    if (!axis.stride && (__builtin_mul_overflow(dense, extent, &dense) || dense > kMost)) return false;
  }
  int64_t first, last;
  return !__builtin_mul_overflow(low, reach.item, &first) && !__builtin_mul_overflow(high + 1, reach.item, &last) &&
         !__builtin_add_overflow(first, offset, &first) && !__builtin_add_overflow(last, offset, &last) && first >= 0 &&
         last <= bytes;
}

}  // namespace qcg
