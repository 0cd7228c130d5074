#include "graph/ops/int4_packing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/ir/elements.h"

namespace qcg {

namespace {

constexpr int64_t kDa8w4Columns = 32;

// codes[n, k] = nibble at(n, k).
template <class At>
std::vector<uint8_t> unpack(std::span<const std::byte> bytes, int64_t n, int64_t k, At&& at) {
  std::vector<uint8_t> codes(static_cast<size_t>(n * k));
  size_t to = 0;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < k; ++i) {
      const int64_t nibble = at(row, i);
      codes[to++] = std::to_integer<uint8_t>(bytes[static_cast<size_t>(nibble / 2)] >> (nibble % 2 * 4)) & 15;
    }
  return codes;
}

// What the groups of a weight look like when it is read in some order.
struct Groups {
  std::vector<double> means;
  int64_t partial = 0;  // do not use both ends of the range
};

Groups look_at_groups(const std::vector<uint8_t>& codes, int64_t group) {
  Groups out;
  for (auto first = codes.begin(); first != codes.end(); first += group) {
    const auto last = first + group;
    out.means.push_back(std::accumulate(first, last, 0.0) / static_cast<double>(group));
    out.partial += std::find(first, last, 0) == last || std::find(first, last, 15) == last;
  }
  return out;
}

// How sure `b` lies closer to `zeros` than `a` does, in standard deviations; negative: the other way round.
double closeness(const Groups& a, const Groups& b, std::span<const double> zeros) {
  double sum = 0, squares = 0, count = 0;
  for (size_t i = 0; i < a.means.size(); ++i) {
    if (!std::isfinite(zeros[i])) continue;
    const double from_a = a.means[i] - zeros[i], from_b = b.means[i] - zeros[i],
                 difference = from_a * from_a - from_b * from_b;
    sum += difference, squares += difference * difference, ++count;
  }
  const double variance = squares - sum * sum / std::max(count, 1.0);
  return variance > 0 ? sum / std::sqrt(variance) : 0;
}

// 0..15 as [-8, 7].
Tensor signed_codes(std::vector<uint8_t> codes, int64_t n, int64_t k) {
  Elements<int8_t> out(std::in_place, codes.size());
  std::transform(codes.begin(), codes.end(), out->begin(), [](uint8_t code) { return static_cast<int8_t>(code - 8); });
  return make_tensor(DType::i8, {n, k}, out);
}

// [n / 32][groups][32] as [n, groups].
template <class T>
Tensor rows_of_panels(DType dtype, int64_t n, int64_t groups, const Elements<T>& panels) {
  Elements<T> out;
  if (panels) {
    out.emplace(panels->size());
    for (int64_t row = 0; row < n; ++row)
      for (int64_t g = 0; g < groups; ++g)
        (*out)[static_cast<size_t>(row * groups + g)] =
            (*panels)[static_cast<size_t>((row / kDa8w4Columns * groups + g) * kDa8w4Columns + row % kDa8w4Columns)];
  }
  return make_tensor(dtype, {n, groups}, out);
}

}  // namespace

namespace {

// The nibble of row `row`, column `i`.
int64_t cpu_nibble(int64_t n, int64_t k, int64_t row, int64_t i, Int4CpuOrder order) {
  const int64_t width = order == Int4CpuOrder::avx512 ? 64 : 32;
  const int64_t first = row / width * width, column = row - first, columns = std::min(width, n - first);
  const int64_t line = first * k + i * columns;
  return columns == width ? line + column % (width / 2) * 2 + column / (width / 2) : line + column;
}

// The codes of zero, 8 - offset / scale, by row and group.
std::vector<double> codes_of_zero(const Tensor& scales_and_zeros, int64_t rows) {
  const int64_t groups = scales_and_zeros.shape[0], n = scales_and_zeros.shape[1];
  const auto numbers = read_elements<double>(scales_and_zeros);
  std::vector<double> out;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t g = 0; g < groups; ++g) {
      const size_t at = static_cast<size_t>((g * n + row) * 2);
      out.push_back(8 - (*numbers)[at + 1] / (*numbers)[at]);
    }
  return out;
}

}  // namespace

std::vector<uint8_t> unpack_int4pack_cpu(std::span<const std::byte> bytes, int64_t n, int64_t k, Int4CpuOrder order) {
  return unpack(bytes, n, k, [=](int64_t row, int64_t i) { return cpu_nibble(n, k, row, i, order); });
}

std::vector<std::byte> pack_int4pack_cpu(std::span<const uint8_t> codes, int64_t n, int64_t k, Int4CpuOrder order) {
  std::vector<std::byte> bytes(static_cast<size_t>(n * k / 2));
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < k; ++i) {
      const int64_t nibble = cpu_nibble(n, k, row, i, order);
      bytes[static_cast<size_t>(nibble / 2)] |=
          static_cast<std::byte>(codes[static_cast<size_t>(row * k + i)] << (nibble % 2 * 4));
    }
  return bytes;
}

Int4Evidence find_cpu_order(const Tensor& packed, int64_t group, const Tensor& scales_and_zeros) {
  constexpr double kSure = 8;
  const int64_t k = packed.shape[1] * 2, rows = std::min(packed.shape[0], kOrderRows);
  const Tensor dense = packed.slice(0, 0, rows).contiguous();
  const auto bytes = dense.bytes().first(static_cast<size_t>(rows * k / 2));
  const Groups avx512 = look_at_groups(unpack_int4pack_cpu(bytes, rows, k, Int4CpuOrder::avx512), group);
  const Groups avx2 = look_at_groups(unpack_int4pack_cpu(bytes, rows, k, Int4CpuOrder::avx2), group);
  auto only_full = [](const Groups& a, const Groups& b) { return b.partial >= 16 && b.partial > 20 * a.partial; };
  const double closer = closeness(avx512, avx2, codes_of_zero(scales_and_zeros.slice(1, 0, rows), rows));
  if (only_full(avx2, avx512) || closer > kSure) return Int4Evidence::avx2;
  return only_full(avx512, avx2) || closer < -kSure ? Int4Evidence::avx512 : Int4Evidence::none;
}

