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

int64_t least_extent(const Reach& reach, std::span<const int64_t> params, int64_t stride) {
  int64_t out = reach.axes.empty() ? 1 : INT64_MAX;
  for (const Reach::Axis& axis : reach.axes) out = std::min(out, value_of(axis.extent, params, stride));
  return out;
}

namespace {

// Whether positions choose among the elements of an axis, instead of all being read.
bool is_chosen_from(const Reach::Axis& axis, std::span<const Reach> reaches) {
  return axis.extent.kind == Reach::Number::param && std::ranges::any_of(reaches, [&](const Reach& reach) {
           return reach.positions && reach.positions->size.kind == Reach::Number::param &&
                  reach.positions->size.value == axis.extent.value;
         });
}

}  // namespace

double bytes_moved(std::span<const Reach> reaches, std::span<const int64_t> params, std::span<const int64_t> strides) {
  double out = 0;
  for (size_t i = 0; i < reaches.size(); ++i) {
    const auto chosen = [&](const Reach::Axis& axis) { return is_chosen_from(axis, reaches); };
    const bool any_chosen = std::ranges::any_of(reaches[i].axes, chosen);
    double bytes = static_cast<double>(reaches[i].item);
    for (const Reach::Axis& axis : reaches[i].axes) {
      const bool repeats = axis.stride && value_of(*axis.stride, params, strides[i]) == 0;
      if (any_chosen ? !chosen(axis) : !repeats)
        bytes *= static_cast<double>(std::max<int64_t>(0, value_of(axis.extent, params, strides[i])));
    }
    out += bytes;
  }
  return out;
}

}  // namespace qcg
