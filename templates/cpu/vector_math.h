// The functions of graph/ir/expr.h on vectors, written once on the primitives of whichever ISA header includes this file.
//
// Why here: an ISA header says what the machine does; how exp is computed is the same everywhere, so it is one text, and
// two ISAs differ only where v_fma differs (portable rounds twice).
//
//   #include "avx512.h"                       // defines vf, v_fma, …, and includes this file last
//   vf y = v_silu(v_load_bf16_n(x, 5));
//
// Largest error against double libm, in ulp of the f32 result (tests/isa_headers asserts these):
//
//   fmod 0    exp log log2 log10 1    reciprocal 0.5    rsqrt 2    sin cos 2    atan 3    pow 4    those of special.h
//   log1p expm1 tanh erf 2    sigmoid silu 3 down to -88; below, where exp(-x) overflows, they are 0 (|error| <= 3e-37)
//   gelu 6 for x >= 0, 8 down to -13       gelu_tanh 8 down to -2, 40 down to -5      below: |error| <= 1e-8 * |x|
//
// Every function is right at +-0, +-inf, NaN and denormals, as torch defines it; gelu(-inf) is NaN there and here.
#pragma once

QCG_INLINE float s_infinity() { return __builtin_inff(); }
QCG_INLINE float s_nan() { return __builtin_nanf(""); }
QCG_INLINE double s_root(double x) { return __builtin_sqrt(x); }
#include "special.h"

QCG_INLINE vf v_reciprocal(vf x) { return v_div(v_set1(1.0f), x); }
QCG_INLINE vf v_rsqrt(vf x) { return v_div(v_set1(1.0f), v_sqrt(x)); }
QCG_INLINE vf v_square(vf x) { return v_mul(x, x); }
QCG_INLINE vf v_cube(vf x) { return v_mul(v_mul(x, x), x); }
QCG_INLINE vf v_relu(vf x) { return v_max(x, v_zero()); }
QCG_INLINE vf v_clamp(vf x, vf lo, vf hi) { return v_min(v_max(x, lo), hi); }

// x * 2^n for integral n in [-300, 300]; two factors, because 2^n alone leaves the range of f32 before the product does.
QCG_INLINE vf v_ldexp(vf x, vf n) {
#ifdef QCG_HAS_SCALEF
  return v_scalef(x, n);
#else
  vi whole = v_to_i_round(n);
  vi half = vi_sra(whole, 1);
  vi bias = vi_set1(127);
  vf first = v_from_bits(vi_shl(vi_add(half, bias), 23));
  vf second = v_from_bits(vi_shl(vi_add(vi_sub(whole, half), bias), 23));
  return v_mul(v_mul(x, first), second);
#endif
}

// e^x = 2^n * (1 + r_part). e^r - 1 = r + r^2 P(r) on |r| <= ln2 / 2; ln2 is split so that n * (first part) is exact
// without a fused multiply.
struct ExpParts {
  vf n, r_part;
};
QCG_INLINE ExpParts v_split_exp(vf x, float least = -105.0f) {
  vf bounded = v_bound(x, least, 90.0f);
  vf n = v_round_even(v_mul(bounded, v_set1(1.442695041f)));
  vf r = v_fma(n, v_set1(-0.693359375f), bounded);
  r = v_fma(n, v_set1(2.12194440e-4f), r);
  vf p = v_set1(1.979024819e-04f);
  p = v_fma(p, r, v_set1(1.394475927e-03f));
  p = v_fma(p, r, v_set1(8.333497681e-03f));
  p = v_fma(p, r, v_set1(4.166629538e-02f));
  p = v_fma(p, r, v_set1(1.666666567e-01f));
  p = v_fma(p, r, v_set1(0.5f));
  return {n, v_fma(p, v_mul(r, r), r)};
}
QCG_INLINE vf v_join_exp(ExpParts e) { return v_ldexp(v_add(e.r_part, v_set1(1.0f)), e.n); }
QCG_INLINE vf v_exp(vf x) { return v_join_exp(v_split_exp(x)); }

