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
QCG_INLINE vf bf16dot_dot(vf acc, vi w, vi x) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));
  return acc;
}
template <int U>
QCG_INLINE vi bf16dot_weight_bf16x2(const uint8_t* p) { return dword_load(p); }
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
// Two rows of int8, 32 columns apart.
template <int U>
QCG_INLINE vi bf16dot_weight_i8(const uint8_t* p) {
  return bf16dot_pair(v_load_i8((const int8_t*)p), v_load_i8((const int8_t*)p + 32));
}
