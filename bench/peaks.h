// The ceilings of one x86 core: a loop that only reads memory, and one per instruction that only multiplies.
//
// Why here: a kernel's share of what is possible needs both measured in the same rounds as the kernel.
//
//   const Peak peak = peak_of(*candidate.microkernel);
//   peak.loop(n);                                        // 12 * n * peak.operations operations
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "codegen/gemm_shape.h"

namespace qcg::bench {

__attribute__((target("avx512f"))) inline uint64_t read_all(const std::byte* p, size_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (size_t i = 0; i + 256 <= bytes; i += 256) {
    for (int line = 0; line < 4; ++line)
      _mm_prefetch(reinterpret_cast<const char*>(p + i + 2048 + line * 64), _MM_HINT_T0);
    a = _mm512_add_epi64(a, _mm512_loadu_si512(p + i)), b = _mm512_add_epi64(b, _mm512_loadu_si512(p + i + 64));
    c = _mm512_add_epi64(c, _mm512_loadu_si512(p + i + 128)), d = _mm512_add_epi64(d, _mm512_loadu_si512(p + i + 192));
  }
  return uint64_t(_mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d))));
}
#define PEAK(name, features, type, init, op)                                                                        \
  __attribute__((target(features))) inline double name(int64_t n) {                                                 \
    type a0 = init, a1 = init, a2 = init, a3 = init, a4 = init, a5 = init, a6 = init, a7 = init, a8 = init, a9 = init, \
         a10 = init, a11 = init, x = init, y = init;                                                                \
    for (int64_t i = 0; i < n; ++i)                                                                                 \
      asm volatile(op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)                        \
                   : "+v"(a0), "+v"(a1), "+v"(a2), "+v"(a3), "+v"(a4), "+v"(a5), "+v"(a6), "+v"(a7), "+v"(a8),      \
                     "+v"(a9), "+v"(a10), "+v"(a11)                                                                 \
                   : "v"(x), "v"(y));                                                                               \
    return double(n) * 12;                                                                                          \
  }
#define FMA_OP(i) "vfmadd231ps %12, %13, %" #i "\n"
#define VNNI_OP(i) "vpdpbusd %12, %13, %" #i "\n"
#define BF16_OP(i) "vdpbf16ps %12, %13, %" #i "\n"
PEAK(peak_fma512, "avx512f", __m512, _mm512_setzero_ps(), FMA_OP)
PEAK(peak_vnni, "avx512vnni", __m512i, _mm512_setzero_si512(), VNNI_OP)
PEAK(peak_bf16, "avx512f", __m512, _mm512_setzero_ps(), BF16_OP)
PEAK(peak_fma256, "avx2,fma", __m256, _mm256_setzero_ps(), FMA_OP)
#undef PEAK
#undef FMA_OP
#undef VNNI_OP
#undef BF16_OP

// One row of the peak table: operations (2 per multiply-add) of one instruction.
struct Peak {
  double (*loop)(int64_t);
  double operations;
};
inline Peak peak_of(const Microkernel& m) {
  if (m.compute == "vnni") return {peak_vnni, 128.0 / slices_of(m)};
  if (m.compute == "bf16dot") return {peak_bf16, 64};
  if (isa_info(m.isa).vector_bytes == 64) return {peak_fma512, 32};
  return {peak_fma256, 16};  // madd16 does 32 operations but needs an add: the same rate
}

}  // namespace qcg::bench