// e^x, and zero for x below -87. Denormal results take assists, which were a quarter of the time of causal attention.
QCG_INLINE vf v_exp_or_zero(vf x) {
  constexpr float kLeast = -87.0f;
  return v_select(v_lt(x, v_set1(kLeast)), v_zero(), v_join_exp(v_split_exp(x, kLeast)));
}

// e^x - 1 while 2^n is finite: 2^n - 1 is exact where it matters.
QCG_INLINE vf v_less_one(ExpParts e) {
  vf one = v_set1(1.0f);
  return v_add(v_ldexp(e.r_part, e.n), v_sub(v_ldexp(one, e.n), one));
}
// From 20 on the 1 is lost, and 2^n may be infinite before e^x is.
QCG_INLINE vf v_expm1(vf x) {
  ExpParts e = v_split_exp(x);
  return v_select(v_lt(v_set1(20.0f), x), v_join_exp(e), v_less_one(e));
}

// x = 2^exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); for 0 < x < inf, denormals included.
struct LogParts {
  vf f, exponent;
};
QCG_INLINE LogParts v_split_for_log(vf x) {
  vm tiny = v_lt(x, v_set1(1.17549435e-38f));
  vi bits = v_bits(v_select(tiny, v_mul(x, v_set1(8388608.0f)), x));
  vi k = vi_sra(vi_sub(bits, vi_set1(0x3f3504f3)), 23);
  vf m = v_from_bits(vi_sub(bits, vi_shl(k, 23)));
  vf shift = v_select(tiny, v_set1(-23.0f), v_zero());
  return {v_sub(m, v_set1(1.0f)), v_add(vi_to_f(k), shift)};
}

// A logarithm y of 0 < x < inf, with those of the other x.
QCG_INLINE vf v_log_of_any(vf x, vf y) {
  vf inf = v_set1(__builtin_inff());
  y = v_select(v_eq(x, inf), inf, y);
  y = v_select(v_eq(x, v_zero()), v_neg(inf), y);
  return v_select(v_lt(x, v_zero()), v_set1(__builtin_nanf("")), v_select(v_isnan(x), x, y));
}

QCG_INLINE vf v_log(vf x) {
  LogParts s = v_split_for_log(x);
  vf square = v_mul(s.f, s.f);
  vf p = v_set1(6.746559590e-02f);
  p = v_fma(p, s.f, v_set1(-1.167964339e-01f));
  p = v_fma(p, s.f, v_set1(1.189033613e-01f));
  p = v_fma(p, s.f, v_set1(-1.240513772e-01f));
  p = v_fma(p, s.f, v_set1(1.421922296e-01f));
  p = v_fma(p, s.f, v_set1(-1.666800678e-01f));
  p = v_fma(p, s.f, v_set1(2.000213414e-01f));
  p = v_fma(p, s.f, v_set1(-2.500000894e-01f));
  p = v_fma(p, s.f, v_set1(3.333331347e-01f));
  vf y = v_mul(v_mul(p, square), s.f);
  y = v_fma(s.exponent, v_set1(-2.12194440e-4f), y);
  y = v_fma(square, v_set1(-0.5f), y);
  return v_log_of_any(x, v_fma(s.exponent, v_set1(0.693359375f), v_add(s.f, y)));
}

// log(u) for u = 1 + x rounded, plus what the rounding took, to first order. Not at the ends: 0 / 0, inf - inf.
QCG_INLINE vf v_log1p(vf x) {
  vf one = v_set1(1.0f), u = v_add(x, one), y = v_log(u);
  vf corrected = v_add(y, v_div(v_sub(x, v_sub(u, one)), u));
  return v_select(v_eq(u, v_zero()), y, v_select(v_eq(u, v_set1(__builtin_inff())), y, corrected));
}

