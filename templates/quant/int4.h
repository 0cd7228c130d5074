// int4: dword c of a step holds 8 k of column c; byte j has k = j in its low and k = 4 + j in its high nibble.
//
//   i4x8   two's complement nibbles          i4x8u  the value plus 8, where an instruction wants it unsigned
//   i4x8r  the value plus 8 in rows of 4 columns, for AVX2: see look_up_codes
//
// Permutes look at the low bits of an element only, so nothing has to be masked for them.
#pragma once

#if defined(QCG_AVX512)
// Loading from byte j shifts by 8 j at no cost; the bytes of the next column that come in at the top are never looked at
// (packed weights end in padding).
template <int U>
QCG_INLINE vf fma_weight_i4x8u(const uint8_t* p) {
  const vf table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  const vi w = dword_load(p + U / 2);
  return _mm512_permutexvar_ps(U % 2 == 0 ? w : _mm512_srli_epi32(w, 4), table);
}
template <int U>
QCG_INLINE vi vnni_weight_i4x8u(const uint8_t* p) { return nibbles<U != 0>(dword_load(p)); }
#elif defined(QCG_AVX2)
static constexpr ByteTables kInt4 = byte_tables({-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7});
template <int U>
QCG_INLINE vf fma_weight_i4x8r(const uint8_t* p) { return look_up_codes<U, true>(p, kInt4); }
template <int U>
QCG_INLINE vi maddubs_weight_i4x8r(const uint8_t* p) { return codes_of_columns<U>(p); }
template <int U>
QCG_INLINE vi maddubs_weight_i4x8u(const uint8_t* p) { return nibbles<U != 0>(dword_load(p)); }
// High nibbles are loaded again: 12 sums leave no registers in which they could wait for the low ones.
template <int U>
QCG_INLINE vi vnni_weight_i4x8r(const uint8_t* p) {
  if constexpr (U != 0) asm("" : "+r"(p));
  return maddubs_weight_i4x8r<U>(p);
}
template <int U>
QCG_INLINE vi vnni_weight_i4x8u(const uint8_t* p) { return maddubs_weight_i4x8u<U>(p); }
#else
template <int U>
QCG_INLINE vf fma_weight_i4x8(const uint8_t* p) { return vi_to_f(vi_sra(vi_shl(dword_load(p), 28 - 4 * U), 28)); }
template <int U>
QCG_INLINE madd16_pairs madd16_weight_i4x8(const uint8_t* p) {
  const vi w = dword_load(p);
  return {vi_sra(vi_shl(w, 28 - 4 * U), 28), vi_sra(vi_shl(w, 12 - 4 * U), 28)};
}
#endif

#if defined(QCG_BF16DOT)
template <int U>
QCG_INLINE vi bf16dot_weight_i4x8u(const uint8_t* p) {
  const __m256i table =
      _mm256_setr_epi16((int16_t)0xc100, (int16_t)0xc0e0, (int16_t)0xc0c0, (int16_t)0xc0a0, (int16_t)0xc080,
                        (int16_t)0xc040, (int16_t)0xc000, (int16_t)0xbf80, 0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0,
                        0x40c0, 0x40e0);
  return bf16dot_look_up<U>(p, table);
}
#endif
