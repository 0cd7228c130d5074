// Packs weights into the layout of layout.h.
#include "codegen/gemm/pack.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/gemm/layout.h"
#include "codegen/gemm/problem.h"

namespace qcg {
namespace {

// A view of one [n, k] weight: element (n, k) is base[n * row + k * column], in elements of `bytes` bytes.
struct WeightView {
  const std::byte* base;
  int64_t row, column;
  DType dtype;
};

std::string place(const Segment& segment, int64_t n, int64_t k) {
  return fmt::format("weight of '{}' [{}, {}]", segment.name, n, k);
}

Status check_shape(const Tensor& t, int64_t rows, int64_t columns, const Segment& segment, std::string_view what) {
  const bool vector = t.shape.size() == 1 && t.shape[0] == rows && columns == 1;
  const bool matrix = t.shape.size() == 2 && t.shape[0] == rows && t.shape[1] == columns;
  if (t.bound() && (vector || matrix)) return {};
  return Error::bad_input(fmt::format("{} of '{}'", what, segment.name),
                          t.bound() ? fmt::format("its shape is not [{}, {}]", rows, columns) : "it has no data",
                          "give the linear weights of matching shapes");
}

const std::byte* at(const Tensor& t, int64_t n, int64_t g) {
  const int64_t index[2] = {n, g};
  return t.element(std::span<const int64_t>(index, t.shape.size()));
}

// Writes the integers or floats of one step: columns [n0, n0 + nr) and k_step values of k from k0; beyond `k_end`
// zeros.
struct StepWriter {
  const PanelLayout& p;
  const WeightInfo& info;
  WeightView w;
  int64_t columns;  // of the panel that exist

  template <class T>
  void copy(std::byte* out, int64_t n0, int64_t k0, int64_t k_end, unsigned flip = 0) const {
    const int step = p.kind->k_step;
    const int count = int(std::min<int64_t>(step, k_end - k0));
    for (int64_t c = 0; c < p.nr; ++c) {
      T values[8];
      for (int i = 0; i < step; ++i) values[i] = T(flip);
      if (c < columns) {
        const T* from = reinterpret_cast<const T*>(w.base) + (n0 + c) * w.row + k0 * w.column;
        for (int i = 0; i < count; ++i) values[i] = T(from[i * w.column] ^ T(flip));
      }
      const int64_t side = p.kind->columns, run = side > 1 ? p.kind->run : step;
      for (int64_t i = 0; i < step; i += run)
        std::memcpy(out + (c / side * side * step + i * side + c % side * run) * int64_t(sizeof(T)), values + i,
                    sizeof(T) * size_t(run));
    }
  }

  void write(std::byte* out, int64_t n0, int64_t k0, int64_t k_end) const {
    if (p.kind->bits < 8) return write_codes(out, n0, k0, k_end);
    if (p.kind->bits == 32) return copy<uint32_t>(out, n0, k0, k_end);
    if (p.kind->bits == 16) return copy<uint16_t>(out, n0, k0, k_end);
    copy<uint8_t>(out, n0, k0, k_end, unsigned(p.kind->raised));
  }

  // What this layout holds for a weight that check_codes has passed.
  uint32_t code_of(int8_t weight) const {
    if (const auto* numbers = info.numbers)
      return uint32_t(std::find(numbers->begin(), numbers->end(), weight) - numbers->begin());
    return uint32_t(weight + p.kind->raised) & ((1u << p.kind->bits) - 1);
  }