// Of u in [-tan(pi/8), tan(pi/8)]: x itself, (x - s) / (1 + |x|) from pi/4, or -1 / x from pi/2, s the sign of x.
QCG_INLINE vf v_atan(vf x) {
  vf one = v_set1(1.0f), a = v_abs(x), s = v_select(v_lt(x, v_zero()), v_set1(-1.0f), one);
  vm far = v_lt(v_set1(2.41421356f), a), near = v_lt(a, v_set1(0.414213562f));
  vf u = v_select(far, v_div(v_set1(-1.0f), x), v_select(near, x, v_div(v_sub(x, s), v_add(one, a))));
  vf z = v_mul(u, u);
  vf p = v_set1(8.05374449538e-2f);
  p = v_fma(p, z, v_set1(-1.38776856032e-1f));
  p = v_fma(p, z, v_set1(1.99777106478e-1f));
  p = v_fma(p, z, v_set1(-3.33329491539e-1f));
  vf y = v_fma(v_mul(p, z), u, u);
  vf from = v_mul(s, v_select(far, v_set1(1.57079633f), v_set1(0.785398163f)));
  return v_select(near, y, v_add(from, y));
}

// (e^2a - 1) / (e^2a + 1), whose numerator is as exact near 0 as elsewhere. From 20 on the result is 1.
QCG_INLINE vf v_tanh(vf x) {
  vf a = v_bound(v_abs(x), 0.0f, 20.0f);
  vf less_one = v_less_one(v_split_exp(v_add(a, a)));
  return v_copysign(v_div(less_one, v_add(less_one, v_set1(2.0f))), x);
}

// Below 0.9 an odd polynomial; above, 1 - exp(-P(|x|)) with P = -log(erfc), whose error the small erfc scales down.
QCG_INLINE vf v_erf(vf x) {
  vf z = v_mul(x, x);
  vf q = v_set1(-6.090357783e-04f);
  q = v_fma(q, z, v_set1(5.011962261e-03f));
  q = v_fma(q, z, v_set1(-2.677890845e-02f));
  q = v_fma(q, z, v_set1(1.128214076e-01f));
  q = v_fma(q, z, v_set1(-3.761252463e-01f));
  q = v_fma(q, z, v_set1(1.283791512e-01f));
  vf small = v_fma(q, x, x);
  vf a = v_abs(x);
  vf t = v_min(a, v_set1(4.0f));
  vf p = v_set1(2.082861829e-05f);
  p = v_fma(p, t, v_set1(-4.313935642e-04f));
  p = v_fma(p, t, v_set1(4.156254698e-03f));
  p = v_fma(p, t, v_set1(-2.508061565e-02f));
  p = v_fma(p, t, v_set1(1.082203835e-01f));
  p = v_fma(p, t, v_set1(6.334008574e-01f));
  p = v_fma(p, t, v_set1(1.129488349e+00f));
  p = v_fma(p, t, v_set1(-1.692051301e-04f));
  vf large = v_sub(v_set1(1.0f), v_exp(v_neg(p)));
  return v_select(v_lt(a, v_set1(0.9f)), small, v_copysign(large, x));
}

// As torch computes them: what is quantized next then is mostly the same to the bit.
QCG_INLINE vf v_one_plus_exp_neg(vf x) { return v_add(v_set1(1.0f), v_exp(v_neg(x))); }
QCG_INLINE vf v_sigmoid(vf x) { return v_div(v_set1(1.0f), v_one_plus_exp_neg(x)); }
QCG_INLINE vf v_silu(vf x) { return v_div(x, v_one_plus_exp_neg(x)); }

