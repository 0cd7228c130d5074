// Gamma, zeta and Bessel functions, scaled error functions and inverses, of one f32, computed in double.
//
// Why here: the same text serves all CPUs and devices; who includes it has defined QCG_INLINE, s_infinity, s_nan and s_root
// (of a double). Near their zeros f32 would cancel, and they are rare enough for one number at a time.
//
//   float y = f_lgamma(-2.5f);
//
// Largest error in ulp of the f32 result: lgamma 2, all others 1.
#pragma once

union QcgDouble {
  double value;
  long long bits;
};

// Of 0 < x < inf that is not denormal: x = 2^k m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
QCG_INLINE double d_log(double x) {
  QcgDouble m;
  m.value = x;
  const long long k = (m.bits - 0x3fe6a09e667f3bcd) >> 52;
  m.bits -= k * (1LL << 52);
  const double s = (m.value - 1) / (m.value + 1), z = s * s;
  double p = 2.0 / 21;
  for (int n = 19; n > 1; n -= 2) p = p * z + 2.0 / n;
  return (double)k * 0.69314718055994530942 + (2 * s + s * z * p);
}

// sin(pi r) of r in [-1/2, 1/2].
QCG_INLINE double d_sin_pi(double r) {
  const double z = r * r * 9.8696044010893586188;
  double p = 1;
  for (int n = 22; n > 0; n -= 2) p = 1 - p * z / (n * (n + 1));
  return r * 3.1415926535897932385 * p;
}
// What x is beyond the nearest whole number; |x| < 2^52.
QCG_INLINE double d_beyond_whole(double x) { return x - (double)(long long)(x + (x < 0 ? -0.5 : 0.5)); }

// Stirling's series of x >= 10. Of less, gamma(x + 1) = x gamma(x); below 0, gamma(x) gamma(1 - x) = pi / sin(pi x).
QCG_INLINE float f_lgamma(float v) {
  if (v - v != 0) return v != v ? v : s_infinity();
  const double rest = v < 0 && v > -8388608.0f ? d_beyond_whole(v) : 0;
  if (v <= 0 && rest == 0) return s_infinity();
  if (v == 1 || v == 2) return 0;
  double x = v < 0 ? 1.0 - v : v, product = 1;
  for (; x < 10; x += 1) product *= x;
  const double r = 1 / x, z = r * r;
  const double series =
      r * (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188 - z * 691 / 360360)))));
  const double y = (x - 0.5) * d_log(x) - x + 0.91893853320467274178 + series - d_log(product);
  const double sine = d_sin_pi(rest);
  return (float)(v < 0 ? d_log(3.1415926535897932385 / (sine < 0 ? -sine : sine)) - y : y);
}

// The series of x >= 10. Of less, digamma(x + 1) = digamma(x) + 1 / x; below 0, digamma(1 - x) - pi / tan(pi x).
QCG_INLINE float f_digamma(float v) {
  if (v == 0) return 1 / v < 0 ? s_infinity() : -s_infinity();
  const double rest = v < 0 && v > -8388608.0f ? d_beyond_whole(v) : 0;
  if (v < 0 && rest == 0) return s_nan();
  if (!(v < s_infinity())) return v;
  double x = v < 0 ? 1.0 - v : v, less = 0;
  if (v < 0) {
    const double size = rest < 0 ? -rest : rest, tangent = d_sin_pi(size) / d_sin_pi(0.5 - size);
    less = 3.1415926535897932385 / (rest < 0 ? -tangent : tangent);
  }
  for (; x < 10; x += 1) less += 1 / x;
  const double r = 1 / x, z = r * r;
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * 691 / 32760)))));
  return (float)(d_log(x) - 0.5 * r - series - less);
}