std::vector<uint8_t> unpack_int4pack_cuda(std::span<const std::byte> bytes, int64_t n, int64_t k, int64_t tiles) {
  const int64_t outer = k / (16 * tiles);
  return unpack(bytes, n, k, [=](int64_t row, int64_t i) {
    const int64_t tile = i / 16, pair = i % 16 / 2;  // a lane holds pairs p and p + 4 of two neighbouring tiles
    const int64_t lane = row % 8 * 4 + pair % 4;
    const int64_t word = ((row / 8 * outer + tile / tiles) * 32 + lane) * (tiles / 2) + tile % tiles / 2;
    return word * 8 + pair / 4 + tile % 2 * 2 + i % 2 * 4;  // even k in the low four nibbles
  });
}

std::vector<uint8_t> unpack_da8w4(std::span<const std::byte> bytes, int64_t n, int64_t k, int64_t block,
                                  Da8w4Order order) {
  return unpack(bytes, n, k, [=](int64_t row, int64_t i) {
    const int64_t column = row % kDa8w4Columns, within = i % block;
    const int64_t base = (row / kDa8w4Columns * (k / block) + i / block) * block * kDa8w4Columns;
    if (order == Da8w4Order::pairs) return base + within * kDa8w4Columns + column;
    const int64_t byte = (column / 16 * 8 + column % 8) * 4 + within / 4 * 4 * 16 + within % 4;
    return base + byte * 2 + column % 16 / 8;
  });
}

std::optional<Da8w4Order> find_da8w4_order(std::span<const std::byte> bytes, int64_t n, int64_t k, int64_t block,
                                           std::span<const int32_t> zeros, std::span<const int32_t> compensation) {
  const int64_t blocks = k / block, groups = static_cast<int64_t>(zeros.size()) / n, blocks_per_group = blocks / groups;
  for (Da8w4Order order : {Da8w4Order::vnni, Da8w4Order::pairs}) {
    const std::vector<uint8_t> codes = unpack_da8w4(bytes, n, k, block, order);
    bool fits = true;
    for (int64_t row = 0; row < n && fits; ++row)
      for (int64_t b = 0; b < blocks && fits; ++b) {
        const int64_t panel = row / kDa8w4Columns, column = row % kDa8w4Columns;
        const int32_t zero =
            zeros[static_cast<size_t>((panel * groups + b / blocks_per_group) * kDa8w4Columns + column)];
        int64_t sum = -block * int64_t{zero};
        for (int64_t i = 0; i < block; ++i) sum += codes[static_cast<size_t>(row * k + b * block + i)];
        fits = sum == compensation[static_cast<size_t>((panel * blocks + b) * kDa8w4Columns + column)];
      }
    if (fits) return order;
  }
  return std::nullopt;
}

Int4Weight read_int4pack(const Tensor& packed, int64_t group, const Tensor& scales_and_zeros) {
  const bool cuda = packed.shape.size() == 4;
  const int64_t tiles = cuda ? packed.shape[3] * 2 : 0;
  const int64_t n = cuda ? packed.shape[0] * 8 : packed.shape[0],
                k = cuda ? packed.shape[1] * 16 * tiles : packed.shape[1] * 2;
  auto half = [&](int64_t which) {
    Tensor t = scales_and_zeros.slice(2, which, which + 1).transpose(0, 1);
    t.shape.pop_back();
    t.strides.pop_back();
    return t;
  };
  Int4Weight w;
  w.group = group >= k ? 0 : group;
  w.scales = half(0), w.offsets = half(1);
  w.codes = make_tensor<int8_t>(DType::i8, {n, k}, std::nullopt);
  if (!packed.bound()) return w;
  const Tensor dense = packed.contiguous();
  const auto bytes = dense.bytes();
  w.codes = signed_codes(
      cuda ? unpack_int4pack_cuda(bytes, n, k, tiles) : unpack_int4pack_cpu(bytes, n, k, Int4CpuOrder::avx512), n, k);
  return w;
}

std::optional<Int4Weight> read_da8w4(const Tensor& packed, const Tensor& scales, const Tensor& zeros,
                                     const Tensor& compensation) {
  const int64_t n = packed.shape[0] * kDa8w4Columns, block = packed.shape[2], k = packed.shape[1] * block,
                groups = scales.shape[1];
  Int4Weight w;
  w.group = groups == 1 ? 0 : k / groups;
  w.codes = make_tensor<int8_t>(DType::i8, {n, k}, std::nullopt);
  auto whole_zeros = read_elements<int32_t>(zeros);
  const auto sums = read_elements<int32_t>(compensation);
  if (packed.bound() && whole_zeros && sums) {
    const Tensor dense = packed.contiguous();
    const auto order = find_da8w4_order(dense.bytes(), n, k, block, *whole_zeros, *sums);
    if (!order) return std::nullopt;
    w.codes = signed_codes(unpack_da8w4(dense.bytes(), n, k, block, *order), n, k);
  }
  if (whole_zeros)
    for (int32_t& zero : *whole_zeros) zero -= 8;
  w.scales = rows_of_panels(DType::f32, n, groups, read_elements<float>(scales));
  w.zeros = rows_of_panels(DType::i32, n, groups, whole_zeros);
  return w;
}

}  // namespace qcg