// x * Phi(x), Phi(-a) = exp(-a^2/2) * t * R(1 - 6t), t = 1 / (a + 3): no cancellation of 1 + erf for x < 0.
QCG_INLINE vf v_gelu(vf x) {
  vf one = v_set1(1.0f);
  vf a = v_min(v_abs(x), v_set1(14.6f));
  vf t = v_div(one, v_add(a, v_set1(3.0f)));
  vf q = v_fma(t, v_set1(-6.0f), one);
  vf r = v_set1(5.172661622e-05f);
  r = v_fma(r, q, v_set1(-2.035607031e-04f));
  r = v_fma(r, q, v_set1(-9.459677967e-04f));
  r = v_fma(r, q, v_set1(1.017025788e-03f));
  r = v_fma(r, q, v_set1(6.936913356e-03f));
  r = v_fma(r, q, v_set1(-1.046246663e-02f));
  r = v_fma(r, q, v_set1(-4.725806788e-02f));
  r = v_fma(r, q, v_set1(2.300177068e-01f));
  r = v_fma(r, q, v_set1(-5.093321800e-01f));
  r = v_fma(r, q, v_set1(7.290837169e-01f));
  vf square = v_mul(a, a);
  vf rounded_off = v_fused(a, a, v_neg(square));  // exp turns an absolute error of a^2 into a relative one
  vf e = v_exp(v_mul(square, v_set1(-0.5f)));
  e = v_fma(v_mul(e, rounded_off), v_set1(-0.5f), e);
  vf tail = v_mul(v_mul(r, t), e);
  return v_mul(x, v_select(v_lt(x, v_zero()), tail, v_sub(one, tail)));
}

// x/2 * (1 + tanh(u)) is x * sigmoid(2u), u = sqrt(2/pi) * (x + 0.044715 x^3).
QCG_INLINE vf v_gelu_tanh(vf x) {
  vf p = v_fma(v_mul(x, x), v_set1(0.0713548162726f), v_set1(1.59576912161f));
  return v_mul(x, v_sigmoid(v_mul(x, p)));
}

// Quadrant (mod 4) and remainder of every x beyond `limit` by pi/2, after Payne and Hanek: of 2/pi only the 96 bits are
// multiplied that say something about x * 2/pi mod 4. One lane at a time, because so large an x is rare.
__attribute__((noinline, unused)) static void reduce_large(const float* x, float limit, float* n, float* r) {
  static const uint32_t two_over_pi[8] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                          0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};  // behind 32 zeros
  for (int i = 0; i < VL; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, 4);
    const int exponent = (int)(bits >> 23 & 255) - 127;
    if (!(__builtin_fabsf(x[i]) > limit) || exponent == 128) continue;
    const uint64_t m = (bits & 0x7fffff) | 0x800000;  // |x| = m * 2^(exponent - 23)
    const uint32_t* words = two_over_pi + (exponent + 7) / 32;
    const int shift = (exponent + 7) % 32;
    uint64_t w[3];
    for (int k = 0; k < 3; ++k) w[k] = (((uint64_t)words[k] << 32 | words[k + 1]) << shift) >> 32;
    const uint64_t product = (m * w[0] << 32) + m * w[1] + (m * w[2] >> 32);  // |x| * 2/pi mod 4, in units of 2^-62
    const uint64_t quadrant = (product + ((uint64_t)1 << 61)) >> 62;
    const double rest = (double)(int64_t)(product - (quadrant << 62)) * (1.5707963267948966 / 4611686018427387904.0);
    n[i] = x[i] < 0 ? -(float)quadrant : (float)quadrant;
    r[i] = (float)(x[i] < 0 ? -rest : rest);
  }
}

// Quadrant and remainder of x by pi/2 in three parts of pi/2; the first subtraction is exact up to the limit.
QCG_INLINE vf v_sin_shifted(vf x, int quadrant_shift) {
  const float limit = 1e6f;
  vf n = v_round_even(v_mul(x, v_set1(0.636619772f)));
  vf minus_n = v_neg(n);
  vf r = v_fused(minus_n, v_set1(1.570796371e+00f), x);
  r = v_fused(minus_n, v_set1(-4.371138829e-08f), r);
  r = v_fused(minus_n, v_set1(-1.715124510e-15f), r);
  if (__builtin_expect(v_any(v_lt(v_set1(limit), v_abs(x))), 0)) {
    float of_x[VL], of_n[VL], of_r[VL];
    v_store_f32(of_x, x), v_store_f32(of_n, n), v_store_f32(of_r, r);
    reduce_large(of_x, limit, of_n, of_r);
    n = v_load_f32(of_n), r = v_load_f32(of_r);
  }
  vf z = v_mul(r, r);
  vf s = v_set1(-1.951202721e-04f);
  s = v_fma(s, z, v_set1(8.332137018e-03f));
  s = v_fma(s, z, v_set1(-1.666665375e-01f));
  s = v_fma(v_mul(s, z), r, r);
  vf c = v_set1(2.442943696e-05f);
  c = v_fma(c, z, v_set1(-1.388728386e-03f));
  c = v_fma(c, z, v_set1(4.166664556e-02f));
  c = v_fma(v_mul(c, z), z, v_fma(z, v_set1(-0.5f), v_set1(1.0f)));
  vi quadrant = vi_add(v_to_i_round(n), vi_set1(quadrant_shift));
  vf y = v_select(vi_test(quadrant, 1), c, s);
  return v_select(vi_test(quadrant, 2), v_neg(y), y);
}
QCG_INLINE vf v_sin(vf x) { return v_sin_shifted(x, 0); }
QCG_INLINE vf v_cos(vf x) { return v_sin_shifted(x, 1); }

