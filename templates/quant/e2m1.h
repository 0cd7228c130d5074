// e2m1 (mxfp4, nvfp4) as twice its value, an integer: 0 1 2 3 4 6 8 12 and their negatives. Codes lie as in int4.h.
//
//   f4x8   for floats and signed products        f4x8u  the integer plus 12, where an instruction wants it unsigned
//   f4x8r  in rows of 4 columns, for AVX2: see look_up_codes
#pragma once

#if defined(QCG_AVX512)
template <int U>
QCG_INLINE vf fma_weight_f4x8u(const uint8_t* p) {
  const vf table = _mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  const vi w = dword_load(p + U / 2);
  return _mm512_permutexvar_ps(U % 2 == 0 ? w : _mm512_srli_epi32(w, 4), table);
}
template <int U>
QCG_INLINE vi vnni_weight_f4x8u(const uint8_t* p) {
  const vi table = _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  return _mm512_shuffle_epi8(table, nibbles<U != 0>(dword_load(p)));
}
#elif defined(QCG_AVX2)
static constexpr ByteTables kE2m1 = byte_tables({0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12});
template <int U>
QCG_INLINE vf fma_weight_f4x8r(const uint8_t* p) { return look_up_codes<U, true>(p, kE2m1); }
QCG_INLINE vi raised_e2m1(vi codes) {
  const vi table =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  return _mm256_shuffle_epi8(table, codes);
}
template <int U>
QCG_INLINE vi maddubs_weight_f4x8r(const uint8_t* p) { return raised_e2m1(codes_of_columns<U>(p)); }
template <int U>
QCG_INLINE vi maddubs_weight_f4x8u(const uint8_t* p) { return raised_e2m1(nibbles<U != 0>(dword_load(p))); }
template <int U>
QCG_INLINE vi vnni_weight_f4x8r(const uint8_t* p) {  // high nibbles loaded again, as in int4.h
  if constexpr (U != 0) asm("" : "+r"(p));
  return maddubs_weight_f4x8r<U>(p);
}
template <int U>
QCG_INLINE vi vnni_weight_f4x8u(const uint8_t* p) { return maddubs_weight_f4x8u<U>(p); }
#else
QCG_INLINE qcg_i4 e2m1_lookup(qcg_i4 code) {
  static const int8_t table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return qcg_i4{table[code[0] & 15], table[code[1] & 15], table[code[2] & 15], table[code[3] & 15]};
}
QCG_INLINE vi e2m1_lookup(vi code) { return {e2m1_lookup(code.lo), e2m1_lookup(code.hi)}; }
template <int U>
QCG_INLINE vf fma_weight_f4x8(const uint8_t* p) { return vi_to_f(e2m1_lookup(vi_sra(dword_load(p), 4 * U))); }
template <int U>
QCG_INLINE madd16_pairs madd16_weight_f4x8(const uint8_t* p) {
  const vi w = dword_load(p);
  return {e2m1_lookup(vi_sra(w, 4 * U)), e2m1_lookup(vi_sra(w, 16 + 4 * U))};
}
#endif

#if defined(QCG_BF16DOT)
template <int U>
QCG_INLINE vi bf16dot_weight_f4x8u(const uint8_t* p) {
  const __m256i table =
      _mm256_setr_epi16(0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40c0, 0x4100, 0x4140, 0, (int16_t)0xbf80, (int16_t)0xc000,
                        (int16_t)0xc040, (int16_t)0xc080, (int16_t)0xc0c0, (int16_t)0xc100, (int16_t)0xc140);
  return bf16dot_look_up<U>(p, table);
}
// Times 2^e, -120 <= e <= 120: times 2^120 by the table, then 120 - e off the exponents, where zeros saturate.
QCG_INLINE vi exponents_load(const uint8_t* p) {  // of bytes e + 127: 120 - e in the place of both exponents
  const vi e = vi_sub(vi_set1(120 + 127), vi_load_u8(p));
  return _mm512_or_si512(_mm512_slli_epi32(e, 7), _mm512_slli_epi32(e, 23));
}
template <int U>
QCG_INLINE vi bf16dot_scaled_f4x8u(const uint8_t* p, vi exponents) {
  const __m256i table =
      _mm256_setr_epi16(0, 0x7b80, 0x7c00, 0x7c40, 0x7c80, 0x7cc0, 0x7d00, 0x7d40, 0, (int16_t)0xfb80, (int16_t)0xfc00,
                        (int16_t)0xfc40, (int16_t)0xfc80, (int16_t)0xfcc0, (int16_t)0xfd00, (int16_t)0xfd40);
  return _mm512_subs_epu16(bf16dot_look_up<U>(p, table), exponents);
}
#endif
