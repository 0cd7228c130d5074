// AVX-512 BF16: avx512.h plus the bf16 dot product and the conversion that prepares its operands.
//
// Why here: GEMM and attention multiply pairs. The conversion instruction flushes denormals to zero, as the dot product itself does. So it is right for the
// dot's operands and wrong for results, which keep avx512.h's v_store_bf16.
//
//   __m512i pairs = v_pack_bf16_flush(v_load_f32(x), v_load_f32(x + VL));   // 32 bf16, x first
#pragma once
#include "avx512.h"

QCG_INLINE __m256i v_to_bf16_flush(vf x) { return (__m256i)_mm512_cvtneps_pbh(x); }
QCG_INLINE __m512i v_pack_bf16_flush(vf low, vf high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

// Pairs of bf16, the first in the low word of a lane: all of a vector's 2 · VL, or the first n and zeros.
QCG_INLINE vi v_load_pairs(const void* p) { return _mm512_loadu_si512(p); }
QCG_INLINE vi v_load_pairs_n(const void* p, int n) {
  return n >= 2 * VL ? v_load_pairs(p) : _mm512_maskz_loadu_epi16((__mmask32)((1u << n) - 1), p);
}
// acc + both products of every lane. Denormal operands and results are zeros.
QCG_INLINE vf v_dot_bf16(vf acc, vi a, vi b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  return acc;
}
