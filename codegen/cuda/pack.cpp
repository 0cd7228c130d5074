// Packs weights into the layout of layout.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/layout.h"

namespace qcg {
namespace {

class CudaPacker {
 public:
  CudaPacker(const Problem& problem, std::span<std::byte> out)
      : p_(problem), layout_(cuda_layout(problem)), out_(out) {}

  Status run(const std::vector<SegmentTensors>& tensors) {
    QCG_CHECK(check_integer_range(p_));
    if (static_cast<int64_t>(out_.size()) != layout_.bytes || tensors.size() != p_.segments.size())
      return Error::internal("pack_weights_cuda", "buffer or tensors do not fit the problem");
    std::memset(out_.data(), 0, out_.size());
    for (size_t j = 0; j < tensors.size(); ++j) {
      QCG_CHECK(check(p_.segments[j], tensors[j]));
      QCG_CHECK(pack_codes(p_.segments[j], tensors[j].weight, layout_.segments[j].weight));
      QCG_CHECK(pack_parameters(p_.segments[j], tensors[j], layout_.segments[j]));
    }
    return {};
  }

 private:
  Status check(const Segment& s, const SegmentTensors& t) const {
    auto fits = [&](const Tensor& tensor, std::string_view what, int64_t columns) -> Status {
      const bool vector = tensor.shape == std::vector<int64_t>{s.n} && columns == 1;
      if (tensor.bound() && (vector || tensor.shape == std::vector<int64_t>{s.n, columns})) return {};
      return Error::bad_input(fmt::format("{} of '{}'", what, s.name), fmt::format("it is not [{}, {}]", s.n, columns),
                              "give the linear weights of matching shapes");
    };
    QCG_CHECK(fits(t.weight, "weight", p_.k));
    if (t.weight.shape.size() != 2 || t.weight.dtype != p_.weight)
      return Error::bad_input(fmt::format("weight of '{}'", s.name),
                              fmt::format("it is not {} [{}, {}]", dtype_name(p_.weight), s.n, p_.k),
                              "give the linear weights of matching shapes");
    if (scheme_info(p_.scheme).has_scales) QCG_CHECK(fits(t.scales, "scales", p_.groups()));
    if (s.has_zero) QCG_CHECK(fits(t.zeros, "zero points", p_.groups()));
    if (s.has_offset) QCG_CHECK(fits(t.offsets, "offsets", p_.groups()));
    if (s.has_bias) QCG_CHECK(fits(t.bias, "bias", 1));
    return {};
  }

  static const std::byte* at(const Tensor& t, int64_t n, int64_t g) {
    const int64_t index[2] = {n, g};
    return t.element(std::span<const int64_t>(index, t.shape.size()));
  }
  static double value(const Tensor& t, int64_t n, int64_t g) { return element_to_double(t.dtype, at(t, n, g)); }

  // Bits of a weight as the layout holds them; error: no weight of the scheme.
  Status code_of(const Segment& s, const std::byte* weight, int64_t n, int64_t k, uint32_t& code) const {
    const WeightInfo& info = scheme_info(p_.scheme).weight;
    if (layout_.form->bits >= 16) {
      std::memcpy(&code, weight, static_cast<size_t>(layout_.form->bits / 8));
      return {};
    }
    const int8_t q = std::to_integer<int8_t>(*weight);
    code = static_cast<uint8_t>(q);
    const auto where = [&] { return fmt::format("weight of '{}' [{}, {}]", s.name, n, k); };  // rarely: it takes time
    if (p_.weight == DType::f8e5m2 && (code & 0x7f) == 0x7c)
      return Error::unsupported(where(), "an infinite weight", "CUDA kernels multiply finite weights");
    if (layout_.form->bits != 4) return {};
    if (!holds(info, q))
      return Error::bad_input(where(), fmt::format("{} does not fit in {} bits", q, info.bits),
                              fmt::format("use weights of the scheme {}", scheme_name(p_.scheme)));
    if (info.numbers)
      code = static_cast<uint32_t>(std::find(info.numbers->begin(), info.numbers->end(), q) - info.numbers->begin());
    else code = static_cast<uint32_t>(layout_.form->is_integer() ? q & 15 : q - info.low);
    return {};
  }

  // Where element (n, k) of a segment begins, in bits.
  int64_t bit_of(int64_t n, int64_t k) const {
    const CudaForm& form = *layout_.form;
    if (layout_.in_rows) {
      const int64_t size = form.bits / 8, byte = k % form.stage_k() * size, chunk = byte / 16 ^ n % 8;
      return (n / 16 * layout_.tile_bytes() + k / form.stage_k() * 2048 + n % 16 * 128 + chunk * 16 + byte % 16) * 8;
    }
    const int64_t bits = form.bits, elements = form.mma_k / 8;  // of a register
    const int64_t q = k % (4 * elements) / elements, e = k % elements, i = n / 8 % 2 + k / (4 * elements) % 2 * 2;
    const int64_t lane = 4 * (n % 8) + q,
                  before = k / form.mma_k * 32 * form.words();  // bits of the lane's products before
    int64_t at = 0;
    if (bits >= 16) at = (2 * i + e) * bits;
    else if (form.is_integer())
      at = bits == 8 ? i * 32 + e * 8 : form.raised > 0 ? i / 2 * 32 + e * 8 + i % 2 * 4 : i * 16 + e * 4;
    else at = bits == 8 ? i / 2 * 32 + (i % 2 + 2 * e) * 8 : (i + 4 * e) * 4;
    at += before;
    return n / 16 * layout_.tile_bytes() * 8 + (at / 128 * 32 + lane) * 128 + at % 128;
  }

