// 4-bit NormalFloat: codes into the 16 quantiles of graph/ir/scheme.h. They lie as in int4.h. Not exact in bf16: f32 products only.
#pragma once
alignas(64) static constexpr float kNf4[16] = {
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
static constexpr ByteTables kNf4Bytes = byte_tables(kNf4);
template <int U>
QCG_INLINE vf fma_weight_n4x8r(const uint8_t* p) { return look_up_codes<U, false>(p, kNf4Bytes); }
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
