// GEMM primitives of AVX-512: VNNI dot products.
//
// Why here: see gemm_common.h for the names. Dot products are inline assembly because g++ 12 copies and spills the
// accumulators of dot intrinsics around every loop (487 against 957 GFLOP/s).
#pragma once
#include "avx512.h"
#include "gemm_common.h"

// Accumulators stay in one register over a loop: without this g++ 12 copies and spills them in every iteration when they
// start or end as anything but a plain sum.
QCG_INLINE void keep(vf& acc) { asm("" : "+v"(acc)); }
QCG_INLINE void keep(vi& acc) { asm("" : "+v"(acc)); }

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
// Four rows of int8 for 16 columns.
template <int U>
QCG_INLINE vf fma_weight_i8x4r(const uint8_t* p) { return v_load_i8((const int8_t*)p + 16 * U); }
// The same rows as dwords of a column, xor 0x80. Without byte permutes: dwords of four columns to one lane, then their bytes
// to columns.
template <int U>
QCG_INLINE vi vnni_weight_i8x4r(const uint8_t* p) {
#if defined(__AVX512VBMI__)
  // Byte 4 c + j of the result is byte 16 j + c.
  const vi columns = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const vi order = vi_add(vi_mul(columns, vi_set1(0x01010101)), vi_set1(0x30201000));
  const vi w = _mm512_permutexvar_epi8(order, dword_load(p));
#else
  const __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const vi lanes = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const vi w = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(lanes, dword_load(p)), _mm512_broadcast_i32x4(bytes));
#endif
  return _mm512_xor_si512(w, _mm512_set1_epi8((char)0x80));
}
QCG_INLINE bool all_zero(vf x) { return _mm512_test_epi32_mask(v_bits(x), vi_set1(0x7fffffff)) == 0; }
// Codes of 4 bits as bytes: those in low nibbles, or those in high ones.
template <bool HIGH>
QCG_INLINE vi nibbles(vi w) { return vi_and(HIGH ? _mm512_srli_epi32(w, 4) : w, _mm512_set1_epi8(15)); }
QCG_INLINE vi vi_sub_bytes(vi bytes, int each) { return _mm512_sub_epi8(bytes, _mm512_set1_epi8((char)each)); }
// Two products of int16 per dword, added: the corrections of a group of integers.
QCG_INLINE vi pair_dot(vi a, vi b) { return _mm512_madd_epi16(a, b); }
// Per column a pair of int16 for pair_dot: the sum of a group's weights, from p, and what every weight is raised by.
QCG_INLINE vi sums_and(int raised, const uint8_t* p) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(v_raw16(p)), vi_set1(raised * 65536));
}
