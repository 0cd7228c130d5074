#include "graph/ir/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "graph/ir/float_format.h"

namespace qcg {
namespace {

std::shared_ptr<const Storage> own(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return std::make_shared<const Storage>(Storage{std::span<const std::byte>(*owner), owner});
}

// The strides under which `shape` reads the elements of a strided tensor in row-major order, if there are any: each
// group of old axes that can be walked with one stride is cut into new axes.
std::optional<std::vector<int64_t>> view_strides(const Tensor& t, const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  if (t.is_contiguous()) return Tensor::row_major_strides(shape);
  size_t next = shape.size();
  int64_t chunk = 1;                // elements in the current group of old axes
  int64_t taken = 1;                // of which new axes cover so many
  int64_t base = t.strides.back();  // a tensor without axes is contiguous
  for (size_t axis = t.shape.size(); axis-- > 0;) {
    chunk *= t.shape[axis];
    bool group_ends = axis == 0 || (t.shape[axis - 1] != 1 && t.strides[axis - 1] != chunk * base);
    if (!group_ends) continue;
    while (next > 0 && (taken < chunk || shape[next - 1] == 1)) {
      strides[--next] = taken * base;
      taken *= shape[next];
    }
    if (taken != chunk) return std::nullopt;
    if (axis > 0) {
      base = t.strides[axis - 1];
      chunk = taken = 1;
    }
  }
  return next == 0 ? std::optional(strides) : std::nullopt;
}

// Copies the view row by row into dense bytes.
void copy_dense(const Tensor& t, size_t axis, const std::byte* from, std::byte*& to) {
  size_t size = dtype_bytes(t.dtype);
  if (axis == t.shape.size()) {
    std::memcpy(to, from, size);
    to += size;
    return;
  }
  if (axis + 1 == t.shape.size() && t.strides[axis] == 1) {
    std::memcpy(to, from, size * t.shape[axis]);
    to += size * t.shape[axis];
    return;
  }
  for (int64_t i = 0; i < t.shape[axis]; ++i)
    copy_dense(t, axis + 1, from + i * t.strides[axis] * static_cast<int64_t>(size), to);
}

constexpr FloatFormat kF16 = *float_format(DType::f16);
constexpr FloatFormat kBf16 = *float_format(DType::bf16);
constexpr FloatFormat kF8e4m3 = *float_format(DType::f8e4m3);
constexpr FloatFormat kF8e5m2 = *float_format(DType::f8e5m2);

// Rounds once, from double, to nearest even; scaling by powers of two around nearbyint is exact.
double round_to_format(const FloatFormat& f, double v) {
  if (v == 0 || std::isnan(v)) return v;
  if (std::isinf(v)) return f.has_infinity ? v : std::copysign(f.max_finite(), v);
  int exponent;
  std::frexp(v, &exponent);
  int quantum = std::max(exponent - 1, f.min_exponent()) - f.mantissa_bits;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(v, -quantum)), quantum);
  if (std::abs(rounded) <= f.max_finite()) return rounded;
  return std::copysign(f.has_infinity ? std::numeric_limits<double>::infinity() : f.max_finite(), v);
}

uint32_t encode(const FloatFormat& f, double v) {
  uint32_t sign = std::signbit(v) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
  uint32_t top = (1u << f.exponent_bits) - 1;
  if (std::isnan(v))
    return sign | (top << f.mantissa_bits) |
           (f.has_infinity ? 1u << (f.mantissa_bits - 1) : (1u << f.mantissa_bits) - 1);
  double r = std::abs(round_to_format(f, v));
  if (std::isinf(r)) return sign | (top << f.mantissa_bits);
  if (r < std::ldexp(1.0, f.min_exponent()))  // subnormal or zero
    return sign | static_cast<uint32_t>(std::ldexp(r, f.mantissa_bits - f.min_exponent()));
  int exponent;
  double fraction = std::frexp(r, &exponent) * 2 - 1;
  return sign | (static_cast<uint32_t>(exponent - 1 + f.bias()) << f.mantissa_bits) |
         static_cast<uint32_t>(std::ldexp(fraction, f.mantissa_bits));
}

// The same where the result is a normal number, which is nearly always and worth being quick about.
uint16_t encode_bf16(double v) {
  constexpr int kDropped = 52 - 7, kRebias = 1023 - 127;
  const uint64_t bits = std::bit_cast<uint64_t>(v), magnitude = bits & (UINT64_MAX >> 1);
  const auto exponent = static_cast<int>(magnitude >> 52) - kRebias;
  if (exponent < 1 || exponent > 253) return static_cast<uint16_t>(encode(kBf16, v));
  const uint64_t rebiased = magnitude - (uint64_t{kRebias} << 52);
  const uint64_t rounded = rebiased + (uint64_t{1} << (kDropped - 1)) - 1 + (rebiased >> kDropped & 1);
  return static_cast<uint16_t>((bits >> 63 << 15) | (rounded >> kDropped));
}

