// The instructions of templates/hip/amdgcn.cuh on a CPU, and what HIP's headers have beside: vectors, built-in variables, functions.
//
// Why here: with this file in place of that one, a kernel's source is C++ that g++ compiles. A thread is a fiber; the machine
// (tests/hip/emulator.h) knows the one that runs, and lanes that multiply together meet there.
//
//   mfma_bf16(d, a0, a1, b0, b1);   // waits for the 64 lanes of the wave
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static
#define __align__(bytes) alignas(bytes)

struct Index {
  unsigned x, y;
};
struct EmulatedMachine {
  Index thread, block;
  unsigned char* shared;                                                // dynamic
  void (*barrier)();                                                    // of the block
  const unsigned char* (*meet)(int lanes, const void* own, int bytes);  // what the lanes of a group gave, 32 bytes apart
};
extern "C" EmulatedMachine* qcg_machine;
#define threadIdx (qcg_machine->thread)
#define blockIdx (qcg_machine->block)
QCG_DEVICE void __syncthreads() { qcg_machine->barrier(); }

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) ushort4 {
  unsigned short x, y, z, w;
};
QCG_DEVICE float2 make_float2(float x, float y) { return {x, y}; }
QCG_DEVICE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
QCG_DEVICE int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
QCG_DEVICE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
QCG_DEVICE ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w) { return {x, y, z, w}; }

QCG_DEVICE float __int_as_float(int bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
QCG_DEVICE int __float_as_int(float x) {
  int bits;
  memcpy(&bits, &x, 4);
  return bits;
}
QCG_DEVICE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
QCG_DEVICE float normcdff(float x) { return (float)(0.5 * erfc(-x * 0.70710678118654752440)); }
QCG_DEVICE unsigned __byte_perm(unsigned a, unsigned b, unsigned select) {
  const unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= (unsigned)(bytes >> (select >> 4 * i & 7) * 8 & 255) << 8 * i;
  return out;
}
template <class T>
QCG_DEVICE T atomicAdd(T* p, T x) {
  const T before = *p;
  *p += x;
  return before;
}
QCG_DEVICE void atomic_min(long long* p, long long x) {
  if (x < *p) *p = x;
}

template <class T>
QCG_DEVICE T shuffle_xor(T x, int distance) {
  T other;
  memcpy(&other, qcg_machine->meet(32, &x, sizeof x) + ((threadIdx.x ^ (unsigned)distance) % 32) * 32, sizeof x);
  return other;
}
QCG_DEVICE bool any_lane(bool holds) {
  const unsigned char own = holds, *const all = qcg_machine->meet(64, &own, 1);
  bool any = false;
  for (int lane = 0; lane < 64; ++lane) any = any || all[lane * 32];
  return any;
}

QCG_DEVICE float f32_of_f16(unsigned short h) {
  const unsigned sign = (unsigned)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 0) {
    const float x = (float)mantissa * 0x1p-24f;
    return sign ? -x : x;
  }
  return __int_as_float((int)(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13));
}
QCG_DEVICE unsigned short f16_of_f32(float x) {
  const unsigned sign = (unsigned)__float_as_int(x) >> 16 & 0x8000;
  const float size = fabsf(x);
  if (size != size) return (unsigned short)(sign | 0x7e00);
  if (size >= 65520.0f) return (unsigned short)(sign | 0x7c00);
  if (size < 0x1p-14f) return (unsigned short)(sign | (unsigned)rintf(size * 0x1p24f));
  const unsigned bits = (unsigned)__float_as_int(size);
  return (unsigned short)(sign | ((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112 << 10));
}
QCG_DEVICE unsigned fma_f16x2(unsigned a, unsigned b, unsigned c) {
  unsigned d = 0;
  for (int i = 0; i < 32; i += 16)
    d |= (unsigned)f16_of_f32(fmaf(f32_of_f16((unsigned short)(a >> i)), f32_of_f16((unsigned short)(b >> i)),
                                   f32_of_f16((unsigned short)(c >> i)))) << i;
  return d;
}

// Matrix instructions of gfx90a take subnormal numbers for zero.
QCG_DEVICE float normal(float x, float least) { return fabsf(x) < least ? 0.0f : x; }
struct Operand_bf16 {
  static float read(unsigned short h) { return normal(__int_as_float((int)((unsigned)h << 16)), 0x1p-126f); }
};
struct Operand_f16 {
  static float read(unsigned short h) { return normal(f32_of_f16(h), 0x1p-14f); }
};

// Lane 16 q + c gives a[c][4 q …] and b[4 q …][c], and has d[4 q + e][c].
template <class Operand>
QCG_DEVICE void mfma_halves(float (&d)[4], unsigned a0, unsigned a1, unsigned b0, unsigned b1) {
  const unsigned own[4] = {a0, a1, b0, b1};
  const unsigned char* const all = qcg_machine->meet(64, own, sizeof own);
  const int lane = (int)threadIdx.x % 64, q = lane / 16, c = lane % 16;
  for (int e = 0; e < 4; ++e) {
    float sum = d[e];
    for (int k = 0; k < 16; ++k) {
      unsigned short a, b;
      memcpy(&a, all + (k / 4 * 16 + 4 * q + e) * 32 + k % 4 * 2, 2);
      memcpy(&b, all + (k / 4 * 16 + c) * 32 + 8 + k % 4 * 2, 2);
      sum += Operand::read(a) * Operand::read(b);
    }
    d[e] = normal(sum, 0x1p-126f);
  }
}
QCG_DEVICE void mfma_bf16(float (&d)[4], unsigned a0, unsigned a1, unsigned b0, unsigned b1) {
  mfma_halves<Operand_bf16>(d, a0, a1, b0, b1);
}
QCG_DEVICE void mfma_f16(float (&d)[4], unsigned a0, unsigned a1, unsigned b0, unsigned b1) {
  mfma_halves<Operand_f16>(d, a0, a1, b0, b1);
}
QCG_DEVICE void mfma_i8(int (&d)[4], unsigned a, unsigned b) {
  const unsigned own[2] = {a, b};
  const unsigned char* const all = qcg_machine->meet(64, own, sizeof own);
  const int lane = (int)threadIdx.x % 64, q = lane / 16, c = lane % 16;
  for (int e = 0; e < 4; ++e)
    for (int k = 0; k < 16; ++k)
      d[e] += (signed char)all[(k / 4 * 16 + 4 * q + e) * 32 + k % 4] * (signed char)all[(k / 4 * 16 + c) * 32 + 4 + k % 4];
}