  // Eight codes of a column follow each other from the lowest bit on, in the order k = 0 4 1 5 2 6 3 7: as many bytes
  // as a code has bits, side by side or between those of other columns.
  void write_codes(std::byte* out, int64_t n0, int64_t k0, int64_t k_end) const {
    const int64_t count = std::min<int64_t>(8, k_end - k0);
    for (int64_t c = 0; c < p.nr; ++c) {
      uint32_t codes = 0;
      const auto* from = reinterpret_cast<const int8_t*>(w.base) + (n0 + c) * w.row + k0 * w.column;
      for (int i = 0; i < 8 && c < columns; ++i)
        if (const int64_t k = i / 2 + 4 * (i % 2); k < count)
          codes |= code_of(from[k * w.column]) << (i * p.kind->bits);
      const int64_t side = p.kind->columns, first = c / side * side * p.kind->bits + c % side;
      for (int j = 0; j < p.kind->bits; ++j) out[first + j * side] = std::byte(codes >> (8 * j));
    }
  }
};

std::string describe_weights(const WeightInfo& info) {
  if (!info.numbers) return fmt::format("whole numbers from {} to {}", info.low, info.high);
  return fmt::format("one of {}", fmt::join(*info.numbers, " "));
}

Status check_codes(const Tensor& w, const Segment& segment, int64_t k, Scheme scheme) {
  const WeightInfo& info = scheme_info(scheme).weight;
  const auto* base = reinterpret_cast<const int8_t*>(w.storage->bytes.data()) + w.offset;
  for (int64_t n = 0; n < segment.n; ++n)
    for (int64_t i = 0; i < k; ++i) {
      const int q = base[n * w.strides[0] + i * w.strides[1]];
      if (!holds(info, q))
        return Error::bad_input(place(segment, n, i), fmt::format("{} does not fit in {} bits", q, info.bits),
                                fmt::format("{} weights are {}", scheme_name(scheme), describe_weights(info)));
    }
  return {};
}

Status read_zero(const Tensor& zeros, const Segment& segment, int64_t n, int64_t g, ZeroRange range, int64_t& out) {
  const double v = element_to_double(zeros.dtype, at(zeros, n, g));
  if (std::nearbyint(v) != v || v < double(range.low) || v > double(range.high))
    return Error::bad_input(fmt::format("zero point of '{}' [{}, {}]", segment.name, n, g),
                            fmt::format("{} is not an integer from {} to {}", v, range.low, range.high),
                            "only integer zero points are supported");
  out = int64_t(v);
  return {};
}

class Packer {
 public:
  Packer(const Problem& problem, const PackedLayout& layout) : problem_(problem), p_(panel_layout(problem, layout)) {}

  Status run(const std::vector<SegmentTensors>& tensors, std::span<std::byte> out) {
    QCG_CHECK(check_integer_range(problem_));
    if (int64_t(out.size()) != p_.bytes)
      return Error::internal("pack_weights", fmt::format("{} bytes given for {}", out.size(), p_.bytes));
    if (tensors.size() != problem_.segments.size())
      return Error::internal("pack_weights", "segments and tensors differ in number");
    std::memset(out.data(), 0, out.size());
    for (const Strip& strip : p_.strips) {
      for (size_t j = 0; j < strip.segments.size(); ++j) {
        const auto s = size_t(strip.segments[j]);
        QCG_CHECK(check(problem_.segments[s], tensors[s]));
        for (int64_t panel = 0; panel < strip.panels; ++panel) {
          std::byte* to = out.data() + strip.at + panel * strip.panel_bytes + int64_t(j) * p_.segment_bytes;
          QCG_CHECK(pack_panel(problem_.segments[s], tensors[s], panel * p_.nr, to));
        }
      }
    }
    return {};
  }

 private:
  Status check(const Segment& segment, const SegmentTensors& t) const {
    QCG_CHECK(check_shape(t.weight, segment.n, problem_.k, segment, "weight"));
    if (t.weight.dtype != problem_.weight)
      return Error::bad_input("weight of '" + segment.name + "'", "its dtype is not the problem's",
                              "this is a bug in the plan");
    if (scheme_info(problem_.scheme).has_scales)
      QCG_CHECK(check_shape(t.scales, segment.n, p_.groups, segment, "scales"));
    if (segment.has_zero) QCG_CHECK(check_shape(t.zeros, segment.n, p_.groups, segment, "zero points"));
    if (segment.has_bias) QCG_CHECK(check_shape(t.bias, segment.n, 1, segment, "bias"));
    if (segment.has_offset) QCG_CHECK(check_shape(t.offsets, segment.n, p_.groups, segment, "offsets"));
    if (p_.kind->bits < 8) QCG_CHECK(check_codes(t.weight, segment, problem_.k, problem_.scheme));
    return {};
  }

