// Portable vector primitives of generated kernels: 8 f32 lanes in two 16-byte compiler vectors, no instruction set named.
//
// Why here: templates name these functions only; avx2.h and avx512.h define the same names, so one template serves all.
// This one needs GCC or clang and any machine with 16-byte vectors (SSE2, NEON): a real vector path, not a scalar loop.
//
//   for (; i < n; i += VL) v_store_bf16_n(y + i, v_silu(v_load_bf16_n(x + i, left)), left);   // left = min(n - i, VL)
//
// Arithmetic is f32 whatever the storage type. The _n forms touch exactly n in [0, VL] elements; absent lanes read as 0.
// v_fma rounds the product too unless the machine's fused multiply-add is as fast. v_min and v_max return NaN if either
// argument is NaN. Stores to bf16 and f16 round to nearest even and keep NaN; stores to integers truncate toward zero and
// wrap, as torch's .to() does, except the _sat forms, which round to nearest even and saturate (NaN stores the smallest).
#pragma once
#include <stddef.h>
#include <stdint.h>

#define QCG_INLINE static inline __attribute__((always_inline))
typedef uint16_t qcg_bf16;
typedef uint16_t qcg_f16;
typedef float qcg_f4 __attribute__((vector_size(16)));
typedef int32_t qcg_i4 __attribute__((vector_size(16)));
typedef uint32_t qcg_u4 __attribute__((vector_size(16)));
typedef double qcg_d2 __attribute__((vector_size(16)));

// Structs of halves, because a compiler vector wider than the machine's lives in memory.
struct vf {
  qcg_f4 lo, hi;
};
struct vi {
  qcg_i4 lo, hi;
};
typedef vi vm;  // all bits of a lane set or clear
constexpr int VL = 8;

// Arithmetic.
QCG_INLINE qcg_f4 f4_set1(float x) { return qcg_f4{x, x, x, x}; }
QCG_INLINE qcg_i4 i4_set1(int32_t x) { return qcg_i4{x, x, x, x}; }
QCG_INLINE qcg_f4 f4_select(qcg_i4 m, qcg_f4 yes, qcg_f4 no) { return (qcg_f4)((m & (qcg_i4)yes) | (~m & (qcg_i4)no)); }
QCG_INLINE vf v_set1(float x) { return {f4_set1(x), f4_set1(x)}; }
QCG_INLINE vf v_zero() { return v_set1(0.0f); }
QCG_INLINE vf v_add(vf a, vf b) { return {a.lo + b.lo, a.hi + b.hi}; }
QCG_INLINE vf v_sub(vf a, vf b) { return {a.lo - b.lo, a.hi - b.hi}; }
QCG_INLINE vf v_mul(vf a, vf b) { return {a.lo * b.lo, a.hi * b.hi}; }
QCG_INLINE vf v_div(vf a, vf b) { return {a.lo / b.lo, a.hi / b.hi}; }
QCG_INLINE qcg_f4 f4_fma(qcg_f4 a, qcg_f4 b, qcg_f4 c) {
#ifdef __FP_FAST_FMAF
  return qcg_f4{__builtin_fmaf(a[0], b[0], c[0]), __builtin_fmaf(a[1], b[1], c[1]), __builtin_fmaf(a[2], b[2], c[2]),
                __builtin_fmaf(a[3], b[3], c[3])};
#else
  return a * b + c;
#endif
}
QCG_INLINE vf v_fma(vf a, vf b, vf c) { return {f4_fma(a.lo, b.lo, c.lo), f4_fma(a.hi, b.hi, c.hi)}; }
// a * b + c rounded once: the product of two floats is exact in double. For error terms, where v_fma would return 0.
QCG_INLINE qcg_f4 f4_fused(qcg_f4 a, qcg_f4 b, qcg_f4 c) {
  qcg_d2 low = qcg_d2{a[0], a[1]} * qcg_d2{b[0], b[1]} + qcg_d2{c[0], c[1]};
  qcg_d2 high = qcg_d2{a[2], a[3]} * qcg_d2{b[2], b[3]} + qcg_d2{c[2], c[3]};
  return qcg_f4{(float)low[0], (float)low[1], (float)high[0], (float)high[1]};
}
QCG_INLINE vf v_fused(vf a, vf b, vf c) { return {f4_fused(a.lo, b.lo, c.lo), f4_fused(a.hi, b.hi, c.hi)}; }
QCG_INLINE vf v_neg(vf x) { return {-x.lo, -x.hi}; }
QCG_INLINE qcg_f4 f4_abs(qcg_f4 x) { return (qcg_f4)((qcg_i4)x & i4_set1(0x7fffffff)); }
QCG_INLINE vf v_abs(vf x) { return {f4_abs(x.lo), f4_abs(x.hi)}; }
QCG_INLINE qcg_f4 f4_sqrt(qcg_f4 x) {
  return qcg_f4{__builtin_sqrtf(x[0]), __builtin_sqrtf(x[1]), __builtin_sqrtf(x[2]), __builtin_sqrtf(x[3])};
}
QCG_INLINE vf v_sqrt(vf x) { return {f4_sqrt(x.lo), f4_sqrt(x.hi)}; }
QCG_INLINE qcg_f4 f4_copysign(qcg_f4 magnitude, qcg_f4 sign) {
  return (qcg_f4)((qcg_i4)f4_abs(magnitude) | ((qcg_i4)sign & i4_set1(INT32_MIN)));
}
QCG_INLINE vf v_copysign(vf m, vf s) { return {f4_copysign(m.lo, s.lo), f4_copysign(m.hi, s.hi)}; }
// From 2^23 on every float is an integer; below, adding and subtracting 2^23 rounds to even.
QCG_INLINE qcg_f4 f4_round_even(qcg_f4 x) {
  qcg_f4 a = f4_abs(x), big = f4_set1(8388608.0f);
  return f4_select(a < big, f4_copysign((a + big) - big, x), x);
}
QCG_INLINE qcg_f4 f4_floor(qcg_f4 x) {
  qcg_f4 r = f4_round_even(x);
  return f4_copysign(r - f4_select(r > x, f4_set1(1.0f), f4_set1(0.0f)), x);
}
QCG_INLINE qcg_f4 f4_trunc(qcg_f4 x) { return f4_copysign(f4_floor(f4_abs(x)), x); }
QCG_INLINE vf v_round_even(vf x) { return {f4_round_even(x.lo), f4_round_even(x.hi)}; }
QCG_INLINE vf v_floor(vf x) { return {f4_floor(x.lo), f4_floor(x.hi)}; }
QCG_INLINE vf v_trunc(vf x) { return {f4_trunc(x.lo), f4_trunc(x.hi)}; }