double decode(const FloatFormat& f, uint32_t bits) {
  uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
  uint32_t exponent = (bits >> f.mantissa_bits) & ((1u << f.exponent_bits) - 1);
  uint32_t top = (1u << f.exponent_bits) - 1;
  double sign = (bits >> (f.exponent_bits + f.mantissa_bits)) & 1 ? -1 : 1;
  if (exponent == top && f.has_infinity)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == top && mantissa == (1u << f.mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, f.min_exponent() - f.mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << f.mantissa_bits), static_cast<int>(exponent) - f.bias() - f.mantissa_bits);
}

// f8e8m0 is a bare exponent, 2^(bits - 127), 255 = NaN; torch rounds the magnitude to the nearer power, ties up.
uint8_t encode_e8m0(double v) {
  if (!std::isfinite(v)) return 255;
  if (v == 0) return 0;
  int exponent;
  double fraction = std::frexp(std::abs(v), &exponent);
  int bits = exponent - 1 + (fraction >= 0.75 ? 1 : 0) + 127;
  return static_cast<uint8_t>(std::clamp(bits, 0, 255));
}
double decode_e8m0(uint8_t bits) {
  return bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127);
}

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void store(std::byte* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

}  // namespace

int64_t Tensor::numel() const {
  int64_t n = 1;
  bool overflow = false;
  for (int64_t size : shape) {
    if (size == 0) return 0;
    overflow |= __builtin_mul_overflow(n, size, &n);
  }
  return overflow ? INT64_MAX : n;
}

bool Tensor::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

bool Tensor::in_bounds() const {
  if (!bound() || strides.size() != shape.size() || offset < 0) return false;
  __int128 last = offset;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 0 || strides[axis] < 0) return false;
    if (shape[axis] > 0) last += static_cast<__int128>(shape[axis] - 1) * strides[axis];
    if (last > INT64_MAX) return false;
  }
  if (numel() == 0) return true;
  return (last + 1) * static_cast<__int128>(dtype_bytes(dtype)) <= static_cast<__int128>(storage->bytes.size());
}

const std::byte* Tensor::element(std::span<const int64_t> index) const {
  int64_t at = offset;
  for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * strides[axis];
  return storage->bytes.data() + at * static_cast<int64_t>(dtype_bytes(dtype));
}

Tensor Tensor::transpose(size_t a, size_t b) const {
  Tensor t = *this;
  std::swap(t.shape[a], t.shape[b]);
  std::swap(t.strides[a], t.strides[b]);
  return t;
}

Tensor Tensor::permute(std::span<const size_t> order) const {
  Tensor t = *this;
  for (size_t i = 0; i < order.size(); ++i) {
    t.shape[i] = shape[order[i]];
    t.strides[i] = strides[order[i]];
  }
  return t;
}

Tensor Tensor::slice(size_t axis, int64_t begin, int64_t end, int64_t step) const {
  Tensor t = *this;
  t.shape[axis] = end > begin ? (end - begin - 1) / step + 1 : 0;
  if (t.shape[axis] > 0) t.offset += begin * strides[axis];  // an empty view must not point past its storage
  t.strides[axis] *= step;
  return t;
}

Tensor Tensor::select(size_t axis, int64_t index) const {
  Tensor out = slice(axis, index, index + 1);
  out.shape.erase(out.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  out.strides.erase(out.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  return out;
}

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  std::vector<std::byte> dense(numel() * dtype_bytes(dtype));
  std::byte* to = dense.data();
  copy_dense(*this, 0, storage->bytes.data() + offset * static_cast<int64_t>(dtype_bytes(dtype)), to);
  return from_bytes(dtype, shape, std::move(dense));
}

Tensor Tensor::reshape(std::vector<int64_t> new_shape) const {
  auto strided = view_strides(*this, new_shape);
  Tensor t = strided || !bound() ? *this : contiguous();
  t.strides = strided ? *strided : row_major_strides(new_shape);
  t.shape = std::move(new_shape);
  return t;
}

std::span<const std::byte> Tensor::bytes() const {
  if (numel() == 0) return {};
  return storage->bytes.subspan(offset * dtype_bytes(dtype), numel() * dtype_bytes(dtype));
}

std::vector<int64_t> Tensor::row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    if (__builtin_mul_overflow(strides[axis], std::max<int64_t>(shape[axis], 1), &strides[axis - 1]))
      strides[axis - 1] = INT64_MAX;
  return strides;
}