// log2 of x > 0 as high + low: s = f / (2 + f), log2(1 + f) = 2/ln2 * s + s^3 R(s^2). v_fused gives each rounding error.
struct TwoFloats {
  vf high, low;
};
QCG_INLINE TwoFloats v_log2_exact(vf x) {
  LogParts parts = v_split_for_log(x);
  vf f = parts.f, g = v_add(f, v_set1(2.0f));
  vf g_low = v_sub(f, v_sub(g, v_set1(2.0f)));
  vf s = v_div(f, g);
  vf minus_s = v_neg(s);
  vf s_low = v_div(v_fused(minus_s, g_low, v_fused(minus_s, g, f)), g);
  vf z = v_mul(s, s);
  vf r = v_set1(3.404231369e-01f);
  r = v_fma(r, z, v_set1(4.116961658e-01f));
  r = v_fma(r, z, v_set1(5.770829916e-01f));
  r = v_fma(r, z, v_set1(9.617967010e-01f));
  vf two_over_ln2 = v_set1(2.885390043e+00f);
  vf product = v_mul(s, two_over_ln2);
  vf low = v_fused(s, two_over_ln2, v_neg(product));
  low = v_fma(s, v_set1(3.851926067e-08f), low);
  low = v_fma(s_low, two_over_ln2, low);
  low = v_fma(v_mul(r, z), s, low);
  vf sum = v_add(parts.exponent, product);  // |exponent| >= |product| or exponent is 0: the error below is exact
  vf sum_low = v_sub(product, v_sub(sum, parts.exponent));
  low = v_add(low, sum_low);
  vf high = v_add(sum, low);
  return {high, v_sub(low, v_sub(high, sum))};
}

// log2(x), or log10(x) with `factor` = log10(2). Powers of 2, or of 10, give whole numbers.
QCG_INLINE vf v_log_of_base(vf x, vf factor, vf factor_low) {
  TwoFloats log2 = v_log2_exact(x);
  vf product = v_mul(log2.high, factor);
  vf low = v_fused(log2.high, factor, v_neg(product));
  low = v_fma(log2.low, factor, v_fma(log2.high, factor_low, low));
  return v_log_of_any(x, v_add(product, low));
}
QCG_INLINE vf v_log2(vf x) { return v_log_of_base(x, v_set1(1.0f), v_zero()); }
QCG_INLINE vf v_log10(vf x) { return v_log_of_base(x, v_set1(3.010300100e-01f), v_set1(-1.432098889e-08f)); }

// 2^(high + low), low small against high.
QCG_INLINE vf v_exp2_of(vf high, vf low) {
  vf bounded = v_clamp(high, v_set1(-160.0f), v_set1(160.0f));
  vf n = v_round_even(bounded);
  vf r = v_add(v_sub(bounded, n), low);
  vf p = v_set1(1.521275681e-05f);
  p = v_fma(p, r, v_set1(1.546659623e-04f));
  p = v_fma(p, r, v_set1(1.333383028e-03f));
  p = v_fma(p, r, v_set1(9.618040174e-03f));
  p = v_fma(p, r, v_set1(5.550410599e-02f));
  p = v_fma(p, r, v_set1(2.402265072e-01f));
  p = v_fma(p, v_mul(r, r), v_mul(r, v_set1(0.693147182f)));
  return v_ldexp(v_add(p, v_set1(1.0f)), n);
}

