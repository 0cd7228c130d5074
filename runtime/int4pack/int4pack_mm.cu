// y[m, n] = x[m, k] . w[n, k]^T with int4 weights in tinygemm's layout (qcg_int4pack.h).
//
//   A block has 8 rows of x and 32 columns of y; its 8 warps take groups of k in turn, and their sums meet in shared
//   memory. The weight is the operand of the product with 16 rows: two n8 tiles of the layout are its upper and lower
//   half, as they lie in memory. Lane l has columns l / 4 and l / 4 + 8, and k = 2 (l % 4) + {0, 1, 8, 9} of two k tiles
//   in one word, whose nibbles are
//
//     bits  0 4 8 12   k + 0, k + 8 of the first tile, then of the second
//     bits 16 .. 28    k + 1, k + 9 of both
//
//   so that word >> 4 i & 0x000f000f are two neighbours along k.
struct Arguments {
  const unsigned short* x;
  const unsigned* weight;
  const unsigned* scale_and_zero;  // a pair of bf16 each
  unsigned short* y;
  int m, n, k, group, words_log2;  // of words that a lane has one after the other
};

constexpr int kWarps = 8, kRows = 8, kPairs = 2;  // pairs of n8 tiles of a block

__device__ __forceinline__ void mma(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                    unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Two codes as bf16, less 8: 0x4300 | code is 128 + code.
__device__ __forceinline__ unsigned unpack(unsigned word) {
  unsigned out;
  asm("lop3.b32 %0, %1, 0x000f000f, 0x43004300, 0xea;" : "=r"(out) : "r"(word));
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(out), "r"(0x3f803f80u), "r"(0xc308c308u));
  return out;
}

__device__ __forceinline__ float low_bf16(unsigned pair) { return __int_as_float((int)(pair << 16)); }
__device__ __forceinline__ float high_bf16(unsigned pair) { return __int_as_float((int)(pair & 0xffff0000u)); }
__device__ __forceinline__ unsigned short bf16_of(float x) {
  const unsigned bits = (unsigned)__float_as_int(x);
  return x != x ? 0x7fc0 : (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

extern "C" __global__ void __launch_bounds__(kWarps * 32) qcg_int4pack_mm(const Arguments a) {
  __shared__ float sums[kWarps][kPairs * 4][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int n0 = blockIdx.x * kPairs * 16, m0 = blockIdx.y * kRows;
  // What lies beyond the last row or tile is read from the last one, and not stored.
  const int row = min(m0 + lane / 4, a.m - 1), tiles = a.n / 8;
  const unsigned* const x = (const unsigned*)(a.x + (unsigned long long)row * a.k) + lane % 4;
  const unsigned* weight[kPairs * 2];
  for (int t = 0; t < kPairs * 2; ++t)
    weight[t] = a.weight + (unsigned long long)min(n0 / 8 + t, tiles - 1) * a.k + (lane << a.words_log2);
  float y[kPairs][4] = {};
  const int unit = max(a.group, 32 << a.words_log2);
  for (int unit_begin = warp * unit; unit_begin < a.k; unit_begin += kWarps * unit)
    for (int begin = unit_begin; begin < unit_begin + unit; begin += a.group) {
      float dot[kPairs][4] = {}, x_sum[4] = {};
      for (int k = begin; k < begin + a.group; k += 32) {
        const unsigned b0 = x[k / 2], b1 = x[k / 2 + 4], b2 = x[k / 2 + 8], b3 = x[k / 2 + 12];
        const unsigned ones = 0x3f803f80u;
        mma(x_sum, ones, ones, ones, ones, b0, b1);
        mma(x_sum, ones, ones, ones, ones, b2, b3);
        const int step = k / 32, mask = (1 << a.words_log2) - 1;
        const int at = ((step >> a.words_log2) << (5 + a.words_log2)) + (step & mask);
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          const unsigned low = weight[2 * j][at], high = weight[2 * j + 1][at];
          mma(dot[j], unpack(low), unpack(high), unpack(low >> 4), unpack(high >> 4), b0, b1);
          mma(dot[j], unpack(low >> 8), unpack(high >> 8), unpack(low >> 12), unpack(high >> 12), b2, b3);
        }
      }
      const unsigned* const scales = a.scale_and_zero + (unsigned long long)(begin / a.group) * a.n;
#pragma unroll
      for (int j = 0; j < kPairs; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const unsigned pair = scales[min(n0 + 16 * j + 8 * half + lane / 4, a.n - 1)];
#pragma unroll
          for (int e = 0; e < 2; ++e)
            y[j][2 * half + e] += low_bf16(pair) * dot[j][2 * half + e] + high_bf16(pair) * x_sum[e];
        }
    }
#pragma unroll
  for (int j = 0; j < kPairs; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[warp][4 * j + e][lane] = y[j][e];
  __syncthreads();
  // Neighbouring threads store neighbouring columns.
  for (int i = threadIdx.x; i < kPairs * 16 * kRows; i += kWarps * 32) {
    const int column = i % (kPairs * 16), m = i / (kPairs * 16);
    const int element = column / 16 * 4 + column % 16 / 8 * 2 + m % 2, from = column % 8 * 4 + m / 2;
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += sums[w][element][from];
    if (m0 + m < a.m && n0 + column < a.n) a.y[(unsigned long long)(m0 + m) * a.n + n0 + column] = bf16_of(sum);
  }
}
