// Gamma functions and inverses of the error function, of one f32, computed in double.
//
// Why here: the same text serves all CPUs and devices; who includes it has defined QCG_INLINE, s_infinity, s_nan and s_root
// (of a double). Near their zeros f32 would cancel, and they are rare enough for one number at a time.
//
//   float y = f_lgamma(-2.5f);
//
// Largest error in ulp of the f32 result: lgamma 2, digamma 1, erfinv 1, ndtri 1.
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
