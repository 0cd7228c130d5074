// qgemm_bf16_bf16_f32_n64_k64_128x128x64_sm90a_mma_tile
//
// gemm dense x=bf16 w=bf16 k=64 k_segments=64 segment(64) output(f32 64 = acc0) m=0..
//
// source nodes, in program order:
//   %y = aten.linear.default(%x, @proj.weight)  model.py:41
//
// lowered to:
//   %y = qcg.linear([%x], weights = [@proj.weight])
//
// y = epilogue(x [M, K] . w [N, K]^T) for many rows. A block computes 128 rows x 128 columns of one output (of every segment that
// the output reads), y^T = w . x^T; K passes through 4 stages of shared memory, 64 at a time:
//
//                      x^T [k][BM]            x   a row is 8 chunks of 16 bytes; chunk c of row r lies at c ^ (r & 7), so that the
//                     +------+------+             8 rows of an ldmatrix tile meet 8 different banks
//     w [BN][k]       | warp | warp |         w   as packed: rows as x
//   +-----------+     +------+------+
//   |           |     | warp | warp |
//   +-----------+     +------+------+
#include "device.cuh"
#include "scalar_math.cuh"
#include "weights.cuh"

namespace {

using H = BF16;
using Element = H::Element;                                 // of x
constexpr int MMA_K = 16, STAGE_K = 4 * MMA_K;     // of a product, of 128 bytes of a row of x
constexpr int PARTS = 1;             // floats whose sum a weight is
constexpr int WORDS = 4;             // of weights that a lane has in a product
constexpr int K = 64, K_PADDED = 64;       // of x, of packed weights
constexpr int GROUP = 0, GROUP_PADDED = 0, GROUPS = 1;  // 0, 0, 1: not grouped
constexpr long long TILE_BYTES = 2048;          // of 16 columns
constexpr bool GROUPED = false;
using Total = float;  // the sum over all of K

using Zeros = unsigned;

struct Arg {  // qcg_arg
  void* data;
  long long stride;
};
struct Args {
  Arg at[3];
  long long m;
};

// One element of x; k counts as packed weights do. What pads K or a group is 0.
QCG_DEVICE unsigned x_element(const Args& args, long long row, int k) {
  if (k >= K) return 0;
  return ((const Element*)args.at[0].data)[row * args.at[0].stride + k - 0];
}

// Elements k, k + 1, … of x, 4 bytes of them.
QCG_DEVICE unsigned x_word(const Args& args, long long row, int k) {
  unsigned word = 0;
#pragma unroll
  for (int e = 0; e < 4 / (int)sizeof(Element); ++e) word |= x_element(args, row, k + e) << e * 8 * (int)sizeof(Element);
  return word;
}

// Whether rows of x are whole chunks of 16 bytes at multiples of 16, and every STAGE_K of them are of one tensor.
QCG_DEVICE bool is_plain(const Args& args) {
  unsigned long long bits = 0;
  bits |= (unsigned long long)args.at[0].data | (unsigned long long)args.at[0].stride * sizeof(Element);
  return (bits & 15) == 0;
}

// Elements k, k + 1, … of a row up to the next multiple of STAGE_K, where is_plain(); k is a multiple of it.
QCG_DEVICE const Element* plain_x(const Args& args, long long row, int k) {
  return (const Element*)args.at[0].data + row * args.at[0].stride + (k - 0);
}

// Output 0: acc0
struct Output0 {
  static constexpr int SEGMENTS = 1, N = 64;
  static constexpr bool HAS_OFFSETS = false, HAS_ZEROS = false;
  // Of every segment, from the start of the packed weights.
  QCG_DEVICE constexpr long long weights(int s) { return 0LL; }
  QCG_DEVICE constexpr long long scales(int s) { return 16384LL; }
  QCG_DEVICE constexpr long long offsets(int s) { return -1LL; }
  QCG_DEVICE constexpr long long zeros(int s) { return -1LL; }


  // What W results of a row need beside their sums.
  template <int W>
  struct Beside {
  };

  // Whether all of a tile's rows and columns are results, and what they are read and stored as lies where four at once may be.
  QCG_DEVICE bool is_whole_tile(const Args& args, long long m0, int n0, int rows, int columns) {
    unsigned long long bits = 0;
    bits |= ((unsigned long long)args.at[2].data | (unsigned long long)args.at[2].stride * 4) & 15;
    return bits == 0 && m0 + rows <= args.m && n0 + columns <= N;
  }

  // WHOLE: of a whole tile.
  template <bool WHOLE, int W>
  QCG_DEVICE void load_beside(Beside<W>& with, const Args& args, long long row, int column) {
    const int count = WHOLE || N - column >= W ? W : N - column;
    if (!WHOLE && (row >= args.m || count <= 0)) return;
    const unsigned char* const packed = (const unsigned char*)args.at[1].data;
    (void)packed, (void)with;
  }

