// FloatFormat: sign, exponent and mantissa of a binary floating dtype.
//
// Why here: the oracle rounds to them, and what bounds an error, or clamps before a cast, needs the same facts.
// Source: IEEE 754, bfloat16, OCP 8-bit Floating Point Specification 1.0.
//
//   float_format(DType::f8e4m3)->max_finite() == 448
#pragma once

#include <cmath>
#include <optional>

#include "base/dtype.h"

namespace qcg {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // else the top exponent holds numbers, all ones is NaN, and overflow saturates (f8e4m3)

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int min_exponent() const { return 1 - bias(); }
  double max_finite() const {
    if (!has_infinity) return std::ldexp(2.0 - std::ldexp(2.0, -mantissa_bits), bias() + 1);
    return std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), bias());
  }
};

// None for what is no float, and for f8e8m0, which has neither sign nor mantissa.
constexpr std::optional<FloatFormat> float_format(DType d) {
  switch (d) {
    case DType::f64: return FloatFormat{11, 52, true};
    case DType::f32: return FloatFormat{8, 23, true};
    case DType::f16: return FloatFormat{5, 10, true};
    case DType::bf16: return FloatFormat{8, 7, true};
    case DType::f8e4m3: return FloatFormat{4, 3, false};
    case DType::f8e5m2: return FloatFormat{5, 2, true};
    default: return std::nullopt;
  }
}

}  // namespace qcg