// IEEE 754 pow: pow(x, 0) = pow(1, y) = 1 even for NaN; a negative base needs an integral exponent.
QCG_INLINE vf v_pow(vf x, vf y) {
  vf zero = v_zero(), one = v_set1(1.0f), inf = v_set1(__builtin_inff());
  vf a = v_abs(x);
  TwoFloats log2 = v_log2_exact(a);
  vf high = v_select(v_eq(a, zero), v_neg(inf), v_select(v_eq(a, inf), inf, log2.high));
  vf t = v_mul(y, high);
  vm finite = v_lt(v_abs(t), v_set1(1000.0f));
  vf low = v_fma(y, log2.low, v_fused(y, high, v_neg(t)));
  vf result = v_exp2_of(t, v_select(finite, low, zero));
  result = v_select(v_eq(a, one), one, result);
  vf half = v_mul(y, v_set1(0.5f));
  vm integral = v_eq(v_trunc(y), y), even = v_eq(v_trunc(half), half);
  vf signed_result = v_select(even, result, v_neg(result));
  vf fractional = v_select(v_eq(a, zero), result, v_select(v_eq(a, inf), result, v_set1(__builtin_nanf(""))));
  vm sign = v_lt(v_copysign(one, x), zero);
  result = v_select(sign, v_select(integral, signed_result, fractional), result);
  result = v_select(v_isnan(x), x, v_select(v_isnan(y), y, result));
  return v_select(v_eq(y, zero), one, v_select(v_eq(x, one), one, result));
}

// The rest of a quotient that has more bits than f32, |a| = m * 2^e of whole m: m mod the divisor's, 32 bits at a time.
__attribute__((noinline, unused)) static void rest_of_large(const float* a, const float* b, const float* q, float limit,
                                                            float* r) {
  for (int i = 0; i < VL; ++i) {
    if (!(q[i] >= limit) || a[i] == __builtin_inff() || b[i] == 0.0f) continue;
    uint64_t m[2];
    int e[2];
    for (int k = 0; k < 2; ++k) {
      uint32_t bits;
      __builtin_memcpy(&bits, k == 0 ? a + i : b + i, 4);
      const int exponent = (int)(bits >> 23 & 255);
      m[k] = (bits & 0x7fffff) | (exponent != 0 ? 0x800000 : 0);
      e[k] = (exponent != 0 ? exponent : 1) - 150;
    }
    uint64_t rest = m[0] % m[1];
    for (int left = e[0] - e[1]; left > 0; left -= 32) rest = (rest << (left < 32 ? left : 32)) % m[1];
    const uint64_t power = (uint64_t)(e[1] + 1023) << 52;
    double scale;
    __builtin_memcpy(&scale, &power, 8);
    r[i] = (float)((double)rest * scale);
  }
}

// |x| - q |y|, exact where q has no more bits than f32. The rounded quotient may be the whole number above it.
QCG_INLINE vf v_fmod(vf x, vf y) {
  const float limit = 4194304.0f;
  vf a = v_abs(x), b = v_abs(y), inf = v_set1(__builtin_inff());
  vf q = v_trunc(v_div(a, b));
  vf r = v_fused(v_neg(q), b, a);
  r = v_select(v_lt(r, v_zero()), v_add(r, b), r);
  if (__builtin_expect(v_any(v_lt(v_set1(limit), q)), 0)) {
    float of_a[VL], of_b[VL], of_q[VL], of_r[VL];
    v_store_f32(of_a, a), v_store_f32(of_b, b), v_store_f32(of_q, q), v_store_f32(of_r, r);
    rest_of_large(of_a, of_b, of_q, limit, of_r);
    r = v_load_f32(of_r);
  }
  r = v_select(v_eq(b, inf), v_select(v_lt(a, inf), a, r), r);
  return v_select(v_isnan(r), r, v_copysign(r, x));
}

