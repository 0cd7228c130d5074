// GEMM primitives of AMX: eight tiles of 16 rows x 64 bytes, and weights unpacked to them.
//
// Why here: gemm_amx.cpp.j2 multiplies 32x32 with all of them, or 16x32 with four (C 0, C 1, A 4 and B 6); packing,
// corrections and results are those of AVX-512.
//
//              B 6     B 7       a row of A: 16 units of one row, 64 bytes apart
//            +-------+-------+   a row of B: one unit of 16 columns, 128 bytes apart in a panel of 32 columns
//     A 4    |  C 0  |  C 1  |
//     A 5    |  C 2  |  C 3  |   tile_dp_bf16<0, 4, 6>();   // C 0 += A 4 x B 6
//            +-------+-------+
//
// A row of A has fewer units, and B as many rows, where a group has fewer than 16: padding would be loaded like weights.
//
// With -DQCG_EMULATE_AMX the same names work on arrays, with the instructions' order of rounding, so that kernels can be
// checked where there are no tiles.
//
// Tiles are inline assembly because the load of g++ 12's own intrinsics does not say that it reads memory: stores to a
// buffer that only tiles read are dropped. Tile numbers are literal, so the compiler allocates nothing.
#pragma once
#define QCG_TILES 1
#include "amx.h"
#include "gemm_avx512bf16.h"

#if defined(QCG_EMULATE_AMX)

struct EmulatedTiles {
  int rows = 0, units = 0;  // rows of results and activations, 0: not configured; units of a row of activations
  uint8_t bytes[8][16][64];
};
static thread_local EmulatedTiles emulated_tiles;

template <int T>
QCG_INLINE uint8_t (&tile_bytes())[16][64] {
  if (emulated_tiles.rows == 0) __builtin_trap();  // so does the instruction
  return emulated_tiles.bytes[T];
}
template <int T>
QCG_INLINE int tile_rows() { return T < 6 ? emulated_tiles.rows : emulated_tiles.units; }
template <int T>
QCG_INLINE unsigned long tile_row_bytes() { return T == 4 || T == 5 ? emulated_tiles.units * 4 : 64; }
QCG_INLINE void tile_config(int64_t m, int units) {
  emulated_tiles.rows = m < 16 ? (int)m : 16, emulated_tiles.units = units;
  __builtin_memset(emulated_tiles.bytes, 0, sizeof emulated_tiles.bytes);
}
QCG_INLINE void tile_release() { emulated_tiles.rows = 0; }
template <int T>
QCG_INLINE void tile_zero() { __builtin_memset(tile_bytes<T>(), 0, 1024); }
template <int T>
QCG_INLINE void tile_load(const void* p, int64_t stride) {
  tile_zero<T>();
  for (int r = 0; r < tile_rows<T>(); ++r)
    __builtin_memcpy(tile_bytes<T>()[r], (const uint8_t*)p + r * stride, tile_row_bytes<T>());
}
template <int T>
QCG_INLINE void tile_store(void* p, int64_t stride) {
  for (int r = 0; r < tile_rows<T>(); ++r)
    __builtin_memcpy((uint8_t*)p + r * stride, tile_bytes<T>()[r], tile_row_bytes<T>());
}

