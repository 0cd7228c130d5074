// The functions of graph/ir/expr.h on one f32, and loads and stores of every dtype an epilogue may touch.
//
// Why here: epilogues are printed with these names; they are the CUDA twins of templates/cpu/vector_math.h.
//
//   y[e] = s_mul(s_silu(acc0), acc1);  …  store_bf16<4>(out, at, y, 4);
//
// Meaning as there: NaN wins min, max, clamp and relu; stores to bf16 and f16 round to nearest even and keep NaN; casts to
// integers truncate and wrap.
#pragma once

#define QCG_INLINE QCG_DEVICE  // of special.h, integers.h and doubles.h
#define QCG_MATH(f) f

QCG_DEVICE float s_infinity() { return __int_as_float(0x7f800000); }
QCG_DEVICE float s_nan() { return __int_as_float(0x7fc00000); }
QCG_DEVICE float s_add(float a, float b) { return a + b; }
QCG_DEVICE float s_sub(float a, float b) { return a - b; }
QCG_DEVICE float s_mul(float a, float b) { return a * b; }
QCG_DEVICE float s_div(float a, float b) { return a / b; }
QCG_DEVICE float s_max(float a, float b) { return a > b || a != a ? a : b; }
QCG_DEVICE float s_min(float a, float b) { return a < b || a != a ? a : b; }
QCG_DEVICE float s_pow(float a, float b) { return powf(a, b); }
QCG_DEVICE float s_square(float x) { return x * x; }
QCG_DEVICE float s_cube(float x) { return x * x * x; }
QCG_DEVICE float s_neg(float x) { return -x; }
QCG_DEVICE float s_abs(float x) { return fabsf(x); }
QCG_DEVICE float s_reciprocal(float x) { return 1.0f / x; }
QCG_DEVICE float s_relu(float x) { return s_max(x, 0.0f); }
QCG_DEVICE float s_sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
QCG_DEVICE float s_silu(float x) { return x * s_sigmoid(x); }
QCG_DEVICE float s_gelu(float x) { return x * normcdff(x); }
QCG_DEVICE float s_gelu_tanh(float x) { return x * s_sigmoid(x * (1.59576912161f + 0.0713548162726f * (x * x))); }
QCG_DEVICE float s_tanh(float x) { return tanhf(x); }
QCG_DEVICE float s_exp(float x) { return expf(x); }
QCG_DEVICE float s_log(float x) { return logf(x); }
QCG_DEVICE float s_log1p(float x) { return log1pf(x); }
QCG_DEVICE float s_log2(float x) { return log2f(x); }
QCG_DEVICE float s_log10(float x) { return log10f(x); }
QCG_DEVICE float s_expm1(float x) { return expm1f(x); }
QCG_DEVICE float s_sqrt(float x) { return sqrtf(x); }
QCG_DEVICE float s_rsqrt(float x) { return 1.0f / sqrtf(x); }
QCG_DEVICE float s_round_even(float x) { return rintf(x); }
QCG_DEVICE float s_floor(float x) { return floorf(x); }
QCG_DEVICE float s_gt(float a, float b) { return a > b ? 1.0f : 0.0f; }
QCG_DEVICE float s_ge(float a, float b) { return a >= b ? 1.0f : 0.0f; }
QCG_DEVICE float s_where(float condition, float yes, float no) { return condition != 0.0f ? yes : no; }
QCG_DEVICE float s_clamp(float x, float lo, float hi) { return s_min(s_max(x, lo), hi); }
QCG_DEVICE float s_sin(float x) { return sinf(x); }
QCG_DEVICE float s_cos(float x) { return cosf(x); }
QCG_DEVICE float s_erf(float x) { return erff(x); }
QCG_DEVICE float s_atan(float x) { return atanf(x); }
QCG_DEVICE float s_fmod(float a, float b) { return fmodf(a, b); }
QCG_DEVICE double s_root(double x) { return sqrt(x); }
#include "special.h"
QCG_DEVICE float s_lgamma(float x) { return f_lgamma(x); }
QCG_DEVICE float s_digamma(float x) { return f_digamma(x); }
QCG_DEVICE float s_erfinv(float x) { return f_erfinv(x); }
QCG_DEVICE float s_ndtri(float x) { return f_ndtri(x); }
QCG_DEVICE float s_i0(float x) { return f_i0(x); }
QCG_DEVICE float s_i0e(float x) { return f_i0e(x); }
QCG_DEVICE float s_i1(float x) { return f_i1(x); }
QCG_DEVICE float s_i1e(float x) { return f_i1e(x); }
QCG_DEVICE float s_erfcx(float x) { return f_erfcx(x); }
QCG_DEVICE float s_log_ndtr(float x) { return f_log_ndtr(x); }
QCG_DEVICE float s_trigamma(float x) { return f_trigamma(x); }
QCG_DEVICE float s_zeta(float s, float a) { return f_zeta(s, a); }

