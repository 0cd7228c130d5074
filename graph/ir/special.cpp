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

namespace {

// Where the library's function overflows: the first terms of the asymptotic series for large arguments.
double bessel_i(int order, double x, bool scaled) {
  const double size = std::abs(x), sign = order == 1 && x < 0 ? -1 : 1;
  if (std::isnan(x)) return x;
  if (size < 600) return sign * std::cyl_bessel_i(order, size) * (scaled ? std::exp(-size) : 1);
  if (!scaled) return sign * kInfinity;
  const double z = 1 / (8 * size);
  const double series = order == 0 ? 1 + z * (1 + z * 4.5) : 1 - z * (3 + z * 7.5);
  return sign * series / std::sqrt(2 * M_PI * size);
}

// In long double, whose exponent reaches further.
long double wide_scaled_erfc(long double x) {
  if (x > 100) return (1 - 0.5L / (x * x) * (1 - 1.5L / (x * x))) / (x * std::sqrt(static_cast<long double>(M_PI)));
  return std::exp(x * x) * std::erfc(x);
}

}  // namespace

double bessel_i0(double x) { return bessel_i(0, x, false); }
double bessel_i0e(double x) { return bessel_i(0, x, true); }
double bessel_i1(double x) { return bessel_i(1, x, false); }
double bessel_i1e(double x) { return bessel_i(1, x, true); }

double scaled_erfc(double x) { return static_cast<double>(wide_scaled_erfc(x)); }

double log_normal(double x) {
  if (!(x < -1)) return std::log1p(-0.5 * std::erfc(x * M_SQRT1_2));
  const long double half = wide_scaled_erfc(-static_cast<long double>(x) / std::sqrt(2.0L)) / 2;
  return half > 0 ? static_cast<double>(std::log(half) - 0.5L * x * x) : -kInfinity;
}

double trigamma(double x) {
  if (x <= 0) {
    const double rest = x - std::nearbyint(x);
    if (std::isinf(x)) return kNone;
    if (rest == 0) return kInfinity;
    const double root = M_PI / std::sin(M_PI * rest);
    return root * root - trigamma(1 - x);
  }
  double sum = 0;
  for (; x < 30; ++x) sum += 1 / (x * x);
  const double z = 1 / (x * x);
  return sum + (1 + 0.5 / x + z * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z / 30)))) / x;
}

// For a negative a, the terms with a + k < 0 are added one by one if they are few, else as the difference of two zetas.
double zeta(double s, double a) {
  if (std::isnan(s) || std::isnan(a) || s < 1) return kNone;
  if (s == 1) return kInfinity;
  if (a <= 0) {
    if (a == std::floor(a)) return kInfinity;
    if (s != std::floor(s)) return kNone;
    if (std::isinf(s)) return kInfinity;
    const double first = a - std::floor(a), sign = std::fmod(s, 2) == 0 ? 1 : -1;
    double sum = 0;
    constexpr double kFew = 1000;
    if (a < -kFew) sum = sign * (zeta(s, 1 - first) - zeta(s, 1 - a));
    else
      for (double x = a; x < 0; ++x) sum += sign * std::pow(-x, -s);
    return sum + zeta(s, first);
  }
  if (std::isinf(a)) return 0;
  double sum = 0;
  const double end = a + 25;
  for (int k = 0; k < 25; ++k) sum += std::pow(a + k, -s);
  const double power = std::pow(end, -s);
  if (power == 0) return sum;
  const double z = 1 / end, second = s * (s + 1) * (s + 2) * z * z * z, third = second * (s + 3) * (s + 4) * z * z;
  return sum + power * (end / (s - 1) + 0.5 + s * z / 12 - second / 720 + third / 30240 -
                        third * (s + 5) * (s + 6) * z * z / 1209600);
}

}  // namespace qcg
