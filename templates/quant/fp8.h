// fp8 weights and activations. The bits of an e5m2 number are the upper half of an f16; those of an e4m3 number, moved to
// an f16's exponent and fraction, are the number divided by 256, subnormals included. f16 converts exactly.
//
//   weights      e4m3 divided by 256 (the sum is multiplied back once), e5m2 as it is; a column with a NaN has a NaN scale
//   activations  the value itself, NaN included, by table
#pragma once

#if defined(QCG_AVX512) || defined(QCG_AVX2)
// Words of two k: k = 0 1 of four columns and then k = 2 3 of them, in every 16 bytes. Moved so that the first half of a vector
// is of k = 0 1, and of the columns in their order, they become two halves of f16.
#if defined(QCG_AVX512)
QCG_INLINE vi fp8_load(const uint8_t* p) {
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), dword_load(p));
}
template <int U>
QCG_INLINE __m256i fp8_half(vi w) { return U < 2 ? _mm512_castsi512_si256(w) : _mm512_extracti64x4_epi64(w, 1); }
QCG_INLINE vi fp8_low_bytes_up(vi w) { return _mm512_slli_epi16(w, 8); }
QCG_INLINE vi fp8_down_a_bit(vi w) { return _mm512_srai_epi16(w, 1); }
#else
QCG_INLINE vi fp8_load(const uint8_t* p) { return _mm256_permute4x64_epi64(dword_load(p), 0xd8); }
template <int U>
QCG_INLINE __m128i fp8_half(vi w) { return U < 2 ? _mm256_castsi256_si128(w) : _mm256_extracti128_si256(w, 1); }
QCG_INLINE vi fp8_low_bytes_up(vi w) { return _mm256_slli_epi16(w, 8); }
QCG_INLINE vi fp8_down_a_bit(vi w) { return _mm256_srai_epi16(w, 1); }
#endif
template <int U>
QCG_INLINE vf fma_weight_e4m3x4r(const uint8_t* p) {
  const vi w = fp8_load(p), high = U % 2 == 0 ? fp8_low_bytes_up(w) : w;
  return v_from_f16(fp8_half<U>(vi_and(fp8_down_a_bit(high), vi_set1((int32_t)0xbf80bf80))));
}
template <int U>
QCG_INLINE vf fma_weight_e5m2x4r(const uint8_t* p) {
  const vi w = fp8_load(p);
  return v_from_f16(fp8_half<U>(U % 2 == 0 ? fp8_low_bytes_up(w) : vi_and(w, vi_set1((int32_t)0xff00ff00))));
}
#else
QCG_INLINE vi fp8_load(const uint8_t* p) { return {qcg_i4{p[0], p[1], p[2], p[3]}, qcg_i4{p[4], p[5], p[6], p[7]}}; }
template <int U>
QCG_INLINE vf fma_weight_e4m3(const uint8_t* p) {
  const vi x = fp8_load(p);
  return v_from_f16(vi_add(vi_shl(vi_and(x, vi_set1(0x80)), 8), vi_shl(vi_and(x, vi_set1(0x7f)), 7)));
}
template <int U>
QCG_INLINE vf fma_weight_e5m2(const uint8_t* p) { return v_from_f16(vi_shl(fp8_load(p), 8)); }
#endif

// All 256 numbers of a format with E exponent bits; the largest exponent of e5m2 is Inf and NaN, e4m3 has one NaN.
struct Fp8Table {
  float value[256];
};
template <int E>
constexpr Fp8Table make_fp8_table() {
  Fp8Table t = {};
  constexpr int M = 7 - E, bias = (1 << (E - 1)) - 1;
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code & 127) >> M, fraction = code & ((1 << M) - 1);
    float v = (float)(exponent == 0 ? fraction : fraction + (1 << M));
    for (int e = (exponent == 0 ? 1 : exponent) - bias - M; e != 0; e += e < 0 ? 1 : -1) v = e < 0 ? v / 2 : v * 2;
    if (E == 4 && (code & 127) == 127) v = __builtin_nanf("");
    if (E == 5 && exponent == 31) v = fraction == 0 ? __builtin_inff() : __builtin_nanf("");
    t.value[code] = code < 128 ? v : -v;
  }
  return t;
}
static constexpr Fp8Table kE4m3 = make_fp8_table<4>(), kE5m2 = make_fp8_table<5>();

#if defined(QCG_BF16DOT)
static constexpr Bf16Bytes kE4m3Bytes = bf16_bytes([](int code) { return bf16_bits(kE4m3.value[code] / 256); }),
                           kE5m2Bytes = bf16_bytes([](int code) { return bf16_bits(kE5m2.value[code]); });
template <int U>
QCG_INLINE vi fp8_pairs(const uint8_t* p, const Bf16Bytes& table) {
  const vi w = dword_load(p), low = bf16_byte(table.low, w), high = bf16_sign(bf16_byte(table.high, w), w);
  return U == 0 ? _mm512_unpacklo_epi8(low, high) : _mm512_unpackhi_epi8(low, high);
}
template <int U>
QCG_INLINE vi bf16dot_weight_e4m3x4r(const uint8_t* p) { return fp8_pairs<U>(p, kE4m3Bytes); }
template <int U>
QCG_INLINE vi bf16dot_weight_e5m2x4r(const uint8_t* p) { return fp8_pairs<U>(p, kE5m2Bytes); }
QCG_INLINE void pack_bf16_f8e4m3(qcg_bf16* dst, const uint8_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = bf16_bits(kE4m3.value[x[i]]);
}
QCG_INLINE void pack_bf16_f8e5m2(qcg_bf16* dst, const uint8_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = bf16_bits(kE5m2.value[x[i]]);
}
#endif

QCG_INLINE void pack_f32_f8e4m3(float* dst, const uint8_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = kE4m3.value[x[i]];
}
QCG_INLINE void pack_f32_f8e5m2(float* dst, const uint8_t* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = kE5m2.value[x[i]];
}
