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

// Four k of int8, xor 0x80 for the instructions that take them unsigned.
template <int U>
QCG_INLINE vf fma_weight_u8x4(const uint8_t* p) {
  return vi_to_f(vi_sra(vi_shl(_mm256_xor_si256(dword_load(p), _mm256_set1_epi8((char)0x80)), 24 - 8 * U), 24));
}

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
// 4-bit weights only, as unsigned bytes up to 24: four pairs of products stay within 16 bits, so they are added before they are
// widened.
template <int N>
struct maddubs_units {
  static_assert(N * 2 * 24 * 128 <= 32767);
  vi of[N];
};
template <class... Units>
maddubs_units(Units...) -> maddubs_units<sizeof...(Units)>;
template <int N>
QCG_INLINE vi maddubs_dot(vi acc, maddubs_units<N> w, maddubs_units<N> x) {
  vi pairs = _mm256_maddubs_epi16(w.of[0], x.of[0]);
  for (int u = 1; u < N; ++u) pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w.of[u], x.of[u]));
  return add_in_place(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
// Codes of 4 bits as bytes: those in low nibbles, or those in high ones.
template <bool HIGH>
QCG_INLINE vi nibbles(vi w) { return vi_and(HIGH ? _mm256_srli_epi32(w, 4) : w, _mm256_set1_epi8(15)); }
// Two products of int16 per dword, added: the corrections of a group of integers.
QCG_INLINE vi pair_dot(vi a, vi b) { return _mm256_madd_epi16(a, b); }
// Per column a pair of int16 for pair_dot: the sum of a group's weights, from p, and what every weight is raised by.
QCG_INLINE vi sums_and(int raised, const uint8_t* p) {
  return _mm256_or_si256(_mm256_cvtepu16_epi32(v_raw16(p)), vi_set1(raised * 65536));
}

QCG_INLINE bool all_zero(vf x) {
  const vi magnitude = vi_and(v_bits(x), vi_set1(0x7fffffff));
  return _mm256_testz_si256(magnitude, magnitude);
}

// The 16 numbers that codes of 4 bits stand for, as tables of their bytes. One shuffle looks up a byte of 32 codes, two
// interleavings put the bytes of each number together. None of them takes a port of multiply-adds.
//
//   packed      c0 c1 c2 c3 | c0 c1 c2 c3 | c0 c1 c2 c3 | c0 c1 c2 c3   4 columns: k = 0 | 1 | 2 | 3 in low nibbles, 4 | … | 7 in high
//   bytes 2, 3  l h l h l h l h | l h l h l h l h                       k = 0 | 1, interleaved
//   floats      0 0 l h 0 0 l h 0 0 l h 0 0 l h                         k = 0, interleaved with bytes 0, 1
struct ByteTables {
  alignas(16) uint8_t of[4][16];
};
constexpr ByteTables byte_tables(const float (&numbers)[16]) {
  ByteTables tables = {};
  for (int i = 0; i < 16; ++i)
    for (int b = 0; b < 4; ++b) tables.of[b][i] = (uint8_t)(__builtin_bit_cast(uint32_t, numbers[i]) >> (8 * b));
  return tables;
}
template <int B>
QCG_INLINE vi look_up_byte(const ByteTables& tables, vi codes) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_load_si128((const __m128i*)tables.of[B])), codes);
}
// Row U of the codes at p as floats, 8 columns. EXACT16: the numbers have no more than 16 bits, so their lower halves are 0.
template <int U, bool EXACT16>
QCG_INLINE vf look_up_codes(const uint8_t* p, const ByteTables& tables) {
  const vi codes = nibbles<(U >= 4)>(dword_load(p));
  const vi b2 = look_up_byte<2>(tables, codes), b3 = look_up_byte<3>(tables, codes);
  const vi high = U % 4 < 2 ? _mm256_unpacklo_epi8(b2, b3) : _mm256_unpackhi_epi8(b2, b3);
  vi low = int_zero();
  if constexpr (!EXACT16) {
    const vi b0 = look_up_byte<0>(tables, codes), b1 = look_up_byte<1>(tables, codes);
    low = U % 4 < 2 ? _mm256_unpacklo_epi8(b0, b1) : _mm256_unpackhi_epi8(b0, b1);
  }
  return v_from_bits(U % 2 == 0 ? _mm256_unpacklo_epi16(low, high) : _mm256_unpackhi_epi16(low, high));
}
// The codes of such a row as bytes, four k of a column in a dword: low nibbles (U = 0) or high ones.
template <int U>
QCG_INLINE vi codes_of_columns(const uint8_t* p) {
  const vi bytes =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return nibbles<U != 0>(_mm256_shuffle_epi8(dword_load(p), bytes));
}