// Comparison and selection.
QCG_INLINE vm v_lt(vf a, vf b) { return {a.lo < b.lo, a.hi < b.hi}; }
QCG_INLINE vm v_eq(vf a, vf b) { return {a.lo == b.lo, a.hi == b.hi}; }
QCG_INLINE vm v_isnan(vf x) { return {x.lo != x.lo, x.hi != x.hi}; }
QCG_INLINE bool v_any(vm m) {
  qcg_i4 both = m.lo | m.hi;
  return (both[0] | both[1] | both[2] | both[3]) != 0;
}
QCG_INLINE vf v_select(vm m, vf yes, vf no) { return {f4_select(m.lo, yes.lo, no.lo), f4_select(m.hi, yes.hi, no.hi)}; }
// False for an unordered pair, so b is kept unless a is larger or a is the NaN.
QCG_INLINE qcg_f4 f4_max(qcg_f4 a, qcg_f4 b) { return f4_select((a > b) | (a != a), a, b); }
QCG_INLINE qcg_f4 f4_min(qcg_f4 a, qcg_f4 b) { return f4_select((a < b) | (a != a), a, b); }
QCG_INLINE vf v_max(vf a, vf b) { return {f4_max(a.lo, b.lo), f4_max(a.hi, b.hi)}; }
QCG_INLINE vf v_min(vf a, vf b) { return {f4_min(a.lo, b.lo), f4_min(a.hi, b.hi)}; }
// Between two numbers; NaN stays NaN.
QCG_INLINE vf v_bound(vf x, float low, float high) {
  x = v_select(v_lt(x, v_set1(low)), v_set1(low), x);
  return v_select(v_lt(v_set1(high), x), v_set1(high), x);
}

