// The meaning of every primitive in double, from libm, and the distance of a float from it in ulp.
//
// Why here: the tests of all ISAs and of the rendered kernels measure against the same text.
//
//   ulp_error(got, reference_unary("gelu", x)) <= 4
#pragma once

#include <cmath>
#include <limits>
#include <string_view>

#include "graph/ir/special.h"

namespace qcg_test {

inline double reference_unary(std::string_view name, double x) {
  const double inf = std::numeric_limits<double>::infinity();
  if (name == "neg") return -x;
  if (name == "abs") return std::fabs(x);
  if (name == "reciprocal") return 1 / x;
  if (name == "relu") return std::isnan(x) ? x : x > 0 ? x : 0;
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "gelu") return x == -inf ? std::nan("") : x == inf ? inf : x * (std::erfc(-x / std::sqrt(2.0)) / 2);
  if (name == "gelu_tanh") {
    const double u2 = 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    return x == -inf ? std::nan("") : x / (1 + std::exp(-u2));
  }
  if (name == "tanh") return std::tanh(x);
  if (name == "exp") return std::exp(x);
  if (name == "log") return std::log(x);
  if (name == "sqrt") return std::sqrt(x);
  if (name == "rsqrt") return 1 / std::sqrt(x);
  if (name == "round_even") return std::nearbyint(x);
  if (name == "floor") return std::floor(x);
  if (name == "trunc") return std::trunc(x);
  if (name == "sin") return std::sin(x);
  if (name == "cos") return std::cos(x);
  if (name == "erf") return std::erf(x);
  if (name == "log1p") return std::log1p(x);
  if (name == "log2") return std::log2(x);
  if (name == "log10") return std::log10(x);
  if (name == "expm1") return std::expm1(x);
  if (name == "atan") return std::atan(x);
  if (name == "lgamma") return qcg::log_gamma(x);
  if (name == "digamma") return qcg::digamma(x);
  if (name == "erfinv") return qcg::inverse_erf(x);
  if (name == "ndtri") return qcg::inverse_normal(x);
  if (name == "i0") return qcg::bessel_i0(x);
  if (name == "i0e") return qcg::bessel_i0e(x);
  if (name == "i1") return qcg::bessel_i1(x);
  if (name == "i1e") return qcg::bessel_i1e(x);
  if (name == "erfcx") return qcg::scaled_erfc(x);
  if (name == "log_ndtr") return qcg::log_normal(x);
  if (name == "trigamma") return qcg::trigamma(x);
  return std::nan("");
}

// Distance in units of the last place of `want` as a float; 0 if both are NaN, inf if only one is.
inline double ulp_error(float got, double want) {
  const double inf = std::numeric_limits<double>::infinity();
  if (std::isnan(want)) return std::isnan(got) ? 0 : inf;
  if (std::isnan(got)) return inf;
  const float rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  if (std::isinf(rounded) || std::isinf(got)) {  // the largest float and infinity count as neighbours
    const float largest = std::numeric_limits<float>::max();
    return std::fabs(std::isinf(got) ? rounded : got) == largest && std::signbit(got) == std::signbit(rounded) ? 1
                                                                                                               : inf;
  }
  const int exponent = want == 0 ? -126 : std::max(std::ilogb(want), -126);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 23);
}

}  // namespace qcg_test
