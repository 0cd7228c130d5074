// qgemm_bf16_bf16_f32_n64_k64_128x128x64_sm90a_mma
//
// gemm dense x=bf16 w=bf16 k=64 k_segments=64 segment(64) output(f32 64 = acc0) m=0..
//
// source nodes, in program order:
//   %y = aten.linear.default(%x, @proj.weight)  model.py:41
//
// lowered to:
//   %y = qcg.linear([%x], weights = [@proj.weight])
//
// y = epilogue(x [M, K] . w [N, K]^T). A block computes 128 x 128 of one output (of every segment the output reads) with
// 2 x 4 warps; K passes through 4 stages of shared memory, 64 at a time:
//
//                      w [BN][BK]  per segment
//                     +------+------+
//     x [BM][BK]      | warp | warp |      a row is 8 chunks of 16 bytes; chunk c of row r lies at c ^ (r & 7),
//   +-----------+     +------+------+      so that the 8 rows of an ldmatrix tile meet 8 different banks
//   |           |     | warp | warp |
//   +-----------+     +------+------+
#include "device.cuh"
#include "scalar_math.cuh"

namespace {

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 4, THREADS = 256;
constexpr int WARPS_N = 4, WM = BM / 2, WN = BN / WARPS_N, MT = WM / 16, NT = WN / 8;
constexpr int ROW = BK * 2, CHUNKS = ROW / 16;  // bytes and 16-byte chunks of a row in shared memory
constexpr long long K = 64, K_PADDED = 64;  // elements of a row of x, of the packed weights
constexpr int STEPS = (int)((K_PADDED + BK - 1) / BK);

struct Arg {  // qcg_arg
  void* data;
  long long stride;
};
struct Args {
  Arg at[3];
  long long m;
};

QCG_DEVICE unsigned char* chunk_at(unsigned char* tile, int row, int chunk) {
  return tile + row * ROW + (chunk ^ (row & 7)) * 16;
}

// Rows [m0, m0 + BM) and columns [k0, k0 + BK) of x; what is not in the tensor becomes 0 and is not read.
QCG_DEVICE void load_x(unsigned char* tile, const Arg& x, long long m0, long long m, long long k0, bool aligned) {
  for (int c = threadIdx.x; c < BM * CHUNKS; c += THREADS) {
    const int row = c / CHUNKS, chunk = c % CHUNKS;
    const long long k = k0 + chunk * 8, left = m0 + row < m && k < K ? K - k : 0;
    const int n = left < 8 ? (int)left : 8;
    const unsigned short* from = (const unsigned short*)x.data + (n > 0 ? (m0 + row) * x.stride + k : 0);
    unsigned char* to = chunk_at(tile, row, chunk);
    if (aligned) {
      cp_async_16(to, from, n * 2);
    } else {
      for (int i = 0; i < 8; ++i) ((unsigned short*)to)[i] = i < n ? from[i] : (unsigned short)0;
    }
  }
}

// Rows [n0, n0 + BN) of a packed segment: K is padded with zeros to whole chunks.
QCG_DEVICE void load_w(unsigned char* tile, const unsigned char* w, long long n0, long long n, long long k0) {
  for (int c = threadIdx.x; c < BN * CHUNKS; c += THREADS) {
    const int row = c / CHUNKS, chunk = c % CHUNKS;
    const long long k = k0 + chunk * 8;
    const bool inside = n0 + row < n && k < K_PADDED;
    cp_async_16(chunk_at(tile, row, chunk), w + (inside ? ((n0 + row) * K_PADDED + k) * 2 : 0), inside ? 16 : 0);
  }
}

// acc[16 mt.., 8 nt..] += the warp's rows of x times its rows of w, one stage.
QCG_DEVICE void multiply_stage(float (&acc)[MT][NT][4], unsigned char* x, unsigned char* w, int lane) {
#pragma unroll
  for (int kk = 0; kk < BK / 16; ++kk) {
    unsigned a[MT][4];
#pragma unroll
    for (int i = 0; i < MT; ++i) ldmatrix_x4(a[i], chunk_at(x, i * 16 + lane % 16, kk * 2 + lane / 16));
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
      unsigned b[4];  // two tiles of 8 columns, each two halves of k
      ldmatrix_x4(b, chunk_at(w, j * 8 + lane / 16 * 8 + lane % 8, kk * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < MT; ++i) {
        mma_bf16(acc[i][j], a[i], b[0], b[1]);
        mma_bf16(acc[i][j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

// Output 0: acc0
QCG_DEVICE void run_output_0(const Args& args, unsigned char* shared, long long m0, long long n0) {
  constexpr int SEGMENTS = 1, STAGE = (BM + SEGMENTS * BN) * ROW;
  constexpr long long N = 64;
  const unsigned char* const packed = (const unsigned char*)args.at[1].data;
  const unsigned char* const w[SEGMENTS] = {packed + 0};
  const Arg x = args.at[0];
  const bool aligned = ((unsigned long long)x.data & 15) == 0 && x.stride % 8 == 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row0 = warp / WARPS_N * WM, column0 = warp % WARPS_N * WN;
  float acc[SEGMENTS][MT][NT][4] = {};

  auto load = [&](int step) {
    if (step < STEPS) {
      unsigned char* const stage = shared + step % STAGES * STAGE;
      load_x(stage, x, m0, args.m, (long long)step * BK, aligned);
      for (int s = 0; s < SEGMENTS; ++s) load_w(stage + (BM + s * BN) * ROW, w[s], n0, N, (long long)step * BK);
    }
    cp_async_commit();  // an empty group too, so that the count of pending groups tells the stage
  };
  for (int step = 0; step < STAGES - 1; ++step) load(step);
  for (int step = 0; step < STEPS; ++step) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // the stage is here for all threads, and all are done with the one loaded next
    load(step + STAGES - 1);
    unsigned char* const stage = shared + step % STAGES * STAGE;
#pragma unroll
    for (int s = 0; s < SEGMENTS; ++s)
      multiply_stage(acc[s], stage + row0 * ROW, stage + (BM + s * BN + column0) * ROW, lane);
  }

#pragma unroll
  for (int i = 0; i < MT; ++i)
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const long long row = m0 + row0 + i * 16 + lane / 4 + e / 2 * 8, column = n0 + column0 + j * 8 + lane % 4 * 2 + e % 2;
        if (row >= args.m || column >= N) continue;
        const float acc0 = acc[0][i][j][e];
        s_store_f32(args.at[2].data, row * args.at[2].stride + column, acc0);
      }
}

}  // namespace

// Grid: x = row tiles, y = column tiles of all outputs in turn.
extern "C" __global__ void __launch_bounds__(THREADS) golden(const Args args) {
  extern __shared__ __align__(128) unsigned char shared[];
  const long long m0 = (long long)blockIdx.x * BM, tile = blockIdx.y;
  return run_output_0(args, shared, m0, (tile - 0) * BN);
}
