// What the hardware does and C++ cannot say, on AMD's CDNA 2 (gfx90a); and where the 64 lanes of a wave have what of a product.
//
// Why here: the templates of templates/cuda compile for both devices, because this file has the names of
// templates/cuda/device.cuh. What it asks of hardware is in amdgcn.cuh, which tests replace to run kernels on a CPU. Source:
// AMD Instinct MI200 ISA, section 7 (matrix arithmetic instructions).
//
//   unsigned a[2];  unpack_i4<BF16>(a, &word);  mma_bf16(sum, a, x0, x1);   // sum[16x16] += w[16x16] * x[16x16], 64 lanes
//
// Lane 16 q + c has columns c of w and rows c of x, and of 16 k those that lane q of four has on CUDA (2 q, 2 q + 1, 2 q + 8,
// 2 q + 9): both operands share the order, so one layout of weights serves both devices. It has the sums of rows
// 4 q … 4 q + 3 and column c.
#pragma once

#define QCG_DEVICE static __device__ __forceinline__

#include "amdgcn.cuh"

constexpr int LANES = 64, X_TILE = 16, W_REGISTERS = 2, SUM_ROWS = 4;
QCG_DEVICE int lane_row(int lane) { return lane % 16; }
QCG_DEVICE int lane_k(int lane) { return lane / 16; }
QCG_DEVICE int sum_row(int lane, int e) { return lane / 16 * 4 + e; }
QCG_DEVICE int sum_column(int lane, int) { return lane % 16; }
QCG_DEVICE int column_half() { return (int)(threadIdx.x / 8 % 2); }
QCG_DEVICE int sum_half(int) { return column_half(); }
QCG_DEVICE int packed_lane(int lane) { return lane % 8 * 4 + lane / 16; }
QCG_DEVICE int pair_of_lane(int lane) { return lane % 8; }

// 16 bytes that nobody else reads again soon.
QCG_DEVICE uint4 load_once(const uint4* p) { return *p; }

// There is no asynchronous copy to shared memory: it has taken effect when the function returns.
QCG_DEVICE void cp_async_16(void* shared, const void* global, int bytes) {
  uint4 v = {};
  if (bytes == 16) v = *(const uint4*)global;
  *(uint4*)shared = v;
}
QCG_DEVICE void cp_async_commit() {}
template <int PENDING>
QCG_DEVICE void cp_async_wait() {}

// Operands of product k from rows in shared memory: 128 bytes each, chunk c of row r at c ^ r % 8.
QCG_DEVICE void load_w_rows(unsigned (&a)[2], const unsigned char* tile, int k, int lane) {
  const unsigned char* const row = tile + lane % 16 * 128 + lane / 16 * 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) a[half] = *(const unsigned*)(row + ((k * 2 + half) ^ lane % 8) * 16);
}
template <int TILES>
QCG_DEVICE void load_x_rows(unsigned (&x)[TILES][2], const unsigned char* rows, int row0, int k, int lane) {
#pragma unroll
  for (int i = 0; i < TILES; ++i) load_w_rows(x[i], rows + (row0 + i * 16) * 128, k, lane);
}

// sum[row of x, column of w] += …: x is the first operand of the instruction, so that a lane has one column.
QCG_DEVICE void mma_bf16(float (&d)[4], const unsigned (&a)[2], unsigned b0, unsigned b1) { mfma_bf16(d, b0, b1, a[0], a[1]); }
QCG_DEVICE void mma_f16(float (&d)[4], const unsigned (&a)[2], unsigned b0, unsigned b1) { mfma_f16(d, b0, b1, a[0], a[1]); }
// Of bytes an instruction multiplies 16 k.
QCG_DEVICE void mma_s8(int (&d)[4], const unsigned (&a)[2], unsigned b0, unsigned b1) {
  mfma_i8(d, b0, a[0]);
  mfma_i8(d, b1, a[1]);
}
// Both operands of the instruction are signed: x is x - 128 and twice 64.
QCG_DEVICE void mma_u8(int (&d)[4], const unsigned (&a)[2], unsigned b0, unsigned b1) {
  constexpr unsigned kSigns = 0x80808080, k64 = 0x40404040;
  mma_s8(d, a, b0 ^ kSigns, b1 ^ kSigns);
  mma_s8(d, a, k64, k64);
  mma_s8(d, a, k64, k64);
}

// a * b + c of two pairs. Every use is exact, so that it may round a product apart.
QCG_DEVICE unsigned fma_bf16x2(unsigned a, unsigned b, unsigned c) {
  const float low = __fmaf_rn(__int_as_float((int)(a << 16)), __int_as_float((int)(b << 16)), __int_as_float((int)(c << 16)));
  const float high = __fmaf_rn(__int_as_float((int)(a & 0xffff0000u)), __int_as_float((int)(b & 0xffff0000u)),
                               __int_as_float((int)(c & 0xffff0000u)));
  return (unsigned)__float_as_int(low) >> 16 | ((unsigned)__float_as_int(high) & 0xffff0000u);
}
QCG_DEVICE unsigned and_or(unsigned a, unsigned mask, unsigned bits) { return (a & mask) | bits; }
