// GEMM primitives of AVX-512 BF16: pairs of bf16 products added to f32. Twice the rate of FMA on some machines, half on
// others: always a candidate beside fma on the same bytes, never the only one.
//
// Why here: see gemm_common.h for the names. The instruction flushes denormal operands and results to zero; the factors
// that it multiplies exactly are bf16 activations and weights that are bf16 or small integers.
#pragma once
#define QCG_BF16DOT 1
#include "avx512bf16.h"
#include "gemm_avx512.h"

QCG_INLINE vf bf16dot_zero() { return v_zero(); }
QCG_INLINE vf bf16dot_add(vf a, vf b) { return v_add(a, b); }
QCG_INLINE vf bf16dot_load(const void* p) { return fma_load(p); }
QCG_INLINE void bf16dot_store(void* p, vf acc) { fma_store(p, acc); }
QCG_INLINE vi bf16dot_broadcast(const qcg_unit* x) { return vi_set1((int32_t)*x); }
QCG_INLINE vf bf16dot_dot(vf acc, vi w, vi x) { return v_dot_bf16(acc, w, x); }
template <int U>
QCG_INLINE vi bf16dot_weight_bf16x2(const uint8_t* p) { return dword_load(p); }
// What 4-bit codes stand for: nibble U of both words of every column, its k and k + 2. The permute looks at 5 bits, so the table
// is there twice.
template <int U>
QCG_INLINE vi bf16dot_look_up(const uint8_t* p, __m256i table) {
  const vi w = dword_load(p);
  return _mm512_permutexvar_epi16(U == 0 ? w : _mm512_srli_epi32(w, 4 * U), _mm512_broadcast_i64x4(table));
}
// The upper halves of two f32 that bf16 holds exactly, as it does integers up to 256: `even` in the low words.
QCG_INLINE vi bf16dot_pair(vf even, vf odd) {
  return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(v_bits(even), 16), v_bits(odd));
}
// Two f32 rounded to bf16, `even` in the low words. Denormals become zeros, as in the products.
QCG_INLINE vi bf16dot_round(vf even, vf odd) {
  const vi order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5,
                                    20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, (vi)_mm512_cvtne2ps_pbh(odd, even));
}
// The two bytes of the bf16 that codes of 7 bits stand for. A permute of 64 bytes looks up one of them and ignores bit 7,
// which is the sign that the upper one gets.
struct Bf16Bytes {
  alignas(64) uint8_t low[128], high[128];
};
template <class BitsOf>
constexpr Bf16Bytes bf16_bytes(BitsOf bits_of) {
  Bf16Bytes t = {};
  for (int code = 0; code < 128; ++code) {
    const uint16_t bits = bits_of(code);
    t.low[code] = (uint8_t)bits, t.high[code] = (uint8_t)(bits >> 8);
  }
  return t;
}
constexpr uint16_t bf16_bits(float x) { return (uint16_t)(__builtin_bit_cast(uint32_t, x) >> 16); }
QCG_INLINE vi bf16_byte(const uint8_t (&table)[128], vi codes) {
  return _mm512_permutex2var_epi8(_mm512_load_si512(table), codes, _mm512_load_si512(table + 64));
}
QCG_INLINE vi bf16_sign(vi high, vi codes) {  // high | (codes & 0x80)
  return _mm512_ternarylogic_epi32(high, codes, _mm512_set1_epi8((char)0x80), 0xf8);
}

// int8 of four rows. Looking up their bytes takes fewer instructions, but permutes of two registers run where dots do on Zen 5,
// and take two cycles on Intel's machines.
template <int U>
QCG_INLINE vi bf16dot_weight_i8x4r(const uint8_t* p) {
  return bf16dot_pair(fma_weight_i8x4r<2 * U>(p), fma_weight_i8x4r<2 * U + 1>(p));
}
