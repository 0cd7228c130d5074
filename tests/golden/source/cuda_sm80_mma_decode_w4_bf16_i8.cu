// qgemm_bf16_w4_g32_f32_n64_k64_8x64x128w4_sm80_mma_decode
//
// gemm w4 x=bf16 w=i8 k=64 group=32 k_segments=64 segment(64) output(f32 64 = acc0) m=0..
//
// source nodes, in program order:
//   %y = aten.linear.default(%x, @proj.weight)  model.py:41
//
// lowered to:
//   %y = qcg.linear([%x], weights = [@proj.weight])
//
// y = epilogue(x [M, K] . w [N, K]^T) for few rows. Weights are the 16-row operand of the product, y^T = w . x^T, and go from
// global memory to registers. A block computes 8 rows of x 64 columns; its 4 warps take turns along K, and their sums
// meet in shared memory:
//
//          x^T  8 rows each     warp 0   k 0 …   warp 1   k 128 …   …   warp 0   k 512 …
//        +-----+
//    w   | sum |                 +=  w [16 n][16 k]  x^T [16 k][8 m]
//        +-----+
#include "device.cuh"
#include "scalar_math.cuh"
#include "weights.cuh"

namespace {

using H = BF16;
using Element = H::Element;                                 // of x
constexpr int MMA_K = 16, STAGE_K = 4 * MMA_K;     // of a product, of 128 bytes of a row of x
constexpr int PARTS = 1;             // floats whose sum a weight is
constexpr int WORDS = 1;             // of weights that a lane has in a product
constexpr int K = 64, K_PADDED = 128;       // of x, of packed weights
constexpr int GROUP = 32, GROUP_PADDED = 32, GROUPS = 4;  // 0, 0, 1: not grouped
constexpr long long TILE_BYTES = 1024;          // of 16 columns
constexpr bool GROUPED = true;
using Total = float;  // the sum over all of K
using Scales = float2;  // of two columns

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
  QCG_DEVICE constexpr long long scales(int s) { return 8192LL; }
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

// sum += scale of a group times its exact part.
QCG_DEVICE void add_group(float (&sum)[4], const H::Sum (&part)[4], float2 scale, const float (&)[4]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float exact = part[e];
    sum[e] = __fmaf_rn(sum_half(e) ? scale.y : scale.x, (float)exact, sum[e]);
  }
}
constexpr int BM = 8, BN = 64, WARPS = 4, THREADS = WARPS * LANES;
constexpr int MT = BM / X_TILE, NT = BN / 16;                     // tiles of rows of x, of columns (of every segment)
constexpr int DEPTH = 128, STEPS = K_PADDED / DEPTH;  // k of a turn
constexpr int TILES = DEPTH / MMA_K, PIECES = TILES * WORDS / 4;  // products, 16 bytes of a lane
constexpr int SPAN = 32, SPANS = DEPTH / SPAN;       // k that share scales

// What a warp multiplies in a turn.
template <class O>
struct Turn {
  uint4 w[O::SEGMENTS][NT][PIECES];
  unsigned x[MT][TILES][2];
  Scales scale[O::SEGMENTS][NT][SPANS], offset[O::SEGMENTS][NT][SPANS];
  Zeros zero[O::SEGMENTS][NT][SPANS];
};

template <class O, bool PLAIN>
QCG_DEVICE void load(Turn<O>& t, const Args& args, long long m0, int n0, int step, int lane) {
  const unsigned char* const packed = (const unsigned char*)args.at[1].data;
#pragma unroll
  for (int s = 0; s < O::SEGMENTS; ++s)
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      const int tile = n0 / 16 + j;
      const uint4* const w = (const uint4*)(packed + O::weights(s) + tile * TILE_BYTES) + step * (TILES * WORDS * 8) + packed_lane(lane);
#pragma unroll
      for (int p = 0; p < PIECES; ++p) t.w[s][j][p] = load_once(w + p * 32);
#pragma unroll
      for (int g = 0; g < SPANS; ++g) {
        const int group = GROUPED ? (step * DEPTH + g * SPAN) / (GROUPED ? GROUP_PADDED : 1) : 0;
        const long long pair = ((long long)tile * GROUPS + group) * 8 + pair_of_lane(lane);
        (void)pair;
        t.scale[s][j][g] = ((const Scales*)(packed + O::scales(s)))[pair];
        if (O::offsets(s) >= 0) t.offset[s][j][g] = ((const Scales*)(packed + O::offsets(s)))[pair];
        if (O::zeros(s) >= 0) t.zero[s][j][g] = ((const Zeros*)(packed + O::zeros(s)))[pair];
      }
    }