Tensor Tensor::from_bytes(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
  Tensor t;
  t.dtype = dtype;
  t.strides = row_major_strides(shape);
  t.shape = std::move(shape);
  t.storage = own(std::move(bytes));
  return t;
}

Tensor Tensor::zeros(DType dtype, std::vector<int64_t> shape) {
  Tensor t;
  t.shape = shape;
  size_t size = t.numel() * dtype_bytes(dtype);
  return from_bytes(dtype, std::move(shape), std::vector<std::byte>(size));
}

Tensor Tensor::same_zeros(DType dtype, std::vector<int64_t> shape) {
  Tensor t = zeros(dtype, {1});
  t.strides.assign(shape.size(), 0);
  t.shape = std::move(shape);
  return t;
}

double element_to_double(DType dtype, const std::byte* p) {
  switch (dtype) {
    case DType::f32: return load<float>(p);
    case DType::f64: return load<double>(p);
    case DType::bf16: return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(p)) << 16);
    case DType::f16: return decode(kF16, load<uint16_t>(p));
    case DType::f8e4m3: return decode(kF8e4m3, load<uint8_t>(p));
    case DType::f8e5m2: return decode(kF8e5m2, load<uint8_t>(p));
    case DType::f8e8m0: return decode_e8m0(load<uint8_t>(p));
    case DType::u64: return static_cast<double>(load<uint64_t>(p));
    default: return static_cast<double>(element_to_int(dtype, p));
  }
}

int64_t element_to_int(DType dtype, const std::byte* p) {
  switch (dtype) {
    case DType::u8: return load<uint8_t>(p);
    case DType::i8: return load<int8_t>(p);
    case DType::i16: return load<int16_t>(p);
    case DType::i32: return load<int32_t>(p);
    case DType::i64: return load<int64_t>(p);
    case DType::boolean: return load<uint8_t>(p) != 0;
    case DType::u16: return load<uint16_t>(p);
    case DType::u32: return load<uint32_t>(p);
    case DType::u64: return static_cast<int64_t>(load<uint64_t>(p));
    default: return static_cast<int64_t>(element_to_double(dtype, p));
  }
}

void double_to_element(DType dtype, double v, std::byte* p) {
  switch (dtype) {
    case DType::f32: return store(p, static_cast<float>(v));
    case DType::f64: return store(p, v);
    case DType::bf16: return store(p, encode_bf16(v));
    case DType::f16: return store(p, static_cast<uint16_t>(encode(kF16, v)));
    case DType::f8e4m3: return store(p, static_cast<uint8_t>(encode(kF8e4m3, v)));
    case DType::f8e5m2: return store(p, static_cast<uint8_t>(encode(kF8e5m2, v)));
    case DType::f8e8m0: return store(p, encode_e8m0(v));
    case DType::boolean: return store(p, static_cast<uint8_t>(v != 0));
    default: break;
  }
  // Outside int64, and for NaN, the cast would be undefined: the edge of the range, and 0.
  constexpr double kEdge = 9223372036854775808.0;
  int64_t whole = std::isnan(v) ? 0 : v >= kEdge ? INT64_MAX : v < -kEdge ? INT64_MIN : static_cast<int64_t>(v);
  int_to_element(dtype, whole, p);
}

void int_to_element(DType dtype, int64_t v, std::byte* p) {
  switch (dtype) {
    case DType::u8:
    case DType::i8: return store(p, static_cast<uint8_t>(v));
    case DType::u16:
    case DType::i16: return store(p, static_cast<uint16_t>(v));
    case DType::u32:
    case DType::i32: return store(p, static_cast<uint32_t>(v));
    case DType::u64:
    case DType::i64: return store(p, v);
    case DType::boolean: return store(p, static_cast<uint8_t>(v != 0));
    default: return double_to_element(dtype, static_cast<double>(v), p);
  }
}

double round_to_dtype(DType dtype, double v) {
  switch (dtype) {
    case DType::f64: return v;
    case DType::f32: return static_cast<float>(v);
    case DType::bf16: return round_to_format(kBf16, v);
    case DType::f16: return round_to_format(kF16, v);
    case DType::f8e4m3: return round_to_format(kF8e4m3, v);
    case DType::f8e5m2: return round_to_format(kF8e5m2, v);
    default: break;
  }
  std::byte element[8];
  double_to_element(dtype, v, element);
  return element_to_double(dtype, element);
}

}  // namespace qcg