  Status pack_panel(const Segment& segment, const SegmentTensors& t, int64_t n0, std::byte* out) const {
    const WeightView view{t.weight.storage->bytes.data() + t.weight.offset * int64_t(dtype_bytes(t.weight.dtype)),
                          t.weight.strides[0], t.weight.strides[1], t.weight.dtype};
    const int64_t columns = std::min<int64_t>(p_.nr, segment.n - n0);
    const StepWriter writer{p_, scheme_info(problem_.scheme).weight, view, columns};
    for (int64_t g = 0; g < p_.groups; ++g) {
      std::byte* group = out + p_.group_at(g);
      if (p_.grouped) QCG_CHECK(pack_header(segment, t, n0, columns, g, view, group));
      const int64_t k0 = g * p_.group, k_end = std::min(problem_.k, k0 + p_.group);
      std::byte* to = group + p_.header_bytes;
      for (int64_t k = 0; k < p_.group_k(g); k += p_.kind->k_step, to += p_.step_bytes())
        writer.write(to, n0, k0 + k, std::max(k_end, k0 + k));
    }
    return pack_parameters(segment, t, n0, columns, view, out);
  }

  Status pack_header(const Segment& segment, const SegmentTensors& t, int64_t n0, int64_t columns, int64_t g,
                     const WeightView& w, std::byte* out) const {
    const int64_t scale_bytes = int64_t(dtype_bytes(problem_.scale)), k0 = g * p_.group,
                  k1 = std::min(problem_.k, k0 + p_.group);
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t n = n0 + c;
      double_to_element(problem_.scale, scale_of(t, n, g, w, k0, k1), out + c * scale_bytes);
      if (segment.has_offset)
        double_to_element(problem_.scale, element_to_double(t.offsets.dtype, at(t.offsets, n, g)),
                          out + p_.offsets_in_header + c * scale_bytes);
      int64_t zero = 0;
      if (segment.has_zero) QCG_CHECK(read_zero(t.zeros, segment, n, g, zero_range(true, is_integer(problem_)), zero));
      if (!is_integer(problem_)) {
        if (p_.has_zero) out[p_.zeros_in_header + c] = std::byte(int8_t(zero));
        continue;
      }
      const int64_t sum = p_.corrections < Corrections::sums ? 0 : sum_weights(w, n, k0, k1) - (k1 - k0) * zero,
                    above = zero + p_.kind->raised;
      put_corrections(out + p_.offsets_in_header, c, sum, above);
    }
    return {};
  }

  void put_corrections(std::byte* out, int64_t c, int64_t sum, int64_t above) const {
    if (p_.corrections == Corrections::sums) {
      const auto narrow = int16_t(sum);
      std::memcpy(out + c * 2, &narrow, 2);
    }
    if (p_.corrections == Corrections::pairs) {
      const int16_t pair[2] = {int16_t(sum), int16_t(above)};
      std::memcpy(out + c * 4, pair, 4);
    }
    if (p_.corrections == Corrections::wide) {
      const int32_t wide[2] = {int32_t(sum), int32_t(above)};
      std::memcpy(out + c * 4, &wide[0], 4);
      std::memcpy(out + (p_.nr + c) * 4, &wide[1], 4);
    }
  }

