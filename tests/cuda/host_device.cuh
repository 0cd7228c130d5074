// templates/cuda/device.cuh for a host: a block's threads as fibers of one thread, with the PTX meaning of each primitive.
//
// Why here: the tile arithmetic of a CUDA kernel can be checked where there is no GPU. Asynchronous copies happen only when
// they are waited for, so a missing wait shows; lanes meet at every warp-wide instruction as the hardware makes them.
// What this cannot show: the instructions themselves, alignment traps, races between warps. Source: PTX ISA 7.0, 9.7.
//
//   emulate_grid(run_kernel_0, &args, grid_x, grid_y, threads);
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define QCG_DEVICE static inline

struct HostIndex {
  unsigned x, y, z;
};
extern HostIndex threadIdx, blockIdx;
void __syncthreads();
// All 32 lanes give 16 words each and see what all gave.
const uint64_t (*warp_exchange(const uint64_t (&words)[16]))[16];
void warp_done();
void cp_async_16(void* shared, const void* global, int bytes);
void cp_async_commit();
void cp_async_wait_for(int pending);
template <int PENDING>
void cp_async_wait() {
  cp_async_wait_for(PENDING);
}
float __int_as_float(int bits);
int __float_as_int(float x);
float normcdff(float x);
float f32_of_f16(unsigned short h);
unsigned short f16_of_f32(float x);

QCG_DEVICE void ldmatrix_x4(unsigned (&r)[4], const void* shared) {
  const uint64_t (*all)[16] = warp_exchange({(uint64_t)(uintptr_t)shared});
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) memcpy(&r[i], (const unsigned char*)(uintptr_t)all[8 * i + lane / 4][0] + lane % 4 * 4, 4);
  warp_done();
}

typedef float HostFloat(unsigned short);
QCG_DEVICE float host_bf16(unsigned short h) { return __int_as_float((int)((unsigned)h << 16)); }
QCG_DEVICE void host_mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, HostFloat* value) {
  const uint64_t (*all)[16] = warp_exchange({a[0], a[1], a[2], a[3], b0, b1});
  const unsigned lane = threadIdx.x % 32;
  auto half = [&](uint64_t word, unsigned which) { return value((unsigned short)(word >> (16 * which))); };
  for (unsigned e = 0; e < 4; ++e) {
    const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    double sum = d[e];
    for (unsigned k = 0; k < 16; ++k) {
      // a: register (row / 8) + 2 (k / 8) of lane 4 (row % 8) + k % 8 / 2; b: register k / 8 of lane 4 column + k % 8 / 2
      const float x = half(all[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2);
      const float w = half(all[column * 4 + k % 8 / 2][4 + k / 8], k % 2);
      sum += (double)x * w;
    }
    d[e] = (float)sum;
  }
  warp_done();
}
QCG_DEVICE void mma_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { host_mma(d, a, b0, b1, host_bf16); }
QCG_DEVICE void mma_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { host_mma(d, a, b0, b1, f32_of_f16); }
