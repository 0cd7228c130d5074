// AVX-512 BF16: avx512.h plus the conversion that prepares operands of the bf16 dot product.
//
// Why here: the conversion instruction flushes denormals to zero, as the dot product itself does. So it is right for the
// dot's operands and wrong for results, which keep avx512.h's v_store_bf16.
//
//   __m512i pairs = v_pack_bf16_flush(v_load_f32(x), v_load_f32(x + VL));   // 32 bf16, x first
#pragma once
#include "avx512.h"

QCG_INLINE __m256i v_to_bf16_flush(vf x) { return (__m256i)_mm512_cvtneps_pbh(x); }
QCG_INLINE __m512i v_pack_bf16_flush(vf low, vf high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }
