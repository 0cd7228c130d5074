// Elements of every dtype as f32, a few side by side at once: what loops, row programs and reductions read and write.
//
// Why here: scalar_math.cuh has the dtypes that an epilogue may touch; these kernels touch all.
//
//   float x[4];  load<Stored_bf16>(x, p, count);  …  store<Stored_i8>(q, x, count);      // the first `count` of four
//   load<Stored_f32>(x, p, stride, count);                                               // `stride` elements apart
//
// Meaning as in templates/cpu: stores to floats round to nearest even; those to integers truncate and wrap; e4m3
// saturates (templates/cpu/float8.h).
#pragma once

#ifdef __CUDACC_RTC__  // NVRTC has no system headers
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT64_C(x) x##LL
#else
#include <stdint.h>
#endif

// EXPONENT bits of exponent, 7 - EXPONENT of mantissa: float8.h on one number.
template <int EXPONENT>
QCG_DEVICE float f32_of_f8(unsigned code) {
  const unsigned bits = code & 0x7f;
  float x = __int_as_float((int)(bits << (16 + EXPONENT))) * (EXPONENT == 4 ? 0x1p120f : 0x1p112f);
  if (EXPONENT == 5 ? bits > 0x7c : bits == 0x7f) x = s_nan();
  if (EXPONENT == 5 && bits == 0x7c) x = s_infinity();
  return code & 0x80 ? -x : x;
}
template <int EXPONENT>
QCG_DEVICE unsigned char f8_of_f32(float x) {
  constexpr int kShift = 16 + EXPONENT, kBias = EXPONENT == 4 ? 120 : 112;  // f32's bias less that of the format
  const unsigned sign = (unsigned)__float_as_int(x) >> 24 & 0x80;
  float a = fabsf(x);
  if (x != x) return (unsigned char)(sign | 0x7f);
  if (EXPONENT == 4) a = fminf(a, 448.0f);
  if (a < (EXPONENT == 4 ? 0x1p-6f : 0x1p-14f))
    return (unsigned char)(sign | (unsigned)(int)rintf(a * (EXPONENT == 4 ? 0x1p9f : 0x1p16f)));
  const unsigned bits = (unsigned)__float_as_int(a);
  const unsigned code = ((bits + (bits >> kShift & 1) + ((1u << (kShift - 1)) - 1)) >> kShift) - (kBias << (7 - EXPONENT));
  return (unsigned char)(sign | (EXPONENT == 5 && code > 0x7c ? 0x7c : code));
}
QCG_DEVICE float s_cast_f8e4m3(float x) { return f32_of_f8<4>(f8_of_f32<4>(x)); }
QCG_DEVICE float s_cast_f8e5m2(float x) { return f32_of_f8<5>(f8_of_f32<5>(x)); }

#define QCG_STORED(name, type, to_f32, to_type)        \
  struct Stored_##name {                               \
    using Type = type;                                 \
    QCG_DEVICE float read(type x) { return to_f32; }   \
    QCG_DEVICE type write(float x) { return to_type; } \
  };
QCG_STORED(f32, float, x, x)
QCG_STORED(f64, double, (float)x, (double)x)
QCG_STORED(bf16, unsigned short, f32_of_bf16(x), bf16_of_f32(x))
QCG_STORED(f16, unsigned short, f32_of_f16(x), f16_of_f32(x))
QCG_STORED(f8e4m3, unsigned char, f32_of_f8<4>(x), f8_of_f32<4>(x))
QCG_STORED(f8e5m2, unsigned char, f32_of_f8<5>(x), f8_of_f32<5>(x))
QCG_STORED(i8, signed char, (float)x, (signed char)(int)x)
QCG_STORED(u8, unsigned char, (float)x, (unsigned char)(int)x)
QCG_STORED(i16, short, (float)x, (short)(int)x)
QCG_STORED(i32, int, (float)x, (int)x)
QCG_STORED(i64, long long, (float)x, (long long)x)
QCG_STORED(bool, unsigned char, x ? 1.0f : 0.0f, x == 0.0f ? 0 : 1)
#undef QCG_STORED
// A bare exponent: 0 is 2^-127, 255 is NaN. It is only read.
struct Stored_f8e8m0 {
  using Type = unsigned char;
  QCG_DEVICE float read(unsigned char x) {
    return x == 255 ? s_nan() : x == 0 ? 0x1p-127f : __int_as_float((int)x << 23);
  }
};

// W elements at a multiple of their bytes, 16 of them at most.
template <class T, int W>
struct alignas(W * sizeof(T) < 16 ? W * sizeof(T) : 16) Side {
  T at[W];
};
template <class T, int W>
QCG_DEVICE bool is_side(const T* p, int count) {
  return W > 1 && count == W && ((unsigned long long)p & (alignof(Side<T, W>) - 1)) == 0;
}

// The first `count` elements side by side; the others are 0.
template <class S, int W>
QCG_DEVICE void load(float (&v)[W], const typename S::Type* p, int count) {
  if (is_side<typename S::Type, W>(p, count)) {
    const auto all = *(const Side<typename S::Type, W>*)p;
#pragma unroll
    for (int e = 0; e < W; ++e) v[e] = S::read(all.at[e]);
    return;
  }
#pragma unroll
  for (int e = 0; e < W; ++e) v[e] = e < count ? S::read(p[e]) : 0.0f;
}
template <class S, int W>
QCG_DEVICE void load(float (&v)[W], const typename S::Type* p, long long stride, int count) {
#pragma unroll
  for (int e = 0; e < W; ++e) v[e] = e < count ? S::read(p[e * stride]) : 0.0f;
}
template <class S, int W>
QCG_DEVICE void store(typename S::Type* p, const float (&v)[W], int count) {
  if (is_side<typename S::Type, W>(p, count)) {
    Side<typename S::Type, W> all;
#pragma unroll
    for (int e = 0; e < W; ++e) all.at[e] = S::write(v[e]);
    *(Side<typename S::Type, W>*)p = all;
    return;
  }
#pragma unroll
  for (int e = 0; e < W; ++e)
    if (e < count) p[e] = S::write(v[e]);
}
template <class S, int W>
QCG_DEVICE void store(typename S::Type* p, long long stride, const float (&v)[W], int count) {
  if (stride == 1) return store<S>(p, v, count);
#pragma unroll
  for (int e = 0; e < W; ++e)
    if (e < count) p[e * stride] = S::write(v[e]);
}

// Elements as they are.
template <int W, class T>
QCG_DEVICE void move(T* to, long long to_stride, const T* from, long long from_stride, int count) {
  if (to_stride == 1 && from_stride == 1 && is_side<T, W>(from, count) && is_side<T, W>(to, count)) {
    *(Side<T, W>*)to = *(const Side<T, W>*)from;
    return;
  }
#pragma unroll
  for (int e = 0; e < W; ++e)
    if (e < count) to[e * to_stride] = from[e * from_stride];
}
