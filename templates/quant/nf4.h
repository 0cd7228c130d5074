// 4-bit NormalFloat: codes into the 16 quantiles of graph/scheme.h. They lie as in int4.h. Not exact in bf16: f32 products only.
#pragma once
alignas(64) static const float kNf4[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f,
    -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

#if defined(QCG_AVX512)
template <int U>
QCG_INLINE vf fma_weight_n4x8(const uint8_t* p) {
  const vi w = dword_load(p + U / 2);
  return _mm512_permutexvar_ps(U % 2 == 0 ? w : _mm512_srli_epi32(w, 4), v_load_f32(kNf4));
}
#elif defined(QCG_AVX2)
// Permutes look at 3 bits, the blend at the fourth.
template <int U>
QCG_INLINE vf fma_weight_n4x8(const uint8_t* p) {
  const vi w = dword_load(p), code = _mm256_srli_epi32(w, 4 * U);
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(v_load_f32(kNf4), code),
                          _mm256_permutevar8x32_ps(v_load_f32(kNf4 + 8), code), v_from_bits(vi_shl(w, 28 - 4 * U)));
}
#else
QCG_INLINE qcg_f4 nf4_lookup(qcg_i4 code) {
  return qcg_f4{kNf4[code[0] & 15], kNf4[code[1] & 15], kNf4[code[2] & 15], kNf4[code[3] & 15]};
}
template <int U>
QCG_INLINE vf fma_weight_n4x8(const uint8_t* p) {
  const vi code = vi_sra(dword_load(p), 4 * U);
  return {nf4_lookup(code.lo), nf4_lookup(code.hi)};
}
#endif