// The functions of special.h, one lane at a time.
template <float (*F)(float)>
__attribute__((noinline, unused)) static void map_lanes(const float* x, float* y) {
  for (int i = 0; i < VL; ++i) y[i] = F(x[i]);
}
template <float (*F)(float)>
QCG_INLINE vf v_by_lane(vf x) {
  float of_x[VL], of_y[VL];
  v_store_f32(of_x, x);
  map_lanes<F>(of_x, of_y);
  return v_load_f32(of_y);
}
QCG_INLINE vf v_lgamma(vf x) { return v_by_lane<f_lgamma>(x); }
QCG_INLINE vf v_digamma(vf x) { return v_by_lane<f_digamma>(x); }
QCG_INLINE vf v_erfinv(vf x) { return v_by_lane<f_erfinv>(x); }
QCG_INLINE vf v_ndtri(vf x) { return v_by_lane<f_ndtri>(x); }
QCG_INLINE vf v_i0(vf x) { return v_by_lane<f_i0>(x); }
QCG_INLINE vf v_i0e(vf x) { return v_by_lane<f_i0e>(x); }
QCG_INLINE vf v_i1(vf x) { return v_by_lane<f_i1>(x); }
QCG_INLINE vf v_i1e(vf x) { return v_by_lane<f_i1e>(x); }
QCG_INLINE vf v_erfcx(vf x) { return v_by_lane<f_erfcx>(x); }
QCG_INLINE vf v_log_ndtr(vf x) { return v_by_lane<f_log_ndtr>(x); }
QCG_INLINE vf v_trigamma(vf x) { return v_by_lane<f_trigamma>(x); }
__attribute__((noinline, unused)) static void map_zeta(const float* s, const float* a, float* y) {
  for (int i = 0; i < VL; ++i) y[i] = f_zeta(s[i], a[i]);
}
QCG_INLINE vf v_zeta(vf s, vf a) {
  float of_s[VL], of_a[VL], of_y[VL];
  v_store_f32(of_s, s), v_store_f32(of_a, a);
  map_zeta(of_s, of_a, of_y);
  return v_load_f32(of_y);
}

// A condition is 1 or 0 in f32, as a stored bool is.
QCG_INLINE vf v_gt(vf a, vf b) { return v_select(v_lt(b, a), v_set1(1.0f), v_zero()); }
QCG_INLINE vf v_ge(vf a, vf b) { return v_select(v_eq(a, b), v_set1(1.0f), v_gt(a, b)); }
QCG_INLINE vf v_where(vf condition, vf yes, vf no) { return v_select(v_eq(condition, v_zero()), no, yes); }

// Rounding through a dtype, for the casts of an expression: the value comes back as f32. An integer is neither NaN nor
// infinite: NaN becomes 0, and i64 saturates. The low bits that the narrow types keep of a NaN's conversion are 0 already.
QCG_INLINE vf v_nan_to_zero(vf x) { return v_select(v_isnan(x), v_zero(), x); }
QCG_INLINE vf v_cast_f32(vf x) { return x; }
QCG_INLINE vf v_cast_i32(vf x) { return vi_to_f(v_to_i_trunc(v_nan_to_zero(x))); }
QCG_INLINE vf v_cast_i64(vf x) { return v_trunc(v_clamp(v_nan_to_zero(x), v_set1(-0x1p63f), v_set1(0x1p63f))); }
QCG_INLINE vf v_cast_i16(vf x) { return vi_to_f(vi_sra(vi_shl(v_to_i_trunc(x), 16), 16)); }
QCG_INLINE vf v_cast_i8(vf x) { return vi_to_f(vi_sra(vi_shl(v_to_i_trunc(x), 24), 24)); }
QCG_INLINE vf v_cast_u8(vf x) { return vi_to_f(vi_and(v_to_i_trunc(x), vi_set1(255))); }
QCG_INLINE vf v_cast_bool(vf x) { return v_select(v_eq(x, v_zero()), v_zero(), v_set1(1.0f)); }

#include "float8.h"
#include "integers.h"
#define QCG_MATH(f) __builtin_##f
#include "doubles.h"
