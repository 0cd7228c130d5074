#include "codegen/check/expected.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ir/float_format.h"
#include "graph/ir/tensor.h"

namespace qcg {

double half_ulp(DType dtype, double v) {
  if (!is_floating(dtype)) return 0.5;
  if (!std::isfinite(v)) return 0;
  const FloatFormat format = *float_format(dtype);
  const int digits = format.mantissa_bits + 1;
  const int smallest = std::max(format.min_exponent() - digits, -150);  // for f64 too: its kernel may compute in f32
  return std::ldexp(1.001, v == 0 ? smallest : std::max(std::ilogb(v) - digits, smallest));
}

Expected as_element(DType dtype, int64_t value) {
  std::byte element[8];
  int_to_element(dtype, dtype == DType::boolean ? int64_t{value != 0} : value, element);
  return {static_cast<double>(element_to_int(dtype, element)), 0};
}

Expected within_range(DType dtype, double want, double bound) {
  if (std::isnan(want)) return {want, std::isinf(bound) ? bound : 0};
  if (!is_floating(dtype)) return {want, bound};
  if (const FloatFormat f = *float_format(dtype); !f.has_infinity)
    return {std::clamp(want, -f.max_finite(), f.max_finite()), bound};
  const double low = round_to_dtype(dtype, want - bound), high = round_to_dtype(dtype, want + bound);
  if (std::isinf(low) && low == high) return {low, bound};
  return {want, std::isinf(low) || std::isinf(high) ? HUGE_VAL : bound};
}

double error_ratio(const Expected& expected, double got, double& error) {
  error = 0;
  const double want = expected.want;
  if (std::isinf(expected.bound) || got == want || (std::isnan(got) && std::isnan(want))) return 0;
  if (!std::isfinite(got) || !std::isfinite(want)) return error = kNotFinite, HUGE_VAL;
  error = std::fabs(got - want);
  return error / std::max(1e-300, expected.bound);  // NaN is no bound
}

namespace {

double unsigned_nan(double x) { return std::isnan(x) ? std::fabs(x) : x; }

}  // namespace

std::string describe_error(const Expected& expected, double got, double error) {
  return error == kNotFinite ? fmt::format("{} where {:.3g} is right", unsigned_nan(got), unsigned_nan(expected.want))
                             : fmt::format("error {:.3g} > {:.3g}", error, expected.bound);
}

double sum_unit(double terms) { return 0x1p-24 * std::min(terms + 2, 8 * std::sqrt(terms) + 8); }

}  // namespace qcg