// Integers. v_to_i_* of values outside int32 are unspecified: clamp first.
QCG_INLINE vi vi_set1(int32_t x) { return {i4_set1(x), i4_set1(x)}; }
QCG_INLINE qcg_i4 i4_wrap(qcg_u4 x) { return (qcg_i4)x; }
QCG_INLINE vi vi_add(vi a, vi b) {
  return {i4_wrap((qcg_u4)a.lo + (qcg_u4)b.lo), i4_wrap((qcg_u4)a.hi + (qcg_u4)b.hi)};
}
QCG_INLINE vi vi_sub(vi a, vi b) {
  return {i4_wrap((qcg_u4)a.lo - (qcg_u4)b.lo), i4_wrap((qcg_u4)a.hi - (qcg_u4)b.hi)};
}
QCG_INLINE vi vi_mul(vi a, vi b) {
  return {i4_wrap((qcg_u4)a.lo * (qcg_u4)b.lo), i4_wrap((qcg_u4)a.hi * (qcg_u4)b.hi)};
}
QCG_INLINE vi vi_and(vi a, vi b) { return {a.lo & b.lo, a.hi & b.hi}; }
QCG_INLINE vi vi_shl(vi x, int k) { return {i4_wrap((qcg_u4)x.lo << k), i4_wrap((qcg_u4)x.hi << k)}; }
QCG_INLINE vi vi_sra(vi x, int k) { return {x.lo >> k, x.hi >> k}; }
QCG_INLINE vm vi_test(vi x, int32_t bit) { return {(x.lo & i4_set1(bit)) != 0, (x.hi & i4_set1(bit)) != 0}; }
QCG_INLINE vf vi_to_f(vi x) { return {__builtin_convertvector(x.lo, qcg_f4), __builtin_convertvector(x.hi, qcg_f4)}; }
QCG_INLINE vi v_to_i_trunc(vf x) {
  return {__builtin_convertvector(x.lo, qcg_i4), __builtin_convertvector(x.hi, qcg_i4)};
}
QCG_INLINE vi v_to_i_round(vf x) { return v_to_i_trunc(v_round_even(x)); }
QCG_INLINE vi v_bits(vf x) { return {(qcg_i4)x.lo, (qcg_i4)x.hi}; }
QCG_INLINE vf v_from_bits(vi x) { return {(qcg_f4)x.lo, (qcg_f4)x.hi}; }

