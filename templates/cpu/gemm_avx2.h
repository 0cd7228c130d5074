// GEMM primitives of AVX2: int8 products as pairs of 16-bit products (exact; the 8-bit multiply-add saturates), products
// with 4-bit weights by that 8-bit multiply-add.
//
// Why here: see gemm_common.h for the names.
#pragma once
#include "avx2.h"
#include "gemm_common.h"

// Accumulators stay in one register over a loop: without this g++ 12 copies and spills them in every iteration when they
// start or end as anything but a plain sum.
QCG_INLINE void keep(vf& acc) { asm("" : "+x"(acc)); }
QCG_INLINE void keep(vi& acc) { asm("" : "+x"(acc)); }

QCG_INLINE vi madd16_zero() { return int_zero(); }
QCG_INLINE vi madd16_add(vi a, vi b) { return vi_add(a, b); }
QCG_INLINE vi madd16_load(const void* p) { return int_load(p); }
QCG_INLINE void madd16_store(void* p, vi acc) { int_store(p, acc); }
QCG_INLINE vi madd16_broadcast(const qcg_unit* x) { return vi_set1((int32_t)*x); }
template <int U>
QCG_INLINE vi madd16_weight_i8x2(const uint8_t* p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p)); }
// The sum in place: g++ 12 otherwise keeps two of every accumulator, and there are 16 registers.
QCG_INLINE vi add_in_place(vi acc, vi x) {
  asm("vpaddd %1, %0, %0" : "+x"(acc) : "x"(x));
  return acc;
}
QCG_INLINE vi madd16_dot(vi acc, vi w, vi x) { return add_in_place(acc, _mm256_madd_epi16(w, x)); }
QCG_INLINE vi maddubs_zero() { return int_zero(); }
QCG_INLINE vi maddubs_add(vi a, vi b) { return vi_add(a, b); }
QCG_INLINE vi maddubs_load(const void* p) { return int_load(p); }
QCG_INLINE void maddubs_store(void* p, vi acc) { int_store(p, acc); }
QCG_INLINE vi maddubs_broadcast(const qcg_unit* x) { return vi_set1((int32_t)*x); }
template <int U>
QCG_INLINE vi maddubs_weight_u8x4(const uint8_t* p) { return dword_load(p); }  // an unpacked block
// 4-bit weights only, as unsigned bytes up to 24: pairs of products stay far from where the 8-bit multiply-add saturates.
QCG_INLINE vi maddubs_dot(vi acc, vi w, vi x) {
  return add_in_place(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1)));
}
// Two products of int16 per dword, added: the corrections of a group of integers.
QCG_INLINE vi pair_dot(vi a, vi b) { return _mm256_madd_epi16(a, b); }
