// Instructions of gfx90a as functions: products of matrices, shuffles, 16-bit floats.
//
// Why here: these are all lines that need AMD's compiler. tests/hip/emulated/amdgcn.cuh has the same functions for 64 lanes on a
// CPU.
//
//   mfma_bf16(d, a0, a1, b0, b1);   // d[4 q + e][c] += a[4 q + e][k] * b[k][c]; lane 16 q + c has a[c] and b[c] of k 4 q … 4 q + 3
#pragma once

#include <hip/hip_runtime.h>

// HIP 5.2 has none of signed 64-bit integers.
QCG_DEVICE void atomic_min(long long* p, long long x) {
  __hip_atomic_fetch_min(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
// From another of 32 lanes.
template <class T>
QCG_DEVICE T shuffle_xor(T x, int distance) {
  return __shfl_xor(x, distance, 32);
}
// Whether it holds for a lane of this wave.
QCG_DEVICE bool any_lane(bool holds) { return __any(holds) != 0; }

using Four_s16 = short __attribute__((vector_size(8)));
using Four_f16 = _Float16 __attribute__((vector_size(8)));
using Two_f16 = _Float16 __attribute__((vector_size(4)));
using Four_f32 = float __attribute__((vector_size(16)));
using Four_i32 = int __attribute__((vector_size(16)));
using Two_words = unsigned __attribute__((vector_size(8)));

QCG_DEVICE void mfma_bf16(float (&d)[4], unsigned a0, unsigned a1, unsigned b0, unsigned b1) {
  const Four_f32 c = {d[0], d[1], d[2], d[3]};
  const Four_f32 r = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k((Four_s16)(Two_words{a0, a1}), (Four_s16)(Two_words{b0, b1}), c, 0, 0, 0);
  d[0] = r[0], d[1] = r[1], d[2] = r[2], d[3] = r[3];
}
QCG_DEVICE void mfma_f16(float (&d)[4], unsigned a0, unsigned a1, unsigned b0, unsigned b1) {
  const Four_f32 c = {d[0], d[1], d[2], d[3]};
  const Four_f32 r = __builtin_amdgcn_mfma_f32_16x16x16f16((Four_f16)(Two_words{a0, a1}), (Four_f16)(Two_words{b0, b1}), c, 0, 0, 0);
  d[0] = r[0], d[1] = r[1], d[2] = r[2], d[3] = r[3];
}
// Signed bytes.
QCG_DEVICE void mfma_i8(int (&d)[4], unsigned a, unsigned b) {
  const Four_i32 c = {d[0], d[1], d[2], d[3]};
  const Four_i32 r = __builtin_amdgcn_mfma_i32_16x16x16i8((int)a, (int)b, c, 0, 0, 0);
  d[0] = r[0], d[1] = r[1], d[2] = r[2], d[3] = r[3];
}

QCG_DEVICE unsigned fma_f16x2(unsigned a, unsigned b, unsigned c) {
  Two_f16 x, y, z;
  __builtin_memcpy(&x, &a, 4), __builtin_memcpy(&y, &b, 4), __builtin_memcpy(&z, &c, 4);
  const Two_f16 r = x * y + z;
  unsigned d;
  __builtin_memcpy(&d, &r, 4);
  return d;
}
QCG_DEVICE float f32_of_f16(unsigned short h) {
  _Float16 f;
  __builtin_memcpy(&f, &h, 2);
  return (float)f;
}
QCG_DEVICE unsigned short f16_of_f32(float x) {
  const _Float16 f = (_Float16)x;
  unsigned short h;
  __builtin_memcpy(&h, &f, 2);
  return h;
}
