// AVX-512 (F, BW, VL, DQ) vector primitives of generated kernels: 16 f32 lanes, tails by masks.
//
// Why here: templates name these functions only; portable.h and avx2.h define the same names, so one template serves all.
//
//   for (; i < n; i += VL) v_store_bf16_n(y + i, v_silu(v_load_bf16_n(x + i, left)), left);   // left = min(n - i, VL)
//
// Arithmetic is f32 whatever the storage type. The _n forms touch exactly n in [0, VL] elements; absent lanes read as 0.
// v_min and v_max return NaN if either argument is NaN. Stores to bf16 and f16 round to nearest even and keep NaN; stores
// to integers truncate toward zero and wrap, as torch's .to() does, except the _sat forms, which round to nearest even
// and saturate (NaN stores the smallest value).
#pragma once
#include <immintrin.h>
#include <stdint.h>

#define QCG_AVX512 1
#define QCG_INLINE static inline __attribute__((always_inline))
#define QCG_HAS_SCALEF 1
typedef uint16_t qcg_bf16;
typedef uint16_t qcg_f16;
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
constexpr int VL = 16;

QCG_INLINE __mmask16 v_tail(int n) { return (__mmask16)((1u << n) - 1u); }

// Arithmetic.
QCG_INLINE vf v_set1(float x) { return _mm512_set1_ps(x); }
QCG_INLINE vf v_zero() { return _mm512_setzero_ps(); }
QCG_INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
QCG_INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
QCG_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
QCG_INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
QCG_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
QCG_INLINE vf v_fused(vf a, vf b, vf c) { return v_fma(a, b, c); }  // one rounding on every ISA, quick or not
QCG_INLINE vf v_neg(vf x) { return _mm512_xor_ps(x, v_set1(-0.0f)); }
QCG_INLINE vf v_abs(vf x) { return _mm512_andnot_ps(v_set1(-0.0f), x); }
QCG_INLINE vf v_sqrt(vf x) { return _mm512_sqrt_ps(x); }
QCG_INLINE vf v_round_even(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
QCG_INLINE vf v_floor(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
QCG_INLINE vf v_trunc(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
QCG_INLINE vf v_scalef(vf x, vf n) { return _mm512_scalef_ps(x, n); }
QCG_INLINE vf v_copysign(vf magnitude, vf sign) {
  return _mm512_or_ps(v_abs(magnitude), _mm512_and_ps(sign, v_set1(-0.0f)));
}

// Comparison and selection.
QCG_INLINE vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
QCG_INLINE vm v_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
QCG_INLINE vm v_isnan(vf x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
QCG_INLINE bool v_any(vm m) { return m != 0; }
QCG_INLINE vf v_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
// The instruction returns its second operand if either is NaN; a NaN in the first is put back.
QCG_INLINE vf v_max(vf a, vf b) { return v_select(v_isnan(a), a, _mm512_max_ps(a, b)); }
QCG_INLINE vf v_min(vf a, vf b) { return v_select(v_isnan(a), a, _mm512_min_ps(a, b)); }
// Between two numbers; NaN stays NaN.
QCG_INLINE vf v_bound(vf x, float low, float high) {
  return _mm512_min_ps(v_set1(high), _mm512_max_ps(v_set1(low), x));
}

// Integers. v_to_i_* of values outside int32 are unspecified: clamp first.
QCG_INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
QCG_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
QCG_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
QCG_INLINE vi vi_mul(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
QCG_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
QCG_INLINE vi vi_shl(vi x, int k) { return _mm512_slli_epi32(x, (unsigned)k); }
QCG_INLINE vi vi_sra(vi x, int k) { return _mm512_srai_epi32(x, (unsigned)k); }
QCG_INLINE vm vi_test(vi x, int32_t bit) { return _mm512_test_epi32_mask(x, vi_set1(bit)); }
QCG_INLINE vf vi_to_f(vi x) { return _mm512_cvtepi32_ps(x); }
QCG_INLINE vi v_to_i_round(vf x) {
  return _mm512_cvt_roundps_epi32(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
QCG_INLINE vi v_to_i_trunc(vf x) { return _mm512_cvttps_epi32(x); }
QCG_INLINE vi v_bits(vf x) { return _mm512_castps_si512(x); }
QCG_INLINE vf v_from_bits(vi x) { return _mm512_castsi512_ps(x); }
QCG_INLINE vi vi_load(const int32_t* p) { return _mm512_loadu_si512(p); }
QCG_INLINE vi vi_load_n(const int32_t* p, int n) { return _mm512_maskz_loadu_epi32(v_tail(n), p); }
QCG_INLINE void vi_store(int32_t* p, vi x) { _mm512_storeu_si512(p, x); }
QCG_INLINE void vi_store_n(int32_t* p, vi x, int n) { _mm512_mask_storeu_epi32(p, v_tail(n), x); }
QCG_INLINE void vi_store_i8(int8_t* p, vi x) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(x)); }
QCG_INLINE void vi_store_i8_n(int8_t* p, vi x, int n) { _mm512_mask_cvtepi32_storeu_epi8(p, v_tail(n), x); }
QCG_INLINE void vi_store_u8(uint8_t* p, vi x) { vi_store_i8((int8_t*)p, x); }
QCG_INLINE void vi_store_u8_n(uint8_t* p, vi x, int n) { vi_store_i8_n((int8_t*)p, x, n); }

// Between f32 lanes and 16-bit storage.
QCG_INLINE vf v_from_bf16(__m256i h) { return v_from_bits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)); }
QCG_INLINE vf v_from_f16(__m256i h) { return _mm512_cvtph_ps(h); }
// In integers: the bf16 conversion instruction flushes denormals, torch does not.
QCG_INLINE vi v_round_bf16_bits(vf x) {
  vi bits = v_bits(x);
  vi odd = vi_and(_mm512_srli_epi32(bits, 16), vi_set1(1));
  vi rounded = vi_add(bits, vi_add(odd, vi_set1(0x7fff)));
  return _mm512_mask_mov_epi32(rounded, v_isnan(x), vi_set1(0x7fc00000));
}
QCG_INLINE __m256i v_to_bf16(vf x) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(v_round_bf16_bits(x), 16)); }
QCG_INLINE __m256i v_to_f16(vf x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
QCG_INLINE vf v_cast_bf16(vf x) { return v_from_bits(vi_and(v_round_bf16_bits(x), vi_set1((int32_t)0xffff0000))); }
QCG_INLINE vf v_cast_f16(vf x) { return v_from_f16(v_to_f16(x)); }

// Loads.
QCG_INLINE __m256i v_raw16(const void* p) { return _mm256_loadu_si256((const __m256i*)p); }
QCG_INLINE __m256i v_raw16_n(const void* p, int n) { return _mm256_maskz_loadu_epi16(v_tail(n), p); }
QCG_INLINE __m128i v_raw8(const void* p) { return _mm_loadu_si128((const __m128i*)p); }
QCG_INLINE __m128i v_raw8_n(const void* p, int n) { return _mm_maskz_loadu_epi8(v_tail(n), p); }
QCG_INLINE vf v_from_i8(__m128i raw) { return vi_to_f(_mm512_cvtepi8_epi32(raw)); }
QCG_INLINE vf v_from_u8(__m128i raw) { return vi_to_f(_mm512_cvtepu8_epi32(raw)); }
QCG_INLINE vf v_from_i16(__m256i raw) { return vi_to_f(_mm512_cvtepi16_epi32(raw)); }
QCG_INLINE vf v_from_bool(__m128i raw) { return _mm512_maskz_mov_ps(_mm_test_epi8_mask(raw, raw), v_set1(1.0f)); }
QCG_INLINE vf v_join(__m256 low, __m256 high) { return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1); }
QCG_INLINE vf v_load_f32(const float* p) { return _mm512_loadu_ps(p); }
QCG_INLINE vf v_load_f32_n(const float* p, int n) { return _mm512_maskz_loadu_ps(v_tail(n), p); }
QCG_INLINE vf v_load_bf16(const qcg_bf16* p) { return v_from_bf16(v_raw16(p)); }
QCG_INLINE vf v_load_bf16_n(const qcg_bf16* p, int n) { return v_from_bf16(v_raw16_n(p, n)); }
QCG_INLINE vf v_load_f16(const qcg_f16* p) { return v_from_f16(v_raw16(p)); }
QCG_INLINE vf v_load_f16_n(const qcg_f16* p, int n) { return v_from_f16(v_raw16_n(p, n)); }
QCG_INLINE vf v_load_i8(const int8_t* p) { return v_from_i8(v_raw8(p)); }
QCG_INLINE vf v_load_i8_n(const int8_t* p, int n) { return v_from_i8(v_raw8_n(p, n)); }
QCG_INLINE vi vi_load_u8(const uint8_t* p) { return _mm512_cvtepu8_epi32(v_raw8(p)); }
QCG_INLINE vf v_load_u8(const uint8_t* p) { return v_from_u8(v_raw8(p)); }
QCG_INLINE vf v_load_u8_n(const uint8_t* p, int n) { return v_from_u8(v_raw8_n(p, n)); }
QCG_INLINE vf v_load_i16(const int16_t* p) { return v_from_i16(v_raw16(p)); }
QCG_INLINE vf v_load_i16_n(const int16_t* p, int n) { return v_from_i16(v_raw16_n(p, n)); }
QCG_INLINE vf v_load_bool(const uint8_t* p) { return v_from_bool(v_raw8(p)); }
QCG_INLINE vf v_load_bool_n(const uint8_t* p, int n) { return v_from_bool(v_raw8_n(p, n)); }
QCG_INLINE vf v_load_i32(const int32_t* p) { return vi_to_f(vi_load(p)); }
QCG_INLINE vf v_load_i32_n(const int32_t* p, int n) { return vi_to_f(vi_load_n(p, n)); }
QCG_INLINE vf v_load_i64_n(const int64_t* p, int n) {
  unsigned mask = v_tail(n);
  __m512i low = _mm512_maskz_loadu_epi64((__mmask8)mask, p);
  __m512i high = _mm512_maskz_loadu_epi64((__mmask8)(mask >> 8), p + 8);
  return v_join(_mm512_cvtepi64_ps(low), _mm512_cvtepi64_ps(high));
}
QCG_INLINE vf v_load_i64(const int64_t* p) { return v_load_i64_n(p, VL); }
QCG_INLINE vf v_load_f64_n(const double* p, int n) {
  unsigned mask = v_tail(n);
  __m512d low = _mm512_maskz_loadu_pd((__mmask8)mask, p);
  __m512d high = _mm512_maskz_loadu_pd((__mmask8)(mask >> 8), p + 8);
  return v_join(_mm512_cvtpd_ps(low), _mm512_cvtpd_ps(high));
}
QCG_INLINE vf v_load_f64(const double* p) { return v_load_f64_n(p, VL); }

// Stores.
QCG_INLINE void v_store_f32(float* p, vf x) { _mm512_storeu_ps(p, x); }
QCG_INLINE void v_store_f32_n(float* p, vf x, int n) { _mm512_mask_storeu_ps(p, v_tail(n), x); }
QCG_INLINE void v_store_bf16(qcg_bf16* p, vf x) { _mm256_storeu_si256((__m256i*)p, v_to_bf16(x)); }
QCG_INLINE void v_store_bf16_n(qcg_bf16* p, vf x, int n) { _mm256_mask_storeu_epi16(p, v_tail(n), v_to_bf16(x)); }
QCG_INLINE void v_store_f16(qcg_f16* p, vf x) { _mm256_storeu_si256((__m256i*)p, v_to_f16(x)); }
QCG_INLINE void v_store_f16_n(qcg_f16* p, vf x, int n) { _mm256_mask_storeu_epi16(p, v_tail(n), v_to_f16(x)); }
QCG_INLINE void v_store_i32(int32_t* p, vf x) { vi_store(p, v_to_i_trunc(x)); }
QCG_INLINE void v_store_i32_n(int32_t* p, vf x, int n) { vi_store_n(p, v_to_i_trunc(x), n); }
QCG_INLINE void v_store_i64_n(int64_t* p, vf x, int n) {
  unsigned mask = v_tail(n);
  _mm512_mask_storeu_epi64(p, (__mmask8)mask, _mm512_cvttps_epi64(_mm512_castps512_ps256(x)));
  _mm512_mask_storeu_epi64(p + 8, (__mmask8)(mask >> 8), _mm512_cvttps_epi64(_mm512_extractf32x8_ps(x, 1)));
}
QCG_INLINE void v_store_i64(int64_t* p, vf x) { v_store_i64_n(p, x, VL); }
QCG_INLINE void v_store_f64_n(double* p, vf x, int n) {
  unsigned mask = v_tail(n);
  _mm512_mask_storeu_pd(p, (__mmask8)mask, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
  _mm512_mask_storeu_pd(p + 8, (__mmask8)(mask >> 8), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
}
QCG_INLINE void v_store_f64(double* p, vf x) { v_store_f64_n(p, x, VL); }
QCG_INLINE void v_store_i8(int8_t* p, vf x) { vi_store_i8(p, v_to_i_trunc(x)); }
QCG_INLINE void v_store_i8_n(int8_t* p, vf x, int n) { vi_store_i8_n(p, v_to_i_trunc(x), n); }
QCG_INLINE void v_store_u8(uint8_t* p, vf x) { vi_store_u8(p, v_to_i_trunc(x)); }
QCG_INLINE void v_store_u8_n(uint8_t* p, vf x, int n) { vi_store_u8_n(p, v_to_i_trunc(x), n); }
QCG_INLINE void v_store_i16(int16_t* p, vf x) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(v_to_i_trunc(x)));
}
QCG_INLINE void v_store_i16_n(int16_t* p, vf x, int n) {
  _mm512_mask_cvtepi32_storeu_epi16(p, v_tail(n), v_to_i_trunc(x));
}
QCG_INLINE vf v_saturate(vf x, float lo, float hi) { return _mm512_min_ps(_mm512_max_ps(x, v_set1(lo)), v_set1(hi)); }
QCG_INLINE void v_store_i8_sat(int8_t* p, vf x) { vi_store_i8(p, v_to_i_round(v_saturate(x, -128, 127))); }
QCG_INLINE void v_store_i8_sat_n(int8_t* p, vf x, int n) {
  vi_store_i8_n(p, v_to_i_round(v_saturate(x, -128, 127)), n);
}
QCG_INLINE void v_store_u8_sat(uint8_t* p, vf x) { vi_store_u8(p, v_to_i_round(v_saturate(x, 0, 255))); }
QCG_INLINE void v_store_u8_sat_n(uint8_t* p, vf x, int n) { vi_store_u8_n(p, v_to_i_round(v_saturate(x, 0, 255)), n); }

// Reductions over the lanes, halves onto halves: the same order on every ISA for the same VL. NaN wins max and min.
QCG_INLINE float v_hadd(vf x) {
  __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
QCG_INLINE float v_hmax(vf x) {
  x = v_max(x, _mm512_shuffle_f32x4(x, x, 0x4e));
  x = v_max(x, _mm512_shuffle_f32x4(x, x, 0xb1));
  x = v_max(x, _mm512_permute_ps(x, 0x4e));
  return _mm512_cvtss_f32(v_max(x, _mm512_permute_ps(x, 0xb1)));
}
QCG_INLINE float v_hmin(vf x) { return -v_hmax(v_neg(x)); }

// Lane j of vector i becomes lane i of vector j: within blocks of four lanes, then blocks as a whole.
QCG_INLINE void v_transpose(vf (&x)[VL]) {
  vf t[VL];
  for (int i = 0; i < VL; i += 2) {
    t[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < VL; ++i) {
    const __m512d a = _mm512_castps_pd(t[i / 4 * 4 + i % 4 / 2]), b = _mm512_castps_pd(t[i / 4 * 4 + i % 4 / 2 + 2]);
    x[i] = _mm512_castpd_ps(i % 2 == 0 ? _mm512_unpacklo_pd(a, b) : _mm512_unpackhi_pd(a, b));
  }
  for (int i = 0; i < 4; ++i) {
    const vf a = _mm512_shuffle_f32x4(x[i], x[4 + i], 0x88), b = _mm512_shuffle_f32x4(x[i], x[4 + i], 0xdd);
    const vf c = _mm512_shuffle_f32x4(x[8 + i], x[12 + i], 0x88), d = _mm512_shuffle_f32x4(x[8 + i], x[12 + i], 0xdd);
    x[i] = _mm512_shuffle_f32x4(a, c, 0x88);
    x[4 + i] = _mm512_shuffle_f32x4(b, d, 0x88);
    x[8 + i] = _mm512_shuffle_f32x4(a, c, 0xdd);
    x[12 + i] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
}

// Lane i is the sum over the lanes of vector i: pairs of vectors are interleaved and added until one is left.
QCG_INLINE vf v_sums(const vf (&x)[VL]) {
  vf t[8], u[4], w[2];
  for (int i = 0; i < 8; ++i)
    t[i] = v_add(_mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]), _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]));
  for (int i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(t[2 * i]), b = _mm512_castps_pd(t[2 * i + 1]);
    u[i] = v_add(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  const auto add_blocks = [](vf a, vf b) {
    return v_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  };
  for (int i = 0; i < 2; ++i) w[i] = add_blocks(u[2 * i], u[2 * i + 1]);
  return add_blocks(w[0], w[1]);
}

#include "vector_math.h"