  // A NaN among e4m3 weights would be unpacked as a number: its whole column is NaN, and so is every sum with it.
  double scale_of(const SegmentTensors& t, int64_t n, int64_t g, const WeightView& w, int64_t k0, int64_t k1) const {
    if (w.dtype == DType::f8e4m3)
      for (int64_t k = k0; k < k1; ++k)
        if ((uint8_t(w.base[n * w.row + k * w.column]) & 127) == 127) return std::nan("");
    return element_to_double(t.scales.dtype, at(t.scales, n, g));
  }

  static int64_t sum_weights(const WeightView& w, int64_t n, int64_t k0, int64_t k1) {
    const auto* row = reinterpret_cast<const int8_t*>(w.base) + n * w.row;
    int64_t sum = 0;
    for (int64_t k = k0; k < k1; ++k) sum += row[k * w.column];
    return sum;
  }

  // sum_k scale * weight of column n.
  double scaled_sum(const SegmentTensors& t, int64_t n, const WeightView& w) const {
    double sum = 0;
    for (int64_t g = 0; g < p_.groups; ++g) {
      const int64_t k0 = g * p_.group, k1 = std::min(problem_.k, k0 + p_.group);
      sum += scale_of(t, n, g, w, k0, k1) * double(sum_weights(w, n, k0, k1));
    }
    return sum;
  }

  Status pack_parameters(const Segment& segment, const SegmentTensors& t, int64_t n0, int64_t columns,
                         const WeightView& w, std::byte* out) const {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t n = n0 + c;
      auto put = [&](int64_t where, auto v) { std::memcpy(out + where + c * 4, &v, 4); };
      if (segment.has_bias) put(p_.bias_at, float(element_to_double(t.bias.dtype, at(t.bias, n, 0))));
      if (p_.zeros_by_column) put(p_.column_sum_at, float(scaled_sum(t, n, w)));
      if (p_.grouped) continue;
      int64_t zero = 0;
      if (segment.has_zero) QCG_CHECK(read_zero(t.zeros, segment, n, 0, zero_range(false, is_integer(problem_)), zero));
      if (scheme_info(problem_.scheme).has_scales) put(p_.scale_at, float(scale_of(t, n, 0, w, 0, problem_.k)));
      put(p_.zero_at, float(zero));
      put(p_.offset_at, int32_t(zero + p_.kind->raised));
      if (is_integer(problem_)) put(p_.column_sum_at, int32_t(sum_weights(w, n, 0, problem_.k) - problem_.k * zero));
    }
    return {};
  }

  const Problem& problem_;
  PanelLayout p_;
};

}  // namespace

int64_t packed_bytes(const Problem& problem, const PackedLayout& layout) { return panel_layout(problem, layout).bytes; }

Status pack_weights(const Problem& problem, const PackedLayout& layout, const std::vector<SegmentTensors>& tensors,
                    std::span<std::byte> out) {
  return Packer(problem, layout).run(tensors, out);
}

Status pack_segment(const Problem& problem, const PackedLayout& layout, const SegmentTensors& tensors,
                    const Problem& whole, const PackedLayout& whole_layout, std::span<const std::byte> packed,
                    int segment, std::span<std::byte> out) {
  if (layout != whole_layout) return pack_weights(problem, layout, {tensors}, out);
  const PanelLayout to = panel_layout(problem, layout), from = panel_layout(whole, whole_layout);
  if (!same_segments(to, from)) return pack_weights(problem, layout, {tensors}, out);
  for (const Strip& strip : from.strips) {
    const int64_t place = std::ranges::find(strip.segments, segment) - strip.segments.begin();
    if (place == std::ssize(strip.segments)) continue;
    const std::byte* panel = packed.data() + strip.at + place * from.segment_bytes;
    for (int64_t p = 0; p < to.strips[0].panels; ++p, panel += strip.panel_bytes)
      std::memcpy(out.data() + p * to.segment_bytes, panel, static_cast<size_t>(to.segment_bytes));
  }
  std::memset(out.data() + to.bytes - kTrailingBytes, 0, kTrailingBytes);
  return {};
}

}  // namespace qcg
