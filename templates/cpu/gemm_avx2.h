// GEMM primitives of AVX2: int8 products as pairs of 16-bit products (exact; the 8-bit multiply-add saturates).
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
QCG_INLINE vi madd16_dot(vi acc, vi w, vi x) { return vi_add(acc, _mm256_madd_epi16(w, x)); }
// Two products of int16 per dword, added: the corrections of a group of integers.
QCG_INLINE vi pair_dot(vi a, vi b) { return _mm256_madd_epi16(a, b); }