// erfinv(x) / x by w = -log(1 - x^2): polynomials by least squares over three ranges.
QCG_INLINE double d_erfinv_by_x(double w) {
  double p, t;
  if (w < 5) {
    t = w - 2.5;
    p = 1.3368340545940416e-10;
    p = p * t + 4.3634438809381194e-10;
    p = p * t - 1.1037705080868665e-08;
    p = p * t + 1.6467958014613868e-08;
    p = p * t + 4.797919416733708e-07;
    p = p * t - 3.4260708118512577e-06;
    p = p * t - 4.999023210426466e-06;
    p = p * t + 0.00021826368835225465;
    p = p * t - 0.0012527045694954472;
    p = p * t - 0.00417732473839703;
    p = p * t + 0.24664027568367655;
    return p * t + 1.5014093517052807;
  }
  t = s_root(w);
  if (t < 4.05) {
    t -= 3;
    p = 0.00011498126960456459;
    p = p * t - 0.00031009797970387186;
    p = p * t - 5.457554199919356e-05;
    p = p * t + 0.0014856883172472515;
    p = p * t - 0.0035991846596762646;
    p = p * t + 0.005686719077300727;
    p = p * t - 0.007636802978130806;
    p = p * t + 0.009445330210386127;
    p = p * t + 1.0016749331117103;
    return p * t + 2.8329767998877404;
  }
  t -= 7;
  p = -2.2681493773373792e-09;
  p = p * t + 1.572996786486029e-08;
  p = p * t - 4.4910571595898925e-08;
  p = p * t + 2.459630977626893e-07;
  p = p * t - 1.6578534879623785e-06;
  p = p * t + 6.309282665474548e-06;
  p = p * t + 6.360112465484832e-06;
  p = p * t - 0.0005129801978452076;
  p = p * t + 1.0085955719306903;
  return p * t + 6.869019717753099;
}
QCG_INLINE float f_erfinv(float v) {
  if (!(v > -1 && v < 1)) return v == 1 || v == -1 ? v * s_infinity() : s_nan();
  const double x = v;
  return (float)(x * d_erfinv_by_x(-d_log((1 - x) * (1 + x))));
}
// sqrt(2) erfinv(2 p - 1), whose 1 - x^2 is 4 p (1 - p).
QCG_INLINE float f_ndtri(float v) {
  if (!(v > 0 && v < 1)) return v == 0 ? -s_infinity() : v == 1 ? s_infinity() : s_nan();
  const double p = v, x = 2 * p - 1;
  return (float)(1.4142135623730950488 * x * d_erfinv_by_x(-d_log(4 * p * (1 - p))));
}

// e^x by x = k log 2 + r; 0 and infinity where f32 has no other.
QCG_INLINE double d_exp(double x) {
  if (!(x > -700)) return x != x ? x : 0;
  if (x > 700) return s_infinity();
  const long long k = (long long)(x * 1.4426950408889634074 + (x < 0 ? -0.5 : 0.5));
  const double r = (x - (double)k * 0.693147180369123816490) - (double)k * 1.90821492927058770002e-10;
  double p = 1;
  for (int n = 13; n > 0; --n) p = 1 + p * r / n;
  QcgDouble scale;
  scale.bits = (k + 1023) << 52;
  return p * scale.value;
}

// The modified Bessel function of order 0 or 1, times e^-|v| if `scaled`: its series, or the one of large arguments.
QCG_INLINE float f_bessel_i(int order, float v, int scaled) {
  if (v - v != 0 && !scaled) return v;
  if (v - v != 0) return v != v ? v : 0;
  const double x = v < 0 ? -(double)v : v;
  double term = 1, sum = 1;
  if (x < 16) {
    const double z = x * x / 4;
    for (int k = 1; k < 34; ++k) term *= z / (k * (k + order)), sum += term;
    if (order == 1) sum *= x / 2;
    if (scaled) sum *= d_exp(-x);
  } else {
    for (int k = 1; k < 13; ++k) term *= ((2 * k - 1) * (2 * k - 1) - 4 * order) / (8 * x * k), sum += term;
    sum /= s_root(6.2831853071795864769 * x);
    if (!scaled) sum *= d_exp(x);
  }
  return (float)(order == 1 && v < 0 ? -sum : sum);
}
QCG_INLINE float f_i0(float v) { return f_bessel_i(0, v < 0 ? -v : v, 0); }
QCG_INLINE float f_i0e(float v) { return f_bessel_i(0, v, 1); }
QCG_INLINE float f_i1(float v) { return f_bessel_i(1, v, 0); }
QCG_INLINE float f_i1e(float v) { return f_bessel_i(1, v, 1); }

