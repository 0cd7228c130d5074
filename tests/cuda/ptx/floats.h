// Floats of 8 to 32 bits as doubles and back, by the layout of their bits.
//
// Why here: conversions and matrix products need every format a GPU has; one function with the layout as a table is
// easier to check than one per format. Shared by the executor and the translated kernels.
//
//   decode_float(kBf16, 0x3f80) == 1.0;   encode_float(kE4m3, 500.0, Rounding::even, true) == 0x7e   // 448
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace qcg::ptx {

struct FloatFormat {
  int exponent_bits, mantissa_bits;
  bool has_infinity;  // e4m3 has none: only all ones is NaN
};
constexpr FloatFormat kF32{8, 23, true}, kF16{5, 10, true}, kBf16{8, 7, true}, kTf32{8, 10, true}, kE5m2{5, 2, true},
    kE4m3{4, 3, false};

enum class Rounding : uint8_t { even, zero, up, down, away };  // away: nearest, ties away from zero

inline double decode_float(FloatFormat f, uint32_t bits) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1, top = (1 << f.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> f.mantissa_bits) & top;
  const uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
  const double sign = bits >> (f.exponent_bits + f.mantissa_bits) & 1 ? -1.0 : 1.0;
  if (f.has_infinity && exponent == top) return mantissa ? std::nan("") : sign * INFINITY;
  if (!f.has_infinity && exponent == top && mantissa == (1u << f.mantissa_bits) - 1) return std::nan("");
  const double value = exponent == 0
                           ? std::ldexp(double(mantissa), 1 - bias - f.mantissa_bits)
                           : std::ldexp(double(mantissa | 1u << f.mantissa_bits), exponent - bias - f.mantissa_bits);
  return sign * value;
}

inline double round_to_integer(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::even: return std::nearbyint(x);
    case Rounding::zero: return std::trunc(x);
    case Rounding::up: return std::ceil(x);
    case Rounding::down: return std::floor(x);
    case Rounding::away: return std::round(x);
  }
  return x;
}

// `finite`: what is too large becomes the largest finite number (.satfinite).
inline uint32_t encode_float(FloatFormat f, double x, Rounding rounding, bool finite = false) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1, top = (1 << f.exponent_bits) - 1;
  const uint32_t sign = std::signbit(x) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
  const uint32_t ones = (1u << f.mantissa_bits) - 1;
  const uint32_t infinity = static_cast<uint32_t>(top) << f.mantissa_bits;
  if (x != x) return infinity | ones;  // the canonical NaN of PTX: 0x7fffffff, 0x7fff, 0x7f
  const uint32_t largest = f.has_infinity ? infinity - 1 : (infinity | (ones - 1));
  const uint32_t overflow = finite ? largest : f.has_infinity ? infinity : (infinity | ones);
  if (std::isinf(x)) return sign | overflow;
  if (x == 0) return sign;
  int exponent = std::ilogb(x);
  if (exponent < 1 - bias) exponent = 1 - bias;
  const double unit = std::ldexp(1.0, exponent - f.mantissa_bits);
  const double steps = std::fabs(round_to_integer(x / unit, rounding));  // of `unit`; at most 2^(mantissa_bits + 1)
  uint64_t magnitude = static_cast<uint64_t>(steps);
  uint64_t code;
  if (magnitude < (1ull << f.mantissa_bits)) code = magnitude;  // denormal
  else code = magnitude + (static_cast<uint64_t>(exponent + bias - 1) << f.mantissa_bits);
  if (code > largest) {
    const bool towards_zero = rounding == Rounding::zero || rounding == (sign ? Rounding::up : Rounding::down);
    return sign | (towards_zero ? largest : overflow);
  }
  return sign | static_cast<uint32_t>(code);
}

inline float as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t as_bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float from_bf16(uint16_t h) { return as_float(static_cast<uint32_t>(h) << 16); }
inline uint16_t to_bf16(float x) {
  const uint32_t b = as_bits(x);
  return x != x ? 0x7fff : static_cast<uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

}  // namespace qcg::ptx