#pragma unroll
  for (int i = 0; i < MT; ++i) {
    const long long own = m0 + i * X_TILE + lane_row(lane), row = own < args.m ? own : args.m - 1;
#pragma unroll
    for (int b = 0; b < DEPTH; b += STAGE_K) {
      const int k0 = step * DEPTH + b;
      const Element* const from = PLAIN ? plain_x(args, row, k0) : 0;
#pragma unroll
      for (int k = 0; k < STAGE_K; k += MMA_K / 2) {  // a lane has a word of four
        const int at = k + lane_k(lane) * (MMA_K / 8);
        unsigned word = 0;
        if (!PLAIN) word = x_word(args, row, k0 + at);
        else if (K % DEPTH == 0 || k0 + k < K) word = *(const unsigned*)(from + at);
        t.x[i][(b + k) / MMA_K][k / (MMA_K / 2) % 2] = word;
      }
    }
  }
}

// x_sum: of x over a span, or over K where there are no groups; every row of the product is the same.
template <class O>
QCG_DEVICE void multiply(Total (&sum)[O::SEGMENTS][NT][MT][4], H::Sum (&x_sum)[MT][4], const int (&x_zero)[MT][SUM_ROWS], const Turn<O>& t) {
  (void)x_zero;
#pragma unroll
  for (int g = 0; g < SPANS; ++g) {
#pragma unroll
    for (int i = 0; i < MT * 4; ++i) x_sum[i / 4][i % 4] = 0;
    if (O::HAS_OFFSETS || (H::kIntegers && O::HAS_ZEROS)) {
      unsigned ones[W_REGISTERS];
#pragma unroll
      for (int r = 0; r < W_REGISTERS; ++r) ones[r] = H::kOne;
#pragma unroll
      for (int k = g * (SPAN / MMA_K); k < (g + 1) * (SPAN / MMA_K); ++k)
#pragma unroll
        for (int i = 0; i < MT; ++i) H::mma(x_sum[i], ones, t.x[i][k][0], t.x[i][k][1]);
    }
#pragma unroll
    for (int s = 0; s < O::SEGMENTS; ++s)
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        H::Sum part[MT][4] = {};
#pragma unroll
        for (int k = g * (SPAN / MMA_K); k < (g + 1) * (SPAN / MMA_K); ++k) {
          unsigned a[PARTS][W_REGISTERS];
          unpack_i4<H>(a[0], (const unsigned*)t.w[s][j] + k * WORDS);
          if (O::zeros(s) >= 0) subtract_zeros<H>(a[0], t.zero[s][j][g]);
#pragma unroll
          for (int q = 0; q < PARTS; ++q)
#pragma unroll
            for (int i = 0; i < MT; ++i) H::mma(part[i], a[q], t.x[i][k][0], t.x[i][k][1]);
        }
        const float2 scale = pair_of(t.scale[s][j][g]);
#pragma unroll
        for (int i = 0; i < MT; ++i)
          add_group(sum[s][j][i], part[i], scale, x_sum[i]);
        if (O::offsets(s) >= 0) {
          const float2 offset = pair_of(t.offset[s][j][g]);
#pragma unroll
          for (int i = 0; i < MT; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              sum[s][j][i][e] = __fmaf_rn(sum_half(e) ? offset.y : offset.x, x_sum[i][e], sum[s][j][i][e]);
        }
      }
  }
}

template <class O, bool PLAIN>
QCG_DEVICE void run(const Args& args, unsigned char* shared, long long m0, int n0) {
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  Total sum[O::SEGMENTS][NT][MT][4] = {};
  H::Sum x_sum[MT][4] = {};
  int x_zero[MT][SUM_ROWS] = {};
  Turn<O> now, next;
  if (warp < STEPS) load<O, PLAIN>(now, args, m0, n0, warp, lane);
  for (int step = warp; step < STEPS; step += WARPS) {
    if (step + WARPS < STEPS) load<O, PLAIN>(next, args, m0, n0, step + WARPS, lane);
    multiply<O>(sum, x_sum, x_zero, now);
    now = next;
  }

  // Sums of all warps, [warp][segment, tile, register][lane].
  constexpr int SUMS = O::SEGMENTS * NT * MT * 4;
  Total* const parts = (Total*)shared;
#pragma unroll
  for (int i = 0; i < SUMS; ++i) parts[(warp * SUMS + i) * LANES + lane] = ((const Total*)sum)[i];
  __syncthreads();
  for (int at = threadIdx.x; at < NT * MT * 4 * LANES; at += THREADS) {
    Total total[O::SEGMENTS][1] = {};
#pragma unroll
    for (int s = 0; s < O::SEGMENTS; ++s)
#pragma unroll
      for (int w = 0; w < WARPS; ++w) total[s][0] += parts[(w * SUMS + s * NT * MT * 4) * LANES + at];
    const int of = at % LANES, e = at / LANES % 4, i = at / (4 * LANES) % MT, j = at / (4 * LANES * MT);
    O::finish_one(args, m0 + i * X_TILE + sum_row(of, e), n0 + j * 16 + sum_column(of, e), total);
  }
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