  Status pack_codes(const Segment& s, const Tensor& weight, int64_t begin) {
    const int bits = layout_.form->bits;
    const auto size = static_cast<int64_t>(dtype_bytes(weight.dtype));
    const std::byte* const base = weight.storage->bytes.data() + weight.offset * size;
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t k = 0; k < p_.k; ++k) {
        uint32_t code = 0;
        QCG_CHECK(code_of(s, base + (n * weight.strides[0] + k * weight.strides[1]) * size, n, k, code));
        const int64_t bit = bit_of(n, layout_.packed_k(k));
        std::byte* to = out_.data() + begin + bit / 8;
        if (bits == 4) *to |= std::byte(code << (bit % 8));
        else std::memcpy(to, &code, static_cast<size_t>(bits / 8));
      }
    return {};
  }

  // A NaN among 8-bit floats would be unpacked as a number: its whole column is NaN, and so is every sum with it.
  double scale_of(const SegmentTensors& t, int64_t n, int64_t g) const {
    if (layout_.form->parts > 1 && p_.activation == DType::f16) return value(t.scales, n, g) / 1024;
    if (p_.weight == DType::f8e4m3 || p_.weight == DType::f8e5m2)
      for (int64_t k = g * p_.group; k < (p_.group ? std::min(p_.k, (g + 1) * p_.group) : p_.k); ++k)
        if (std::isnan(value(t.weight, n, k))) return std::nan("");
    return value(t.scales, n, g);
  }

  void put(int64_t begin, int64_t index, int32_t v) { std::memcpy(out_.data() + begin + index * 4, &v, 4); }

  int32_t correction(const SegmentTensors& t, int64_t n, int64_t g, int32_t zero) const {
    int32_t sum = 0;
    for (int64_t k = g * p_.group; k < (p_.group ? std::min(p_.k, (g + 1) * p_.group) : p_.k); ++k)
      sum += std::to_integer<int8_t>(*at(t.weight, n, k)) - zero;
    return sum;
  }

  Status pack_parameters(const Segment& s, const SegmentTensors& t, const CudaSegment& place) {
    const auto scale_bytes = static_cast<int64_t>(dtype_bytes(layout_.scale));
    for (int64_t n = 0; n < s.n; ++n) {
      double corrections = 0;  // of all groups, times their scales
      for (int64_t g = 0; g < p_.groups(); ++g) {
        const int64_t to = layout_.parameter(n, g);
        if (scheme_info(p_.scheme).has_scales)
          double_to_element(layout_.scale, scale_of(t, n, g),
                            out_.data() + place.scale + (layout_.group ? to : n) * scale_bytes);
        if (s.has_offset)
          double_to_element(layout_.scale, value(t.offsets, n, g), out_.data() + place.offset + to * scale_bytes);
        const double zero = s.has_zero ? value(t.zeros, n, g) : 0;
        if (std::nearbyint(zero) != zero || std::fabs(zero) > 128)  // so that weights minus it are bf16 numbers
          return Error::unsupported(fmt::format("zero point of '{}' [{}, {}]", s.name, n, g),
                                    fmt::format("{} is not an integer from -128 to 128", zero),
                                    "compile for --target=cpu");
        if (s.has_zero && layout_.form->is_integer()) put(place.zero, to, static_cast<int32_t>(zero));
        else if (s.has_zero) double_to_element(unpacked_dtype(p_), zero, out_.data() + place.zero + to * 2);
        if (layout_.by_column) corrections += value(t.scales, n, g) * correction(t, n, g, 0);
        else if (p_.x_has_zero)
          put(place.correction, layout_.group ? to : n, correction(t, n, g, static_cast<int32_t>(zero)));
      }
      if (layout_.by_column) double_to_element(DType::f32, corrections, out_.data() + place.correction + n * 4);
      if (s.has_bias) double_to_element(DType::f32, value(t.bias, n, 0), out_.data() + place.bias + n * 4);
    }
    return {};
  }

  const Problem& p_;
  CudaLayout layout_;
  std::span<std::byte> out_;
};

}  // namespace

int64_t packed_bytes_cuda(const Problem& problem, const PackedLayout&) {
  return cuda_form(problem) ? cuda_layout(problem).bytes : 0;
}

Status pack_weights_cuda(const Problem& problem, const PackedLayout&, const std::vector<SegmentTensors>& tensors,
                         std::span<std::byte> out) {
  return CudaPacker(problem, out).run(tensors);
}

}  // namespace qcg
