// qgemm_bf16_w8_f32_n32_k64_1x32x4_avx512_sliced
//
// gemm w8 x=bf16 w=i8 k=64 k_segments=64 segment(32) output(f32 32 = acc0) m=0..
// candidate: avx512_sliced 1x32 prefetch=2048
// weights: w8 packed as [K/4][nr/16][4][16] s8, panels of 32 columns
//
//            32 columns = 2 vectors
//          +--------+--------+
//   1 rows |  acc   |  acc   |  += vnni weight units x broadcast activation units of 4 k, 3 slices of each
//          +--------+--------+
//
// source nodes, in program order:
//   %y = aten.linear.default(%x, @proj.weight)  model.py:41
//
// lowered to:
//   %y = qcg.linear([%x], weights = [@proj.weight])
#include "abi.h"
#include "gemm_avx512.h"
#include "quant/scale.h"
#include "quant/slices.h"

namespace {

constexpr int MR = 1, NR = 32;
constexpr int64_t UNITS = 48;  // of packed activations per row; 4 k each
constexpr int64_t TILE = MR * NR;
constexpr int64_t GROUPS = 1, WORDS = 5;  // per group and row: units of slices, and what its zero points and offsets add to sums

inline int64_t tiles_of(const qcg_call* call) { return (call->params[0] + MR - 1) / MR; }
inline int64_t group_length(int64_t g) { return g + 1 < GROUPS ? 64 : 64; }
inline qcg_unit* sums_of(const qcg_call* call, int64_t tile) {
  return (qcg_unit*)call->shared + tiles_of(call) * ((UNITS + 1) * MR) + tile * (GROUPS * WORDS * MR);
}

constexpr int SLICES = 3, RESTS = 16;  // of a row: more are not listed but sliced again

// Slices of rests, in tiles of which a row has too many: units and sums once more. Then whether a tile has them, and the rests
// of each row: how many, then k and value of each.
inline int64_t deep_at(const qcg_call* call) { return tiles_of(call) * (MR * (UNITS + 1 + GROUPS * WORDS)); }
inline qcg_unit& is_deep(const qcg_call* call, int64_t tile) { return ((qcg_unit*)call->shared)[2 * deep_at(call) + tile * MR]; }
inline qcg_unit* rests_of(const qcg_call* call, int64_t row) {
  return (qcg_unit*)call->shared + 2 * deep_at(call) + tiles_of(call) * MR + row * (1 + 2 * RESTS);
}

// One row as slices, and the words of its groups, `rows` apart. Returns how many rests there are, listed or not.
__attribute__((noinline)) int slice_row(qcg_unit* slices, qcg_unit* x_sums, const float* row, int rows, qcg_unit* rests) {
  // Units first: each waits for the largest of its group, so they are better found side by side.
  for (int64_t g = 0; g < GROUPS; ++g) {
    const qcg_unit unit = slice_unit(row + g * 64, group_length(g));
    qcg_unit* const words = x_sums + g * (WORDS * rows);
    words[3 * rows] = unit, words[4 * rows] = unit_of(unit_float(unit) * 65536);
  }
  Slicer slicer{(int8_t*)slices, 64, rests, RESTS};
  for (int64_t g = 0; g < GROUPS; ++g) {
    const int64_t k0 = g * 64;
    qcg_unit* const words = x_sums + g * (WORDS * rows);
    int32_t sums[SLICES];
    slicer.add_group(row + k0, k0, group_length(g), words[3 * rows], sums);
    for (int s = 0; s < SLICES; ++s) words[s * rows] = (qcg_unit)(-128 * sums[s]);
  }
  return slicer.count;
}
// The row that slices leave.
void leave_rests(float* row, const qcg_unit* x_sums, int rows) {
  for (int64_t g = 0; g < GROUPS; ++g)
    subtract_slices(row + g * 64, group_length(g), x_sums[(g * WORDS + 3) * rows]);
}
void forget_row(qcg_unit* slices, qcg_unit* x_sums, int rows) {
  __builtin_memset(slices, 0, UNITS * 4);
  for (int64_t g = 0; g < GROUPS; ++g)
    for (int s = 0; s < SLICES; ++s) x_sums[(g * WORDS + s) * rows] = 0;
}

// Slices of rows as they were filled become [unit][row][slice]: one stream of stores, many of loads.
template <int ROWS>
void interleave(qcg_unit* dst, const qcg_unit* from) {
  constexpr int STREAMS = ROWS * SLICES;
  constexpr int64_t STREAM = UNITS / SLICES;
  for (int64_t u = 0; u < STREAM; ++u, dst += STREAMS)
#pragma GCC unroll 16
    for (int r = 0; r < STREAMS; ++r) dst[r] = from[r * STREAM + u];
}

// Phase 0: activations of one row tile.
void pack_tile(const qcg_call* call, int64_t tile, void* scratch) {
  const int64_t m = call->params[0];
  qcg_unit* const dst = (qcg_unit*)call->shared + tile * (UNITS * MR);
  qcg_unit* const x_sums = sums_of(call, tile);
  qcg_unit* const filled = (qcg_unit*)scratch;
  qcg_unit* const deep = filled + MR * UNITS;
  float* const row = (float*)(deep + MR * UNITS);
  bool has_deep = false;
  for (int r = 0; r < MR; ++r) {
    const int64_t i = tile * MR + r;
    if (i >= m) {
      __builtin_memset(filled + r * UNITS, 0, UNITS * 4);
      *rests_of(call, i) = 0;
      for (int64_t g = 0; g < GROUPS * WORDS; ++g) x_sums[g * MR + r] = 0;
      continue;
    }
    {
      const qcg_bf16* x = (const qcg_bf16*)call->args[0].data + i * call->args[0].stride;
      pack_f32_bf16(row + 0, x, 64);
    }
    qcg_unit* const rests = rests_of(call, i);
    int count = slice_row(filled + r * UNITS, x_sums + r, row, MR, rests + 1);
    *rests = (qcg_unit)count;
    if (count <= RESTS) continue;
    if (!has_deep) {
      __builtin_memset(deep, 0, MR * UNITS * 4);
      __builtin_memset(x_sums + deep_at(call), 0, GROUPS * WORDS * MR * 4);
      has_deep = true;
    }
    leave_rests(row, x_sums + r, MR);
    count = slice_row(deep + r * UNITS, x_sums + deep_at(call) + r, row, MR, rests + 1);
    *rests = (qcg_unit)count;
    if (count <= RESTS) continue;
    // Too many rests of rests: add_rests multiplies the row as it is.
    forget_row(filled + r * UNITS, x_sums + r, MR);
    forget_row(deep + r * UNITS, x_sums + deep_at(call) + r, MR);
  }
  is_deep(call, tile) = has_deep;
  interleave<MR>(dst, filled);
  if (has_deep) interleave<MR>(dst + deep_at(call), deep);
}

// One register tile: c[MR][NR] (+)= weights of one block of K x packed activations.
// Groups [g0, g1): the integers of a group are summed exactly, then scaled into c.
__attribute__((noinline)) void multiply_tile(const uint8_t* w, const qcg_unit* x, uint8_t* c, int64_t g0, int64_t g1, bool first, const qcg_unit* x_sums, const uint8_t* next, int64_t next_step) {
  (void)next, (void)next_step;
  x_sums += g0 * (WORDS * MR);
  vf c0_0 = first ? v_zero() : fma_load(c + 0);
  vf c0_1 = first ? v_zero() : fma_load(c + 64);
  for (int64_t g = g0; g < g1; ++g) {
    const uint8_t* const header = w;
    w += 0;
    vi a0_0 = vi_set1((int32_t)x_sums[0 * MR + 0]);
    vi a0_1 = vi_set1((int32_t)x_sums[0 * MR + 0]);
    vi a1_0 = vi_set1((int32_t)x_sums[1 * MR + 0]);
    vi a1_1 = vi_set1((int32_t)x_sums[1 * MR + 0]);
    vi a2_0 = vi_set1((int32_t)x_sums[2 * MR + 0]);
    vi a2_1 = vi_set1((int32_t)x_sums[2 * MR + 0]);

    for (int64_t i = 0; i < 8; ++i) {
      {
        __builtin_prefetch(w + 2048, 0, 3);
        __builtin_prefetch(w + 2112, 0, 3);
        const auto w0 = vnni_weight_i8x4r<0>(w + 0);
        const auto w1 = vnni_weight_i8x4r<0>(w + 64);
        const auto x0 = vnni_broadcast(x + 0);
        a0_0 = vnni_dot(a0_0, w0, x0);
        a0_1 = vnni_dot(a0_1, w1, x0);
        const auto x1 = vnni_broadcast(x + 1);
        a1_0 = vnni_dot(a1_0, w0, x1);
        a1_1 = vnni_dot(a1_1, w1, x1);
        const auto x2 = vnni_broadcast(x + 2);
        a2_0 = vnni_dot(a2_0, w0, x2);
        a2_1 = vnni_dot(a2_1, w1, x2);
      }
      {
        __builtin_prefetch(w + 2176, 0, 3);
        __builtin_prefetch(w + 2240, 0, 3);
        const auto w0 = vnni_weight_i8x4r<0>(w + 128);
        const auto w1 = vnni_weight_i8x4r<0>(w + 192);
        const auto x0 = vnni_broadcast(x + 3);
        a0_0 = vnni_dot(a0_0, w0, x0);
        a0_1 = vnni_dot(a0_1, w1, x0);
        const auto x1 = vnni_broadcast(x + 4);
        a1_0 = vnni_dot(a1_0, w0, x1);
        a1_1 = vnni_dot(a1_1, w1, x1);
        const auto x2 = vnni_broadcast(x + 5);
        a2_0 = vnni_dot(a2_0, w0, x2);
        a2_1 = vnni_dot(a2_1, w1, x2);
      }
      w += 256;
      x += 6 * MR;
    }
    keep(a0_0);
    keep(a0_1);
    keep(a1_0);
    keep(a1_1);
    keep(a2_0);
    keep(a2_1);

    c0_0 = v_add(c0_0, join_slices(a0_0, a1_0, a2_0, x_sums[3 * MR + 0], x_sums[4 * MR + 0]));
    c0_1 = v_add(c0_1, join_slices(a0_1, a1_1, a2_1, x_sums[3 * MR + 0], x_sums[4 * MR + 0]));
    x_sums += WORDS * MR;
  }
  fma_store(c + 0, c0_0);
  fma_store(c + 64, c0_1);
}

// c[MR][NR] of the rows of a tile += what slices leave of them x weights. Almost always there is nothing.
inline vf weight_at(const uint8_t* p, int64_t k) {
  switch (k) {
    case 0: return fma_weight_i8x4r<0>(p);
    case 1: return fma_weight_i8x4r<1>(p);
    case 2: return fma_weight_i8x4r<2>(p);
    default: return fma_weight_i8x4r<3>(p);
  }
}
__attribute__((noinline)) void add_rest(const uint8_t* w, uint8_t* c, int64_t k, vf x) {
  const uint8_t* const header = w + k / 64 * 2048;
  const uint8_t* const p = header + 0 + k % 64 / 4 * 128;
  const vf w0 = weight_at(p + 0, k % 4);
  fma_store(c + 0 * VL * 4, v_fma(x, w0, fma_load(c + 0 * VL * 4)));
  const vf w1 = weight_at(p + 64, k % 4);
  fma_store(c + 1 * VL * 4, v_fma(x, w1, fma_load(c + 1 * VL * 4)));
}
__attribute__((noinline)) void add_rests(const qcg_call* call, int64_t tile, const uint8_t* w, uint8_t* c) {
  for (int64_t r = 0, i = tile * MR; r < MR && i < call->params[0]; ++r, ++i, c += NR * 4) {
    const qcg_unit* const rests = rests_of(call, i);
    const int count = (int)*rests;
    if (count <= RESTS) {
      for (int j = 0; j < count; ++j) add_rest(w, c, rests[1 + 2 * j], v_set1(unit_float(rests[2 + 2 * j])));
      continue;
    }
    for (int64_t k = 0; k < 64; ++k) {
      const qcg_bf16* const x = (const qcg_bf16*)call->args[0].data + i * call->args[0].stride + k;
      add_rest(w, c, 0 + k, splat(v_load_bf16_n(x, 1)));
    }
  }
}

// Output 0: acc0
void finish_0(const qcg_call* call, const uint8_t* panel, const uint8_t* c, int64_t tiles, int64_t row0, int64_t col0) {
  const int64_t m = call->params[0];
  const int64_t rows = row0 + tiles * MR < m ? tiles * MR : m - row0;
  const qcg_arg y = call->args[2];
  (void)panel;
  for (int64_t r = 0; r < rows; ++r) {
    for (int v = 0; v < 2; ++v) {
      const int64_t column = col0 + v * VL;
      if (column >= 32) break;
      const int n = 32 - column < VL ? (int)(32 - column) : VL;
      const int64_t at = v * VL;
      // segment 0
      vf acc0 = fma_load(c + (0 * tiles * TILE + r * NR + at) * 4);
      acc0 = scale_channel(acc0, (const float*)(panel + 2048) + at);
      float* const out = (float*)y.data + (row0 + r) * y.stride + column;
      const vf result = acc0;
      if (n == VL) v_store_f32(out, result);
      else v_store_f32_n(out, result, n);
    }
  }
}

// Row tiles [t0, t0 + tiles) x panels [p0, p1) of output 0: weights are streamed once.
void run_output_0(const qcg_call* call, int64_t t0, int64_t tiles, int64_t p0, int64_t p1, uint8_t* c) {
  constexpr int64_t SEGMENTS = 1, SEGMENT = 2688, PANEL = SEGMENTS * SEGMENT;
  const uint8_t* const weights = (const uint8_t*)call->args[1].data + 0;
  const qcg_unit* const x = (const qcg_unit*)call->shared + t0 * (UNITS * MR);
    for (int64_t p = p0; p < p1; ++p) {
      uint8_t* const panel_c = c;
      for (int64_t j = 0; j < SEGMENTS; ++j) {
        const uint8_t* const w = weights + p * PANEL + j * SEGMENT;
        const uint8_t* const next = w + SEGMENT;
        constexpr int64_t count = 1;
        // Each row tile fetches its share of the next block of weights.
        const int64_t fetches = count * 16;
        const int64_t next_step = (2048 * count + tiles * fetches - 1) / (tiles * fetches);
        for (int64_t t = 0; t < tiles; ++t) {
          multiply_tile(w, x + t * (UNITS * MR), panel_c + (j * tiles + t) * TILE * 4, 0, count, true, sums_of(call, t0 + t), next + t * fetches * next_step, next_step);
          if (is_deep(call, t0 + t)) multiply_tile(w, x + t * (UNITS * MR) + deep_at(call), panel_c + (j * tiles + t) * TILE * 4, 0, count, false, sums_of(call, t0 + t) + deep_at(call), next + t * fetches * next_step, next_step);
          add_rests(call, t0 + t, weights + p * PANEL + j * SEGMENT, panel_c + (j * tiles + t) * TILE * 4);
        }
      }
      finish_0(call, weights + p * PANEL, panel_c, tiles, t0 * MR, p * NR);
    }
}

// Items of phase 1: row blocks of all tiles x chunks of 1 panels.
constexpr int64_t CHUNKS = 1;
inline int64_t tiles_per_block(const qcg_call* call) {
  const int64_t tiles = tiles_of(call);
  return tiles;
}
int64_t items(const qcg_call* call, uint32_t phase) {
  if (call->params[0] <= 0) return 0;
  const int64_t tiles = tiles_of(call), block = tiles_per_block(call);
  return phase == 0 ? tiles : (tiles + block - 1) / block * CHUNKS;
}
int64_t shared_bytes(const qcg_call* call) {
  return call->params[0] <= 0 ? 0 : tiles_of(call) * MR * (2 * (UNITS + 1 + GROUPS * WORDS) + 2 + 2 * RESTS) * 4;
}
int64_t scratch_bytes(const qcg_call* call) {
  if (call->params[0] <= 0) return 0;
  const int64_t product = tiles_per_block(call) * TILE * 4 * 1;
  return product > 2 * MR * UNITS * 4 + 256 ? product : 2 * MR * UNITS * 4 + 256;
}
void run(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch) {
  if (phase == 0) {
    for (int64_t tile = begin; tile < end; ++tile) pack_tile(call, tile, scratch);
    return;
  }
  const int64_t tiles = tiles_of(call), block = tiles_per_block(call);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t t0 = item / CHUNKS * block, chunk = item % CHUNKS;
    const int64_t count = tiles - t0 < block ? tiles - t0 : block;
    {
      const int64_t p0 = (chunk - 0) * 1;
      const int64_t p1 = p0 + 1 < 1 ? p0 + 1 : 1;
      run_output_0(call, t0, count, p0, p1, (uint8_t*)scratch);
    }
  }
}

}  // namespace

extern "C" {
extern const qcg_kernel golden __attribute__((visibility("default")));
const qcg_kernel golden = {QCG_KERNEL_ABI, 2, items, shared_bytes, scratch_bytes, run};
}
