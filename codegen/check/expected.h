// Expected: what an element of a kernel's output must be, and how far off it may be by the last rounding alone.
//
// Why here: the oracles of all kernel families end with the same step: an exact value becomes an element of a dtype.
//
//   const auto [want, bound] = within_range(dtype, value, tolerance + half_ulp(dtype, value));
#pragma once

#include <string>

#include "base/dtype.h"

namespace qcg {

struct Expected {
  double want = 0, bound = 0;  // a bound of HUGE_VAL: anything may come out
};

// Of one kernel, at all sizes that it was checked at.
struct OracleReport {
  bool ok = true;
  double max_error = 0;  // the largest of error / bound, as an absolute error …
  double bound = 0;      // … and the bound there
  std::string reason;
};

// Half a unit in the last place at v; 0.5 for an integer dtype. Never less than half of f32's smallest subnormal, for
// f64 too: some kernels compute f64 in f32.
double half_ulp(DType dtype, double v);

// An integer as an element of the dtype has it: modulo the range, 0 or 1 of bool.
Expected as_element(DType dtype, int64_t value);

// What is too large for its dtype is infinite, e4m3 saturates; near the largest number either may come out.
Expected within_range(DType dtype, double want, double bound);

// error / bound; 0 where both are the same, not finite or not. `error` is what an error is reported as.
double error_ratio(const Expected& expected, double got, double& error);
inline constexpr double kNotFinite = 1e300;  // an error that JSON can say
// "nan where -1.52 is right" or "error 0.25 > 0.002". `error`: what error_ratio() has set.
std::string describe_error(const Expected& expected, double got, double error);

// What f32 rounds in a sum of `terms` products: a random walk, far below the worst case, relative to the sum of
// magnitudes.
double sum_unit(double terms);

}  // namespace qcg