// Denormals are zeros going in and coming out, whatever MXCSR says.
inline float tile_flush(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  if ((bits & 0x7f800000) == 0) bits &= 0x80000000;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
inline float tile_float(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return tile_flush(x);
}
// TDPBF16PS: even and odd k are two chains of fused multiply-adds that start at zero; their sum is added to C.
inline void emulate_dp_bf16(int rows, uint8_t (&c)[16][64], const uint8_t (&a)[16][64], const uint8_t (&b)[16][64]) {
  for (int m = 0; m < rows; ++m) {
    float even[16] = {}, odd[16] = {};
    for (int k = 0; k < emulated_tiles.units; ++k) {
      uint32_t x, w[16];
      __builtin_memcpy(&x, a[m] + 4 * k, 4);
      __builtin_memcpy(w, b[k], 64);
      for (int n = 0; n < 16; ++n) {
        even[n] = tile_flush(__builtin_fmaf(tile_float(x << 16), tile_float(w[n] << 16), even[n]));
        odd[n] = tile_flush(__builtin_fmaf(tile_float(x & 0xffff0000), tile_float(w[n] & 0xffff0000), odd[n]));
      }
    }
    float sum[16];
    __builtin_memcpy(sum, c[m], 64);
    for (int n = 0; n < 16; ++n) sum[n] = tile_flush(tile_flush(sum[n]) + tile_flush(even[n] + odd[n]));
    __builtin_memcpy(c[m], sum, 64);
  }
}
template <int C, int A, int B>
QCG_INLINE void tile_dp_bf16() { emulate_dp_bf16(tile_rows<C>(), tile_bytes<C>(), tile_bytes<A>(), tile_bytes<B>()); }

// TDPBSUD and TDPBSSD: four products of a signed byte of A and an unsigned or signed byte of B, added modulo 2^32.
template <typename Weight>
inline void emulate_dp_bytes(int rows, uint8_t (&c)[16][64], const uint8_t (&a)[16][64], const uint8_t (&b)[16][64]) {
  for (int m = 0; m < rows; ++m) {
    uint32_t sum[16];
    __builtin_memcpy(sum, c[m], 64);
    for (int k = 0; k < emulated_tiles.units; ++k)
      for (int n = 0; n < 16; ++n)
        for (int j = 0; j < 4; ++j)
          sum[n] += (uint32_t)((int32_t)(int8_t)a[m][4 * k + j] * (int32_t)(Weight)b[k][4 * n + j]);
    __builtin_memcpy(c[m], sum, 64);
  }
}
template <int C, int A, int B>
QCG_INLINE void tile_dp_sud() {
  emulate_dp_bytes<uint8_t>(tile_rows<C>(), tile_bytes<C>(), tile_bytes<A>(), tile_bytes<B>());
}
template <int C, int A, int B>
QCG_INLINE void tile_dp_ssd() {
  emulate_dp_bytes<int8_t>(tile_rows<C>(), tile_bytes<C>(), tile_bytes<A>(), tile_bytes<B>());
}

#else

struct alignas(64) TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
// Tiles of results and activations have as many rows as there are, up to 16: a product takes about a cycle per row. Threads
// keep no tiles between calls: tile registers belong to nobody across a call, and a released configuration is what the
// operating system need not save.
QCG_INLINE void tile_config(int64_t m, int units) {
  TileConfig config = {};
  config.palette = 1;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = t == 4 || t == 5 ? units * 4 : 64;
    config.rows[t] = t >= 6 ? units : m < 16 ? (uint8_t)m : 16;
  }
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}
QCG_INLINE void tile_release() { asm volatile("tilerelease" : : : "memory"); }
template <int T>
QCG_INLINE void tile_zero() { asm volatile("tilezero %%tmm%c0" : : "i"(T)); }
template <int T>
QCG_INLINE void tile_load(const void* p, int64_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(T), "r"(p), "r"(stride) : "memory");
}
template <int T>
QCG_INLINE void tile_store(void* p, int64_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(T), "r"(p), "r"(stride) : "memory");
}
template <int C, int A, int B>
QCG_INLINE void tile_dp_bf16() { asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B)); }
// A signed (activations), B unsigned (weights xor 0x80) or signed.
template <int C, int A, int B>
QCG_INLINE void tile_dp_sud() { asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B)); }
template <int C, int A, int B>
QCG_INLINE void tile_dp_ssd() { asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B)); }

#endif

// Weight units [0, rows) of 32 columns at w into a buffer of `units` x 128 bytes, zeros behind them: what lies behind the
// last unit of a segment or group is something else, and as bf16 it could be NaN.
QCG_INLINE void tile_clear_rows(uint8_t* b, int64_t rows, int64_t units) {
  if (rows < units) __builtin_memset(b + rows * 128, 0, (unsigned long)(units - rows) * 128);
}
QCG_INLINE const uint8_t* tile_pad_rows(uint8_t* b, const uint8_t* w, int64_t rows, int64_t units) {
  __builtin_memcpy(b, w, (unsigned long)rows * 128);
  tile_clear_rows(b, rows, units);
  return b;
}
