#include "graph/ir/special.h"

#include <cmath>
#include <limits>

namespace qcg {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double log_gamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);  // std::lgamma writes its sign to a variable of all threads
}

double digamma(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x < 0) {
    const double rest = x - std::nearbyint(x);
    return rest == 0 || std::isinf(x) ? kNone : digamma(1 - x) - M_PI / std::tan(M_PI * rest);
  }
  if (std::isinf(x)) return x;
  double sum = 0;
  for (; x < 20; ++x) sum -= 1 / x;
  const double z = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x - z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z / 132))));
}

// By Newton's method, from a start that is near everywhere.
double inverse_erf(double y) {
  if (!(std::abs(y) < 1)) return std::abs(y) == 1 ? std::copysign(kInfinity, y) : kNone;
  const double logarithm = std::log1p(-y * y), half = 4.3307 + logarithm / 2;
  double x = std::copysign(std::sqrt(std::sqrt(half * half - logarithm / 0.147) - half), y);
  for (int i = 0; i < 4; ++i) x -= (std::erf(x) - y) * std::exp(x * x) * 0.886226925452758;  // sqrt(pi) / 2
  return x;
}

// By Newton's method for the logarithm of the probability, where that is small.
double inverse_normal(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -kInfinity : p == 1 ? kInfinity : kNone;
  if (p > 0.1) return M_SQRT2 * inverse_erf(2 * p - 1);
  double x = -std::sqrt(-2 * std::log(p));
  for (int i = 0; i < 12; ++i) {
    const double below = 0.5 * std::erfc(-x * M_SQRT1_2), density = std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    x -= (std::log(below) - std::log(p)) * below / density;
  }
  return x;
}

}  // namespace qcg