QCG_DEVICE float f32_of_bf16(unsigned short h) { return __int_as_float((int)((unsigned)h << 16)); }
QCG_DEVICE unsigned short bf16_of_f32(float x) {
  const unsigned bits = (unsigned)__float_as_int(x);
  return x != x ? 0x7fc0 : (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

QCG_DEVICE float s_cast_f32(float x) { return x; }
QCG_DEVICE float s_cast_bf16(float x) { return f32_of_bf16(bf16_of_f32(x)); }
QCG_DEVICE float s_cast_f16(float x) { return f32_of_f16(f16_of_f32(x)); }
QCG_DEVICE float s_cast_i8(float x) { return (float)(signed char)(int)x; }
QCG_DEVICE float s_cast_i16(float x) { return (float)(short)(int)x; }
QCG_DEVICE float s_cast_u8(float x) { return (float)(unsigned char)(int)x; }
QCG_DEVICE float s_cast_i32(float x) { return (float)(int)x; }
// An integer is neither NaN nor infinite: NaN becomes 0, and i64 saturates.
QCG_DEVICE float s_cast_i64(float x) { return x != x ? 0.0f : truncf(s_clamp(x, -0x1p63f, 0x1p63f)); }
QCG_DEVICE float s_cast_bool(float x) { return x == 0.0f ? 0.0f : 1.0f; }

// The first `count` of W elements from element i on; four that lie at a multiple of their bytes at once. WHOLE: the caller
// knows that they do.
QCG_DEVICE bool is_whole(const void* p, int width, int count, int bytes) {
  return width == 4 && count == 4 && ((unsigned long long)p & (unsigned long long)(4 * bytes - 1)) == 0;
}
template <int W, bool WHOLE = false>
QCG_DEVICE void load_f32(float (&v)[W], const void* p, long long i, int count) {
  const float* const from = (const float*)p + i;
  if (WHOLE || is_whole(from, W, count, 4)) {
    const float4 all = *(const float4*)from;
    v[0] = all.x, v[W > 1 ? 1 : 0] = all.y, v[W > 2 ? 2 : 0] = all.z, v[W > 3 ? 3 : 0] = all.w;
    return;
  }
#pragma unroll
  for (int e = 0; e < W; ++e) v[e] = e < count ? from[e] : 0.0f;
}
template <int W, bool WHOLE = false>
QCG_DEVICE void store_f32(void* p, long long i, const float (&v)[W], int count) {
  float* const to = (float*)p + i;
  if (WHOLE || is_whole(to, W, count, 4)) {
    *(float4*)to = make_float4(v[0], v[W > 1 ? 1 : 0], v[W > 2 ? 2 : 0], v[W > 3 ? 3 : 0]);
    return;
  }
#pragma unroll
  for (int e = 0; e < W; ++e)
    if (e < count) to[e] = v[e];
}
// Sums of integers as they are.
template <int W>
QCG_DEVICE void load_i32(int (&v)[W], const void* p, long long i, int count) {
#pragma unroll
  for (int e = 0; e < W; ++e) v[e] = e < count ? ((const int*)p)[i + e] : 0;
}
template <int W, bool WHOLE = false>
QCG_DEVICE void store_i32(void* p, long long i, const int (&v)[W], int count) {
  int* const to = (int*)p + i;
  if (WHOLE || is_whole(to, W, count, 4)) {
    *(int4*)to = make_int4(v[0], v[W > 1 ? 1 : 0], v[W > 2 ? 2 : 0], v[W > 3 ? 3 : 0]);
    return;
  }
#pragma unroll
  for (int e = 0; e < W; ++e)
    if (e < count) to[e] = v[e];
}
#define QCG_HALVES(name)                                                                                    \
  template <int W, bool WHOLE = false>                                                                      \
  QCG_DEVICE void load_##name(float (&v)[W], const void* p, long long i, int count) {                       \
    const unsigned short* const from = (const unsigned short*)p + i;                                        \
    if (WHOLE || is_whole(from, W, count, 2)) {                                                             \
      const ushort4 all = *(const ushort4*)from;                                                            \
      v[0] = f32_of_##name(all.x), v[W > 1 ? 1 : 0] = f32_of_##name(all.y);                                 \
      v[W > 2 ? 2 : 0] = f32_of_##name(all.z), v[W > 3 ? 3 : 0] = f32_of_##name(all.w);                     \
      return;                                                                                               \
    }                                                                                                       \
    _Pragma("unroll") for (int e = 0; e < W; ++e) v[e] = e < count ? f32_of_##name(from[e]) : 0.0f;         \
  }                                                                                                         \
  template <int W, bool WHOLE = false>                                                                      \
  QCG_DEVICE void store_##name(void* p, long long i, const float (&v)[W], int count) {                      \
    unsigned short* const to = (unsigned short*)p + i;                                                      \
    if (WHOLE || is_whole(to, W, count, 2)) {                                                               \
      *(ushort4*)to = make_ushort4(name##_of_f32(v[0]), name##_of_f32(v[W > 1 ? 1 : 0]),                    \
                                   name##_of_f32(v[W > 2 ? 2 : 0]), name##_of_f32(v[W > 3 ? 3 : 0]));       \
      return;                                                                                               \
    }                                                                                                       \
    _Pragma("unroll") for (int e = 0; e < W; ++e) if (e < count) to[e] = name##_of_f32(v[e]);               \
  }
QCG_HALVES(bf16)
QCG_HALVES(f16)
#undef QCG_HALVES
