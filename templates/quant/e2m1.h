// e2m1 (mxfp4, nvfp4) as twice its value, an integer: 0 1 2 3 4 6 8 12 and their negatives. Codes lie as in int4.h.
//
//   f4x8   for floats and signed products        f4x8u  the integer plus 12, where an instruction wants it unsigned
//   f4x8r  in rows of 4 columns, for AVX2: see look_up_codes
#pragma once

// Scales. Powers of two that are neither denormal nor NaN, of bytes e + 127.
QCG_INLINE vf power_load(const uint8_t* p) { return v_from_bits(vi_shl(vi_load_u8(p), 23)); }
// Of e4m3, neither negative nor NaN: exponent and fraction in their places are the number times 2^-120, subnormals included.
QCG_INLINE vf e4m3_load(const uint8_t* p) { return v_mul(v_from_bits(vi_shl(vi_load_u8(p), 20)), v_set1(0x1p120f)); }

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
// Scaled: the number times 2^120, whose bits are then lowered. Zeros saturate. ONE_HALF: the fraction of 3, 6 and 12.
template <int U, int ONE_HALF>
QCG_INLINE vi raised_e2m1_pairs(const uint8_t* p) {
  constexpr int16_t two = 0x7c00, four = 0x7c80, eight = 0x7d00, sign = (int16_t)0x8000;
  const __m256i table = _mm256_setr_epi16(0, 0x7b80, two, two | ONE_HALF, four, four | ONE_HALF, eight,
                                          eight | ONE_HALF, 0, sign | 0x7b80, sign | two, sign | two | ONE_HALF,
                                          sign | four, sign | four | ONE_HALF, sign | eight, sign | eight | ONE_HALF);
  return bf16dot_look_up<U>(p, table);
}
QCG_INLINE vi in_both_halves(vi upper) { return _mm512_or_si512(upper, _mm512_srli_epi32(upper, 16)); }

// By 2^e, -120 <= e <= 120: 120 - e off the exponents.
QCG_INLINE vi exponents_load(const uint8_t* p) {  // of bytes e + 127
  return in_both_halves(_mm512_slli_epi32(vi_sub(vi_set1(120 + 127), vi_load_u8(p)), 23));
}
template <int U>
QCG_INLINE vi bf16dot_scaled_f4x8u(const uint8_t* p, vi lowered) {
  return _mm512_subs_epu16(raised_e2m1_pairs<U, 0x40>(p), lowered);
}

// By s of e4m3, neither negative nor NaN. The bits of 1.5 s are not those of s and the fraction of 1.5 together: the table has
// ones for that fraction, of which is kept what the bits of 1.5 s are above those of s.
struct e4m3_scales {
  vi lowered, kept;
};
QCG_INLINE e4m3_scales e4m3_scales_load(const uint8_t* p) {
  const vf scale = e4m3_load(p);
  const vi bits = v_bits(scale), half_more = vi_sub(v_bits(v_mul(scale, v_set1(1.5f))), bits);
  const __mmask16 positive = _mm512_test_epi32_mask(bits, bits);
  return {in_both_halves(_mm512_mask_sub_epi32(vi_set1((int32_t)0xffff0000), positive, vi_set1(0x7b800000), bits)),
          _mm512_or_si512(in_both_halves(half_more), vi_set1((int32_t)0xff80ff80))};
}
template <int U>
QCG_INLINE vi bf16dot_scaled_f4x8u(const uint8_t* p, const e4m3_scales& scales) {
  return _mm512_subs_epu16(_mm512_and_si512(raised_e2m1_pairs<U, 0x7f>(p), scales.kept), scales.lowered);
}
#endif
