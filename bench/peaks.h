// The ceilings of one x86 core: a loop that only reads memory, and one per instruction that only multiplies.
//
// Why here: a kernel's share of what is possible needs both measured in the same rounds as the kernel.
//
//   const Peak peak = peak_of(*candidate.microkernel);
//   peak.loop(n) * peak.operations   // operations done
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
#define SUMS(type, a, b) \
  type a##0 = b, a##1 = b, a##2 = b, a##3 = b, a##4 = b, a##5 = b, a##6 = b, a##7 = b, a##8 = b, a##9 = b, a##10 = b, a##11 = b
#define ADD_TO(a, op)                                                                                                  \
  asm volatile(op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)                               \
               : "+v"(a##0), "+v"(a##1), "+v"(a##2), "+v"(a##3), "+v"(a##4), "+v"(a##5), "+v"(a##6), "+v"(a##7),       \
                 "+v"(a##8), "+v"(a##9), "+v"(a##10), "+v"(a##11)                                                      \
               : "v"(x), "v"(y))
// Twelve sums, or 24 where there are 32 registers: bf16 dots take six cycles, two at a time.
#define PEAK_12(name, features, type, init, op)                          \
  __attribute__((target(features))) inline double name(int64_t n) {      \
    SUMS(type, a, init);                                                 \
    type x = init, y = init;                                             \
    for (int64_t i = 0; i < n; ++i) ADD_TO(a, op);                       \
    return double(n) * 12;                                               \
  }
#define PEAK_24(name, features, type, init, op)                          \
  __attribute__((target(features))) inline double name(int64_t n) {      \
    SUMS(type, a, init);                                                 \
    SUMS(type, b, init);                                                 \
    type x = init, y = init;                                             \
    for (int64_t i = 0; i < n; ++i) {                                    \
      ADD_TO(a, op);                                                     \
      ADD_TO(b, op);                                                     \
    }                                                                    \
    return double(n) * 24;                                               \
  }
#define FMA_OP(i) "vfmadd231ps %12, %13, %" #i "\n"
#define VNNI_OP(i) "vpdpbusd %12, %13, %" #i "\n"
#define BF16_OP(i) "vdpbf16ps %12, %13, %" #i "\n"
PEAK_24(peak_fma512, "avx512f", __m512, _mm512_setzero_ps(), FMA_OP)
PEAK_24(peak_vnni, "avx512vnni", __m512i, _mm512_setzero_si512(), VNNI_OP)
PEAK_24(peak_bf16, "avx512f", __m512, _mm512_setzero_ps(), BF16_OP)
PEAK_12(peak_fma256, "avx2,fma", __m256, _mm256_setzero_ps(), FMA_OP)
#undef PEAK_24
#undef PEAK_12
#undef ADD_TO
#undef SUMS
#undef FMA_OP
#undef VNNI_OP
#undef BF16_OP

// One row of the peak table: operations (2 per multiply-add) of one instruction; loop(n) says how often it ran.
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
