// What the hardware does and C++ cannot say: asynchronous copies to shared memory, ldmatrix, mma, 16-bit floats; and where
// the lanes of a warp have what of a product.
//
// Why here: a kernel's template is tile arithmetic in plain C++, and every line of inline PTX is in this file. sm_80 and later.
// templates/hip/device.cuh has the same names for other hardware. Source: PTX ISA 7.0, section 9.7.
//
//   unsigned a[4];  ldmatrix_x4(a, row_of_this_lane);     // four 8x8 tiles of 16-bit elements
//   mma_bf16(acc, a, b);                                  // acc[16x8] += a[16x16] * b[16x8], f32 accumulators
#pragma once

#define QCG_DEVICE static __device__ __forceinline__

// A product: 16 columns of w (the first operand, W_REGISTERS a lane) times X_TILE rows of x give four sums a lane, of
// SUM_ROWS rows.
constexpr int LANES = 32, X_TILE = 8, W_REGISTERS = 4, SUM_ROWS = 2;
// Of both operands, the row (of 8 columns of w) and the quarter of k that a lane has.
QCG_DEVICE int lane_row(int lane) { return lane / 4; }
QCG_DEVICE int lane_k(int lane) { return lane % 4; }
// Of sum e: its row, its column, and whether that is among the lower or upper 8.
QCG_DEVICE int sum_row(int lane, int e) { return lane % 4 * 2 + e % 2; }
QCG_DEVICE int sum_column(int lane, int e) { return e / 2 * 8 + lane / 4; }
QCG_DEVICE int sum_half(int e) { return e / 2; }
// Packed weights and parameters (codegen/cuda/layout.h): the lane whose bytes this one reads, its pair of columns, and
// which half of 16 columns it has where W_REGISTERS is 2.
QCG_DEVICE int packed_lane(int lane) { return lane; }
QCG_DEVICE int pair_of_lane(int lane) { return lane / 4; }
QCG_DEVICE int column_half() { return 0; }
QCG_DEVICE void atomic_min(long long* p, long long x) { atomicMin(p, x); }
// From another of 32 lanes.
template <class T>
QCG_DEVICE T shuffle_xor(T x, int distance) {
  return __shfl_xor_sync(~0u, x, distance);
}
// Whether it holds for a lane of this warp.
QCG_DEVICE bool any_lane(bool holds) { return __any_sync(~0u, holds); }

// 16 bytes that nobody else reads again soon.
QCG_DEVICE uint4 load_once(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// Copies `bytes` (0 to 16) from global memory, the rest of the 16 bytes becomes 0. Both addresses are 16-byte aligned.
QCG_DEVICE void cp_async_16(void* shared, const void* global, int bytes) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(global), "r"(bytes) : "memory");
}
QCG_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Waits until at most PENDING of the newest groups of this thread are under way.
template <int PENDING>
QCG_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

// Lane 8 i + r gives the address of row r of tile i; register i of lane l gets columns 2 (l % 4) and + 1 of row l / 4.
QCG_DEVICE void ldmatrix_x4(unsigned (&r)[4], const void* shared) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// The same of transposed tiles: columns instead of rows.
QCG_DEVICE void ldmatrix_x4_transposed(unsigned (&r)[4], const void* shared) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Operands of product k from rows in shared memory: 128 bytes each, chunk c of row r at c ^ r % 8.
QCG_DEVICE void load_w_rows(unsigned (&a)[W_REGISTERS], const unsigned char* tile, int k, int lane) {
  ldmatrix_x4(a, tile + lane % 16 * 128 + ((k * 2 + lane / 16) ^ lane % 8) * 16);
}
// Rows from row0 on: lane l gives row l % 8 + 8 (l / 16) of two tiles of 8 rows, half l / 8 % 2 of 16 k.
template <int TILES>
QCG_DEVICE void load_x_rows(unsigned (&x)[TILES][2], const unsigned char* rows, int row0, int k, int lane) {
  static_assert(TILES % 2 == 0, "two tiles at once");
  const int row = (row0 + lane % 8 + lane / 16 * 8) * 128, half = lane / 8 % 2, bank = lane % 8;
#pragma unroll
  for (int i = 0; i < TILES; i += 2) {
    unsigned two[4];
    ldmatrix_x4(two, rows + row + i * 8 * 128 + ((k * 2 + half) ^ bank) * 16);
    x[i][0] = two[0], x[i][1] = two[1], x[i + 1][0] = two[2], x[i + 1][1] = two[3];
  }
}

#define QCG_MMA(name, type)                                                                                            \
  QCG_DEVICE void name(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {                              \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "    \
                 "{%8, %9}, {%0, %1, %2, %3};\n"                                                                       \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                      \
  }
QCG_MMA(mma_bf16, "bf16")
QCG_MMA(mma_f16, "f16")
#undef QCG_MMA

// acc[16x8] += a[16x32] * b[32x8], int32: a signed bytes, b signed or not.
#define QCG_MMA(name, type)                                                                                            \
  QCG_DEVICE void name(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {                                \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8." type ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "          \
                 "{%8, %9}, {%0, %1, %2, %3};\n"                                                                       \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                      \
  }
QCG_MMA(mma_s8, "s8")
QCG_MMA(mma_u8, "u8")
#undef QCG_MMA

// acc[16x8] += a[16x32] * b[32x8], 8-bit floats and f32 sums: sm_90a and later.
#define QCG_HAS_FLOAT8_PRODUCTS
#define QCG_MMA(a_type, b_type)                                                                                        \
  QCG_DEVICE void mma_##a_type##_##b_type(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {           \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." #a_type "." #b_type                                          \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                              \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                      \
  }
QCG_MMA(e4m3, e4m3)
QCG_MMA(e4m3, e5m2)
QCG_MMA(e5m2, e4m3)
#undef QCG_MMA

// a * b + c of two pairs, rounded once.
QCG_DEVICE unsigned fma_bf16x2(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
QCG_DEVICE unsigned fma_f16x2(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
// (a & mask) | bits as the one instruction it is; the compiler makes two where both are constants.
QCG_DEVICE unsigned and_or(unsigned a, unsigned mask, unsigned bits) {
  unsigned d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
  return d;
}

QCG_DEVICE float f32_of_f16(unsigned short h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
}
QCG_DEVICE unsigned short f16_of_f32(float x) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