  // W results of a row from their sums; those from column N on are dropped.
  template <bool WHOLE, int W>
  QCG_DEVICE void finish(const Args& args, long long row, int column, const Total (&sum)[SEGMENTS][W], const Beside<W>& with) {
    const int count = WHOLE || N - column >= W ? W : N - column;
    if (!WHOLE && (row >= args.m || count <= 0)) return;
    (void)with;
    float y[W];
#pragma unroll
    for (int e = 0; e < W; ++e) {
      const Total total0 = sum[0][e];
      const float acc0 = (float)total0;
      y[e] = acc0;
    }
    store_f32<W, WHOLE>(args.at[2].data, row * args.at[2].stride + column, y, count);
  }
  QCG_DEVICE void finish_one(const Args& args, long long row, int column, const Total (&sum)[SEGMENTS][1]) {
    Beside<1> with;
    load_beside<false>(with, args, row, column);
    finish<false>(args, row, column, sum, with);
  }
};

constexpr int BM = 128, BN = 128, STAGES = 4;
constexpr int WARPS_M = 2, WARPS_N = 4, THREADS = WARPS_M * WARPS_N * LANES;
constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N, MT = WM / X_TILE, NT = WN / 16;  // of a warp: rows, columns, tiles of them
constexpr int STEPS = K_PADDED / STAGE_K;
constexpr int PIECES = WORDS, BLOCK = PIECES * 512;  // 16 bytes of every lane; bytes of 16 columns of a stage
constexpr int SPAN = 64, SPANS = STAGE_K / SPAN;     // k that share scales
constexpr int STAGE_ALIGN = 16;  // bytes
constexpr int X_BYTES = BM * 128, X_ROWS = THREADS / 8, W_TILES = THREADS / (PIECES * 32);  // that all threads copy at once

// A thread copies chunk tid % 8 of some rows of x.
template <bool PLAIN>
struct CopyX {
  const unsigned char* from[BM / X_ROWS];
  unsigned to;
  int bytes[BM / X_ROWS];  // 16, or 0 of a row that x has not

