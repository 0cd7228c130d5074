// GEMM primitives of AVX2 with AVX-VNNI: dot products of bytes in vectors of 256 bits, three times as many in an instruction
// as gemm_avx2.h's multiply, widen and add.
//
// Why here: see gemm_common.h for the names. CPUs without AVX-512 have it since Intel's Alder Lake. The prefix keeps the
// assembler from encoding the instruction as AVX-512 does.
#pragma once
#include "gemm_avx2.h"

QCG_INLINE vi vnni_zero() { return int_zero(); }
QCG_INLINE vi vnni_add(vi a, vi b) { return vi_add(a, b); }
QCG_INLINE vi vnni_load(const void* p) { return int_load(p); }
QCG_INLINE void vnni_store(void* p, vi acc) { int_store(p, acc); }
QCG_INLINE vi vnni_broadcast(const qcg_unit* x) { return vi_set1((int32_t)*x); }
// Weights are stored xor 0x80: the unsigned operand. Activations stay signed.
template <int U>
QCG_INLINE vi vnni_weight_u8x4(const uint8_t* p) { return dword_load(p); }
QCG_INLINE vi vnni_dot(vi acc, vi w, vi x) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
  return acc;
}