// Memory. Tails go through eight elements on the stack.
template <class T>
struct Quad {
  typedef T type __attribute__((vector_size(4 * sizeof(T))));
};
template <class To, class From>
QCG_INLINE To load_as(const From* p) {  // two quads of From, converted lane by lane
  typename Quad<From>::type lo, hi;
  __builtin_memcpy(&lo, p, sizeof lo);
  __builtin_memcpy(&hi, p + 4, sizeof hi);
  return {__builtin_convertvector(lo, decltype(To::lo)), __builtin_convertvector(hi, decltype(To::hi))};
}
template <class To, class From>
QCG_INLINE To load_as_n(const From* p, int n) {
  From lanes[8] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return load_as<To>(lanes);
}
template <class To, class From>
QCG_INLINE void store_as(To* p, From x) {
  auto lo = __builtin_convertvector(x.lo, typename Quad<To>::type);
  auto hi = __builtin_convertvector(x.hi, typename Quad<To>::type);
  __builtin_memcpy(p, &lo, sizeof lo);
  __builtin_memcpy(p + 4, &hi, sizeof hi);
}
template <class To, class From>
QCG_INLINE void store_as_n(To* p, From x, int n) {
  To lanes[8];
  store_as(lanes, x);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
QCG_INLINE vi vi_load(const int32_t* p) { return load_as<vi>(p); }
QCG_INLINE vi vi_load_n(const int32_t* p, int n) { return load_as_n<vi>(p, n); }
QCG_INLINE void vi_store(int32_t* p, vi x) { store_as(p, x); }
QCG_INLINE void vi_store_n(int32_t* p, vi x, int n) { store_as_n(p, x, n); }
QCG_INLINE void vi_store_i8(int8_t* p, vi x) { store_as(p, x); }
QCG_INLINE void vi_store_i8_n(int8_t* p, vi x, int n) { store_as_n(p, x, n); }
QCG_INLINE void vi_store_u8(uint8_t* p, vi x) { store_as(p, x); }
QCG_INLINE void vi_store_u8_n(uint8_t* p, vi x, int n) { store_as_n(p, x, n); }

// Between f32 lanes and 16-bit storage; the 16 bits travel in the low half of an i32 lane.
QCG_INLINE qcg_f4 f4_from_f16(qcg_i4 h) {
  qcg_f4 scaled = (qcg_f4)((h & 0x7fff) << 13) * 0x1p112f;  // rebias the exponent; right for denormals too
  qcg_i4 special = ((h & 0x7c00) == 0x7c00) & 0x7f800000;
  return (qcg_f4)((qcg_i4)scaled | special | ((h & 0x8000) << 16));
}
QCG_INLINE qcg_i4 f4_to_f16(qcg_f4 x) {
  qcg_i4 bits = (qcg_i4)x, a = bits & 0x7fffffff;
  qcg_i4 normal = (a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13;     // may carry into the exponent, up to inf
  qcg_i4 denormal = (qcg_i4)((qcg_f4)a + 0.5f) - 0x3f000000;           // 0.5f has the f16 denormal spacing as its ulp
  qcg_i4 special = 0x7c00 | ((a > 0x7f800000) & 0x0200);
  qcg_i4 is_big = a >= 0x47800000, is_small = a < 0x38800000;
  qcg_i4 h = (is_big & special) | (~is_big & ((is_small & denormal) | (~is_small & normal)));
  return h | ((bits >> 16) & 0x8000);
}
QCG_INLINE qcg_i4 f4_round_bf16(qcg_f4 x) {
  qcg_u4 bits = (qcg_u4)x;
  qcg_i4 rounded = (qcg_i4)(bits + ((bits >> 16) & 1u) + 0x7fffu), nan = x != x;
  return (nan & 0x7fc00000) | (~nan & rounded);
}
QCG_INLINE vf v_from_f16(vi h) { return {f4_from_f16(h.lo), f4_from_f16(h.hi)}; }
QCG_INLINE vi v_to_f16(vf x) { return {f4_to_f16(x.lo), f4_to_f16(x.hi)}; }
QCG_INLINE vf v_from_bf16(vi h) { return v_from_bits(vi_shl(h, 16)); }
QCG_INLINE vi v_to_bf16(vf x) { return vi_sra({f4_round_bf16(x.lo), f4_round_bf16(x.hi)}, 16); }
QCG_INLINE vf v_cast_bf16(vf x) { return v_from_bf16(v_to_bf16(x)); }
QCG_INLINE vf v_cast_f16(vf x) { return v_from_f16(v_to_f16(x)); }
QCG_INLINE vf v_from_bool(vi x) { return {(qcg_f4)((x.lo != 0) & 0x3f800000), (qcg_f4)((x.hi != 0) & 0x3f800000)}; }

// Loads.
QCG_INLINE vf v_load_f32(const float* p) { return load_as<vf>(p); }
QCG_INLINE vf v_load_f32_n(const float* p, int n) { return load_as_n<vf>(p, n); }
QCG_INLINE vf v_load_bf16(const qcg_bf16* p) { return v_from_bf16(load_as<vi>(p)); }
QCG_INLINE vf v_load_bf16_n(const qcg_bf16* p, int n) { return v_from_bf16(load_as_n<vi>(p, n)); }
QCG_INLINE vf v_load_f16(const qcg_f16* p) { return v_from_f16(load_as<vi>(p)); }
QCG_INLINE vf v_load_f16_n(const qcg_f16* p, int n) { return v_from_f16(load_as_n<vi>(p, n)); }
QCG_INLINE vf v_load_i8(const int8_t* p) { return vi_to_f(load_as<vi>(p)); }
QCG_INLINE vf v_load_i8_n(const int8_t* p, int n) { return vi_to_f(load_as_n<vi>(p, n)); }
QCG_INLINE vi vi_load_u8(const uint8_t* p) { return load_as<vi>(p); }
QCG_INLINE vf v_load_u8(const uint8_t* p) { return vi_to_f(load_as<vi>(p)); }
QCG_INLINE vf v_load_u8_n(const uint8_t* p, int n) { return vi_to_f(load_as_n<vi>(p, n)); }
QCG_INLINE vf v_load_i16(const int16_t* p) { return vi_to_f(load_as<vi>(p)); }
QCG_INLINE vf v_load_i16_n(const int16_t* p, int n) { return vi_to_f(load_as_n<vi>(p, n)); }
QCG_INLINE vf v_load_bool(const uint8_t* p) { return v_from_bool(load_as<vi>(p)); }
QCG_INLINE vf v_load_bool_n(const uint8_t* p, int n) { return v_from_bool(load_as_n<vi>(p, n)); }
QCG_INLINE vf v_load_i32(const int32_t* p) { return vi_to_f(vi_load(p)); }
QCG_INLINE vf v_load_i32_n(const int32_t* p, int n) { return vi_to_f(vi_load_n(p, n)); }
QCG_INLINE vf v_load_i64(const int64_t* p) { return load_as<vf>(p); }
QCG_INLINE vf v_load_i64_n(const int64_t* p, int n) { return load_as_n<vf>(p, n); }
QCG_INLINE vf v_load_f64(const double* p) { return load_as<vf>(p); }
QCG_INLINE vf v_load_f64_n(const double* p, int n) { return load_as_n<vf>(p, n); }

// Stores.
QCG_INLINE void v_store_f32(float* p, vf x) { store_as(p, x); }
QCG_INLINE void v_store_f32_n(float* p, vf x, int n) { store_as_n(p, x, n); }
QCG_INLINE void v_store_bf16(qcg_bf16* p, vf x) { store_as(p, v_to_bf16(x)); }
QCG_INLINE void v_store_bf16_n(qcg_bf16* p, vf x, int n) { store_as_n(p, v_to_bf16(x), n); }
QCG_INLINE void v_store_f16(qcg_f16* p, vf x) { store_as(p, v_to_f16(x)); }
QCG_INLINE void v_store_f16_n(qcg_f16* p, vf x, int n) { store_as_n(p, v_to_f16(x), n); }
QCG_INLINE void v_store_i32(int32_t* p, vf x) { vi_store(p, v_to_i_trunc(x)); }
QCG_INLINE void v_store_i32_n(int32_t* p, vf x, int n) { vi_store_n(p, v_to_i_trunc(x), n); }
QCG_INLINE void v_store_i64(int64_t* p, vf x) { store_as(p, x); }
QCG_INLINE void v_store_i64_n(int64_t* p, vf x, int n) { store_as_n(p, x, n); }
QCG_INLINE void v_store_f64(double* p, vf x) { store_as(p, x); }
QCG_INLINE void v_store_f64_n(double* p, vf x, int n) { store_as_n(p, x, n); }
QCG_INLINE void v_store_i8(int8_t* p, vf x) { vi_store_i8(p, v_to_i_trunc(x)); }
QCG_INLINE void v_store_i8_n(int8_t* p, vf x, int n) { vi_store_i8_n(p, v_to_i_trunc(x), n); }
QCG_INLINE void v_store_u8(uint8_t* p, vf x) { vi_store_u8(p, v_to_i_trunc(x)); }
QCG_INLINE void v_store_u8_n(uint8_t* p, vf x, int n) { vi_store_u8_n(p, v_to_i_trunc(x), n); }
QCG_INLINE void v_store_i16(int16_t* p, vf x) { store_as(p, v_to_i_trunc(x)); }
QCG_INLINE void v_store_i16_n(int16_t* p, vf x, int n) { store_as_n(p, v_to_i_trunc(x), n); }
QCG_INLINE vf v_saturate(vf x, float low, float high) {  // NaN compares false and becomes low
  vf lo = v_set1(low), hi = v_set1(high);
  x = v_select(v_lt(lo, x), x, lo);
  return v_select(v_lt(x, hi), x, hi);
}
QCG_INLINE void v_store_i8_sat(int8_t* p, vf x) { vi_store_i8(p, v_to_i_round(v_saturate(x, -128, 127))); }
QCG_INLINE void v_store_i8_sat_n(int8_t* p, vf x, int n) {
  vi_store_i8_n(p, v_to_i_round(v_saturate(x, -128, 127)), n);
}
QCG_INLINE void v_store_u8_sat(uint8_t* p, vf x) { vi_store_u8(p, v_to_i_round(v_saturate(x, 0, 255))); }
QCG_INLINE void v_store_u8_sat_n(uint8_t* p, vf x, int n) { vi_store_u8_n(p, v_to_i_round(v_saturate(x, 0, 255)), n); }

// Reductions over the lanes, halves onto halves: the same order on every ISA for the same VL. NaN wins max and min.
QCG_INLINE float v_hadd(vf x) {
  qcg_f4 s = x.lo + x.hi;
  return (s[0] + s[2]) + (s[1] + s[3]);
}
QCG_INLINE float v_hmax(vf x) {
  qcg_f4 m = f4_max(x.lo, x.hi);
  m = f4_max(m, qcg_f4{m[2], m[3], m[0], m[1]});
  return f4_max(m, qcg_f4{m[1], m[0], m[3], m[2]})[0];
}
QCG_INLINE float v_hmin(vf x) { return -v_hmax(v_neg(x)); }

// Lane j of vector i becomes lane i of vector j.
QCG_INLINE void v_transpose(vf (&x)[VL]) {
  float lanes[VL][VL], across[VL][VL];
  for (int i = 0; i < VL; ++i) v_store_f32(lanes[i], x[i]);
  for (int i = 0; i < VL; ++i)
    for (int j = 0; j < VL; ++j) across[j][i] = lanes[i][j];
  for (int i = 0; i < VL; ++i) x[i] = v_load_f32(across[i]);
}

// Lane i is the sum over the lanes of vector i.
QCG_INLINE vf v_sums(const vf (&x)[VL]) {
  float sums[VL];
  for (int i = 0; i < VL; ++i) sums[i] = v_hadd(x[i]);
  return v_load_f32(sums);
}

#include "vector_math.h"