  QCG_DEVICE void start(CopyX& c, const Args& args, long long m0) {
    const int row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    c.to = row * 128 + (chunk ^ (row & 7)) * 16;
#pragma unroll
    for (int i = 0; i < BM / X_ROWS; ++i) {
      const long long at = m0 + row + i * X_ROWS;
      c.bytes[i] = at < args.m ? 16 : 0;
      if (PLAIN) c.from[i] = (const unsigned char*)(plain_x(args, at < args.m ? at : 0, 0) + chunk * (MMA_K / 2));
    }
  }
  QCG_DEVICE void copy(CopyX& c, unsigned char* stage, const Args& args, long long m0, int step) {
    const int row = threadIdx.x / 8, k = step * STAGE_K + threadIdx.x % 8 * (MMA_K / 2);
#pragma unroll
    for (int i = 0; i < BM / X_ROWS; ++i) {
      unsigned char* const to = stage + c.to + i * X_ROWS * 128;
      if (PLAIN) {
        const int bytes = K_PADDED == K || k < K ? c.bytes[i] : 0;
        cp_async_16(to, c.from[i], bytes);  // of 0 bytes, the address does not matter
        c.from[i] += 128;
      } else {
#pragma unroll 1
        for (int e = 0; e < 4; ++e)
          ((unsigned*)to)[e] = c.bytes[i] ? x_word(args, m0 + row + i * X_ROWS, k + e * (MMA_K / 8)) : 0;
      }
    }
  }
};

// What 16 columns have of parameters in a stage: SPANS times 16 of each kind.
constexpr int SCALE_BYTES = 0;
constexpr int ZERO_BYTES = SPANS * 8 * (int)sizeof(Zeros);  // ungrouped ones of integers come at the end
constexpr int CORRECTION_BYTES = 0;

// Where a stage of an output has what.
template <class O>
struct Stage {
  static constexpr int W = X_BYTES, SCALES = W + O::SEGMENTS * (BN / 16) * BLOCK,
                       OFFSETS = SCALES + O::SEGMENTS * (BN / 16) * SCALE_BYTES,
                       ZEROS = OFFSETS + (O::HAS_OFFSETS ? O::SEGMENTS * (BN / 16) * SCALE_BYTES : 0),
                       CORRECTIONS = ZEROS + (O::HAS_ZEROS ? O::SEGMENTS * (BN / 16) * ZERO_BYTES : 0),
                       END = CORRECTIONS + O::SEGMENTS * (BN / 16) * CORRECTION_BYTES,
                       BYTES = (END + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
};

// BYTES of each of the block's tiles of 16 columns, 16 by one of COUNT threads; tiles are `pitch` apart in global memory.
template <int BYTES, int COUNT>
QCG_DEVICE void copy_tiles(unsigned char* to, const unsigned char* from, long long pitch) {
  constexpr int CHUNKS = BYTES / 16, ALL = BN / 16 * CHUNKS;
#pragma unroll 4
  for (int i = 0; i < (ALL + COUNT - 1) / COUNT; ++i) {
    const int at = i * COUNT + threadIdx.x;
    if (ALL % COUNT == 0 || at < ALL) cp_async_16(to + at * 16, from + at / CHUNKS * pitch + at % CHUNKS * 16, 16);
  }
}
// One kind of their parameters of a stage: those of 16 columns and the groups of the stage follow each other.
template <int BYTES, int COUNT>
QCG_DEVICE void copy_parameters(unsigned char* to, const unsigned char* from, int n0, int step) {
  constexpr int GROUP_BYTES = BYTES / SPANS;
  const int group = GROUPED ? step * STAGE_K / (GROUPED ? GROUP_PADDED : 1) : 0;
  copy_tiles<BYTES, COUNT>(to, from + (long long)(n0 / 16) * (GROUPS * GROUP_BYTES) + group * GROUP_BYTES, GROUPS * GROUP_BYTES);
}
// All kinds, of segment s.
template <class O, int COUNT>
QCG_DEVICE void copy_all_parameters(unsigned char* stage, const unsigned char* packed, int s, int n0, int step) {
  (void)stage, (void)packed, (void)s, (void)n0, (void)step;
  if (O::zeros(s) >= 0)
    copy_parameters<ZERO_BYTES, COUNT>(stage + Stage<O>::ZEROS + s * (BN / 16) * ZERO_BYTES, packed + O::zeros(s), n0, step);
}

template <class O>
QCG_DEVICE void copy_w(unsigned char* stage, const unsigned char* packed, int n0, int step) {
  const int tile = threadIdx.x / (PIECES * 32), at = threadIdx.x % (PIECES * 32) * 16;
#pragma unroll
  for (int s = 0; s < O::SEGMENTS; ++s) {
    const unsigned char* const from = packed + O::weights(s) + (n0 / 16 + tile) * TILE_BYTES + (step * BLOCK + at);
    unsigned char* const to = stage + Stage<O>::W + s * (BN / 16) * BLOCK + threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < BN / 16; i += W_TILES)
      if (BN / 16 - i >= W_TILES || i + tile < BN / 16) cp_async_16(to + i * BLOCK, from + i * TILE_BYTES, 16);
    copy_all_parameters<O, THREADS>(stage, packed, s, n0, step);
  }
}

// sum += the warp's columns of w times its rows of x, MMA_K of k.
template <class O>
QCG_DEVICE void multiply(H::Sum (&sum)[O::SEGMENTS][NT][MT][4], const unsigned char* stage, int k, uint4 (&w)[O::SEGMENTS][NT],
                         unsigned (&x)[MT][2], int tile0, int lane) {
#pragma unroll
  for (int s = 0; s < O::SEGMENTS; ++s)
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      unsigned a[PARTS][W_REGISTERS];
      load_w_rows(a[0], stage + Stage<O>::W + (s * (BN / 16) + tile0 + j) * BLOCK, k, lane);
      if (O::zeros(s) >= 0)
        subtract_zeros<H>(a[0], ((const unsigned*)(stage + Stage<O>::ZEROS))[((s * (BN / 16) + tile0 + j) * SPANS + k * MMA_K / SPAN) * 8 + pair_of_lane(lane)]);
#pragma unroll
      for (int q = 0; q < PARTS; ++q)
#pragma unroll
        for (int i = 0; i < MT; ++i) H::mma(sum[s][j][i], a[q], x[i][0], x[i][1]);
    }
}

