// GEMM primitives of AVX-512: VNNI dot products and int4 unpacking by table permutes.
//
// Why here: see gemm_common.h for the names. Dot products are inline assembly because g++ 12 copies and spills the
// accumulators of dot intrinsics around every loop (487 against 957 GFLOP/s).
#pragma once
#include "avx512.h"
#include "gemm_common.h"

// Signed nibbles to f32: the permute looks at the low 4 bits of each dword only, so nothing has to be masked. Dword c
// holds 8 k of column c; byte j has k = j in its low and k = 4 + j in its high nibble. Loading from byte j shifts by 8 j
// at no cost; the bytes of the next column that come in at the top are never looked at (packed weights end in padding).
template <int U>
QCG_INLINE vf fma_weight_i4x8(const uint8_t* p) {
  const vf table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
  const vi w = dword_load(p + U / 2);
  return _mm512_permutexvar_ps(U % 2 == 0 ? w : _mm512_srli_epi32(w, 4), table);
}

QCG_INLINE vi vnni_zero() { return int_zero(); }
QCG_INLINE vi vnni_add(vi a, vi b) { return vi_add(a, b); }
QCG_INLINE vi vnni_load(const void* p) { return int_load(p); }
QCG_INLINE void vnni_store(void* p, vi acc) { int_store(p, acc); }
QCG_INLINE vi vnni_broadcast(const qcg_unit* x) { return vi_set1((int32_t)*x); }
// Weights are stored xor 0x80: the unsigned operand. Activations stay signed.
template <int U>
QCG_INLINE vi vnni_weight_u8x4(const uint8_t* p) { return dword_load(p); }
QCG_INLINE vi vnni_dot(vi acc, vi w, vi x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x));
  return acc;
}
