// What the hardware does and C++ cannot say: asynchronous copies to shared memory, ldmatrix, mma, 16-bit floats.
//
// Why here: a kernel's template is tile arithmetic in plain C++, and every line of inline PTX is in this file. sm_80 and later.
// Source: PTX ISA 7.0, section 9.7.
//
//   unsigned a[4];  ldmatrix_x4(a, row_of_this_lane);     // four 8x8 tiles of 16-bit elements
//   mma_bf16(acc, a, b);                                  // acc[16x8] += a[16x16] * b[16x8], f32 accumulators
#pragma once

#define QCG_DEVICE static __device__ __forceinline__

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