// [segment][BM][BN + 4] sums, so that lanes of a warp meet different banks; then rows leave in pieces of 4 columns.
constexpr int PITCH = BN + 4;
template <class O>
QCG_DEVICE void put_sums(const Total (&sum)[O::SEGMENTS][NT][MT][4], unsigned char* shared, int row0, int column0, int lane) {
  Total* const all = (Total*)shared;
#pragma unroll
  for (int s = 0; s < O::SEGMENTS; ++s)
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int i = 0; i < MT; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          all[(s * BM + row0 + i * X_TILE + sum_row(lane, e)) * PITCH + column0 + j * 16 + sum_column(lane, e)] = sum[s][j][i][e];
}
// What some pieces need beside their sums is loaded before the first of them is stored: one latency, not one for each.
template <class O, int COUNT, bool WHOLE>
QCG_DEVICE void finish_pieces(const unsigned char* shared, const Args& args, long long m0, int n0, int thread) {
  const Total* const all = (const Total*)shared;
  constexpr int PIECES = BM * (BN / 4) / COUNT, AT_ONCE = !WHOLE ? 1 : PIECES % 8 == 0 && O::SEGMENTS == 1 ? 8 : PIECES % 4 == 0 ? 4 : PIECES % 2 == 0 ? 2 : 1;
  static_assert(BM * (BN / 4) % COUNT == 0, "every thread has as many pieces");
#pragma unroll 1
  for (int first = 0; first < PIECES; first += AT_ONCE) {
    typename O::template Beside<4> with[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = thread + (first + i) * COUNT;
      O::template load_beside<WHOLE>(with[i], args, m0 + at / (BN / 4), n0 + at % (BN / 4) * 4);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = thread + (first + i) * COUNT, row = at / (BN / 4), column = at % (BN / 4) * 4;
      Total total[O::SEGMENTS][4];
#pragma unroll
      for (int s = 0; s < O::SEGMENTS; ++s) {
        const float4 four = *(const float4*)(all + (s * BM + row) * PITCH + column);
        total[s][0] = four.x, total[s][1] = four.y, total[s][2] = four.z, total[s][3] = four.w;
      }
      O::template finish<WHOLE>(args, m0 + row, n0 + column, total, with[i]);
    }
  }
}
template <class O, int COUNT>
QCG_DEVICE void finish_rows(const unsigned char* shared, const Args& args, long long m0, int n0, int thread) {
  if (O::is_whole_tile(args, m0, n0, BM, BN)) finish_pieces<O, COUNT, true>(shared, args, m0, n0, thread);
  else finish_pieces<O, COUNT, false>(shared, args, m0, n0, thread);
}
template <class O, bool PLAIN>
QCG_DEVICE void run(const Args& args, unsigned char* shared, long long m0, int n0) {
  constexpr int STAGE = Stage<O>::BYTES;
  const unsigned char* const packed = (const unsigned char*)args.at[1].data;
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, row0 = warp / WARPS_N * WM, column0 = warp % WARPS_N * WN;
  Total sum[O::SEGMENTS][NT][MT][4] = {};
  H::Sum x_sum[MT][4] = {};
  CopyX<PLAIN> copy;
  CopyX<PLAIN>::start(copy, args, m0);
  auto load = [&](int step, unsigned char* stage) {
    if (step < STEPS) {
      CopyX<PLAIN>::copy(copy, stage, args, m0, step);
      copy_w<O>(stage, packed, n0, step);
    }
    cp_async_commit();  // an empty group too, so that the count of pending groups tells the stage
  };
#pragma unroll
  for (int step = 0; step < STAGES - 1; ++step) load(step, shared + step * STAGE);
  unsigned char *stage = shared, *ahead = shared + (STAGES - 1) * STAGE;
#pragma unroll 1
  for (int step = 0; step < STEPS; ++step) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // the stage is here for all threads, and all are done with the one loaded next
    load(step + STAGES - 1, ahead);
    ahead = stage;
    uint4 w[O::SEGMENTS][NT];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      unsigned x[MT][2];
      load_x_rows(x, stage, row0, k, lane);
      if (O::HAS_OFFSETS || (H::kIntegers && O::HAS_ZEROS)) {
        unsigned ones[W_REGISTERS];
#pragma unroll
        for (int r = 0; r < W_REGISTERS; ++r) ones[r] = H::kOne;
#pragma unroll
        for (int i = 0; i < MT; ++i) H::mma(x_sum[i], ones, x[i][0], x[i][1]);
      }
      multiply<O>(sum, stage, k, w, x, column0 / 16, lane);
    }
    stage = stage == shared + (STAGES - 1) * STAGE ? shared : stage + STAGE;
  }
  cp_async_wait<0>();
  __syncthreads();
  put_sums<O>(sum, shared, row0, column0, lane);
  __syncthreads();
  finish_rows<O, THREADS>(shared, args, m0, n0, threadIdx.x);
}

}  // namespace

// Grid: x = row tiles, y = column tiles of all outputs in turn.
extern "C" __global__ void __launch_bounds__(THREADS) golden(const Args args) {
  extern __shared__ __align__(128) unsigned char shared[];
  const long long m0 = (long long)blockIdx.x * BM;
  const int tile = blockIdx.y;
  if (is_plain(args)) {
    return run<Output0, true>(args, shared, m0, (tile - 0) * BN);
  }
  return run<Output0, false>(args, shared, m0, (tile - 0) * BN);
}