// e^(x^2) erfc(x) of x >= 0: less the series of erf, which has positive terms, or a continued fraction.
QCG_INLINE double d_erfcx(double x) {
  if (x < 2.5) {
    double term = x, sum = x;
    for (int k = 1; k < 40; ++k) term *= 2 * x * x / (2 * k + 1), sum += term;
    return d_exp(x * x) - 1.1283791670955125739 * sum;
  }
  double f = x;
  for (int k = 40; k > 0; --k) f = x + 0.5 * k / f;
  return 0.56418958354775628695 / f;
}
QCG_INLINE float f_erfcx(float v) {
  const double x = v;
  return (float)(v < 0 ? 2 * d_exp(x * x) - d_erfcx(-x) : d_erfcx(x));
}

// The logarithm of the probability that a standard normal variable is below v.
QCG_INLINE float f_log_ndtr(float v) {
  const double x = v, half = 0.5 * d_erfcx((v < 0 ? -x : x) * 0.70710678118654752440);
  if (v < 0) return half > 0 ? (float)(d_log(half) - 0.5 * x * x) : -s_infinity();
  const double t = half * d_exp(-0.5 * x * x);
  return (float)(t > 1e-3 ? d_log(1 - t) : -t * (1 + t * (0.5 + t * (1.0 / 3 + t * (0.25 + t * 0.2)))));
}

// The derivative of digamma: the series of x >= 10, of less with 1 / x^2; below 0, pi^2 / sin(pi x)^2 - trigamma(1 - x).
QCG_INLINE float f_trigamma(float v) {
  const double rest = v < 0 && v > -8388608.0f ? d_beyond_whole(v) : 0;
  if (v <= 0 && rest == 0) return v - v != 0 ? s_nan() : s_infinity();
  if (!(v < s_infinity())) return v != v ? v : 0;
  double x = v < 0 ? 1.0 - v : v, more = 0;
  for (; x < 10; x += 1) more += 1 / (x * x);
  const double r = 1 / x, z = r * r;
  const double series =
      z * r * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66 - z * 691 / 2730)))));
  const double y = r + 0.5 * z + series + more, sine = d_sin_pi(rest);
  return (float)(v < 0 ? 9.8696044010893586188 / (sine * sine) - y : y);
}

// sum (a + k)^-s of k >= 0, a > 0, s > 1: ten terms, and the rest by Euler and Maclaurin.
QCG_INLINE double d_zeta(double s, double a) {
  double sum = 0;
  for (int k = 0; k < 10; ++k) sum += d_exp(-s * d_log(a + k));
  const double w = a + 10, power = d_exp(-s * d_log(w));
  const double shares[] = {1.0 / 12,       -1.0 / 720,           1.0 / 30240,        -1.0 / 1209600,
                           1.0 / 47900160, -691.0 / 1307674368e3, 1.0 / 74724249600.0};
  double rest = w / (s - 1) + 0.5, factor = s / w;
  for (int j = 0; j < 7; ++j) {
    rest += shares[j] * factor;
    factor *= (s + 2 * j + 1) / w * ((s + 2 * j + 2) / w);
  }
  return sum + power * rest;
}
// Below 0 terms to whole s have a sign: those of -a, -a - 1, … are of another sum.
QCG_INLINE float f_zeta(float s, float v) {
  if (s != s || v != v) return s_nan();
  if (s <= 1) return s == 1 ? s_infinity() : s_nan();
  const double order = s < 1e12f ? s : 1e12, a = v;
  if (v > 0) return v - v != 0 ? 0 : (float)d_zeta(order, a);
  const double rest = v > -8388608.0f ? d_beyond_whole(v) : 0;
  if (rest == 0) return s_infinity();
  const double half = order / 2 < 4e15 ? d_beyond_whole(order / 2) : 0;
  if (half != 0 && half != 0.5 && half != -0.5) return s_nan();
  const double up = rest > 0 ? rest : 1 + rest, down = rest > 0 ? 1 - rest : -rest;  // on both sides of 0
  if (s - s != 0) return s_infinity();
  const double below = d_zeta(order, down) - d_zeta(order, 1 - a);
  return (float)(d_zeta(order, up) + (half == 0 ? below : -below));
}
