// qgemm_f32_w8_f32_n16_k64_1x16x1_avx2_fma
//
// gemm w8 x=f32 w=i8 k=64 k_segments=64 segment(16) output(f32 16 = acc0) m=0..
// candidate: avx2_fma 1x16 prefetch=2048
// weights: w8 packed as [K][nr] s8, panels of 16 columns
//
//            16 columns = 2 vectors
//          +--------+--------+
//   1 rows |  acc   |  acc   |  += fma weight units x broadcast activation units of 1 k
//          +--------+--------+
//
// source nodes, in program order:
//   %y = aten.linear.default(%x, @proj.weight)  model.py:41
//
// lowered to:
//   %y = qcg.linear([%x], weights = [@proj.weight])
#include "abi.h"
#include "gemm_avx2.h"
#include "quant/scale.h"

namespace {

constexpr int MR = 1, NR = 16;
constexpr int64_t UNITS = 64;  // of packed activations per row; 1 k each
constexpr int64_t TILE = MR * NR;

inline int64_t tiles_of(const qcg_call* call) { return (call->params[0] + MR - 1) / MR; }

// Phase 0: activations of one row tile.
void pack_tile(const qcg_call* call, int64_t tile, void* scratch) {
  const int64_t m = call->params[0];
  qcg_unit* const dst = (qcg_unit*)call->shared + tile * (UNITS * MR);
  qcg_unit* const filled = dst;
  (void)scratch;
  for (int r = 0; r < MR; ++r) {
    const int64_t i = tile * MR + r;
    if (i >= m) {
      __builtin_memset(filled + r * UNITS, 0, UNITS * 4);
      continue;
    }
    float* const row = (float*)(filled + r * UNITS);
    {
      const float* x = (const float*)call->args[0].data + i * call->args[0].stride;
      pack_f32_f32(row + 0, x, 64);
    }
  }
}

// One register tile: c[MR][NR] (+)= weights of one block of K x packed activations.
__attribute__((noinline)) void multiply_tile(const uint8_t* w, const qcg_unit* x, uint8_t* c, int64_t steps, bool first, const uint8_t* next, int64_t next_step) {
  (void)next, (void)next_step;
  // Runs of K are added on their own: the error of a sum grows with the length of its chain.
  for (; steps > 0; steps -= 2, first = false) {
    const int64_t run = steps < 2 ? steps : 2;
    vf a0_0 = fma_zero();
    vf a0_1 = fma_zero();
    vf a0_0_1 = fma_zero();
    vf a0_1_1 = fma_zero();
    vf a0_0_2 = fma_zero();
    vf a0_1_2 = fma_zero();
    vf a0_0_3 = fma_zero();
    vf a0_1_3 = fma_zero();

    for (int64_t i = 0; i < run; ++i) {
      {
        __builtin_prefetch(w + 2048, 0, 3);
        const auto w0 = fma_weight_i8<0>(w + 0);
        const auto w1 = fma_weight_i8<0>(w + 8);
        const auto x0 = fma_broadcast(x + 0);
        a0_0 = fma_dot(a0_0, w0, x0);
        a0_1 = fma_dot(a0_1, w1, x0);
      }
      {
        const auto w0 = fma_weight_i8<0>(w + 16);
        const auto w1 = fma_weight_i8<0>(w + 24);
        const auto x0 = fma_broadcast(x + 1);
        a0_0_1 = fma_dot(a0_0_1, w0, x0);
        a0_1_1 = fma_dot(a0_1_1, w1, x0);
      }
      {
        const auto w0 = fma_weight_i8<0>(w + 32);
        const auto w1 = fma_weight_i8<0>(w + 40);
        const auto x0 = fma_broadcast(x + 2);
        a0_0_2 = fma_dot(a0_0_2, w0, x0);
        a0_1_2 = fma_dot(a0_1_2, w1, x0);
      }
      {
        const auto w0 = fma_weight_i8<0>(w + 48);
        const auto w1 = fma_weight_i8<0>(w + 56);
        const auto x0 = fma_broadcast(x + 3);
        a0_0_3 = fma_dot(a0_0_3, w0, x0);
        a0_1_3 = fma_dot(a0_1_3, w1, x0);
      }
      {
        __builtin_prefetch(w + 2112, 0, 3);
        const auto w0 = fma_weight_i8<0>(w + 64);
        const auto w1 = fma_weight_i8<0>(w + 72);
        const auto x0 = fma_broadcast(x + 4);
        a0_0 = fma_dot(a0_0, w0, x0);
        a0_1 = fma_dot(a0_1, w1, x0);
      }
      {
        const auto w0 = fma_weight_i8<0>(w + 80);
        const auto w1 = fma_weight_i8<0>(w + 88);
        const auto x0 = fma_broadcast(x + 5);
        a0_0_1 = fma_dot(a0_0_1, w0, x0);
        a0_1_1 = fma_dot(a0_1_1, w1, x0);
      }
      {
        const auto w0 = fma_weight_i8<0>(w + 96);
        const auto w1 = fma_weight_i8<0>(w + 104);
        const auto x0 = fma_broadcast(x + 6);
        a0_0_2 = fma_dot(a0_0_2, w0, x0);
        a0_1_2 = fma_dot(a0_1_2, w1, x0);
      }
      {
        const auto w0 = fma_weight_i8<0>(w + 112);
        const auto w1 = fma_weight_i8<0>(w + 120);
        const auto x0 = fma_broadcast(x + 7);
        a0_0_3 = fma_dot(a0_0_3, w0, x0);
        a0_1_3 = fma_dot(a0_1_3, w1, x0);
      }
      w += 128;
      x += 8 * MR;
    }
    keep(a0_0);
    keep(a0_1);
    keep(a0_0_1);
    keep(a0_1_1);
    keep(a0_0_2);
    keep(a0_1_2);
    keep(a0_0_3);
    keep(a0_1_3);
    a0_0 = fma_add(a0_0, a0_0_2);
    a0_1 = fma_add(a0_1, a0_1_2);
    a0_0_1 = fma_add(a0_0_1, a0_0_3);
    a0_1_1 = fma_add(a0_1_1, a0_1_3);
    a0_0 = fma_add(a0_0, a0_0_1);
    a0_1 = fma_add(a0_1, a0_1_1);

    if (!first) {
      a0_0 = fma_add(a0_0, fma_load(c + 0));
      a0_1 = fma_add(a0_1, fma_load(c + 32));
    }
    fma_store(c + 0, a0_0);
    fma_store(c + 32, a0_1);
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
      if (column >= 16) break;
      const int n = 16 - column < VL ? (int)(16 - column) : VL;
      const int64_t at = v * VL;
      // segment 0
      vf acc0 = fma_load(c + (0 * tiles * TILE + r * NR + at) * 4);
      acc0 = scale_channel(acc0, (const float*)(panel + 1024) + at);
      float* const out = (float*)y.data + (row0 + r) * y.stride + column;
      const vf result = acc0;
      if (n == VL) v_store_f32(out, result);
      else v_store_f32_n(out, result, n);
    }
  }
}

// Row tiles [t0, t0 + tiles) x panels [p0, p1) of strip 0: weights are streamed once.
void run_strip_0(const qcg_call* call, int64_t t0, int64_t tiles, int64_t p0, int64_t p1, uint8_t* c) {
  constexpr int64_t SEGMENTS = 1, SEGMENT = 1344, PANEL = SEGMENTS * SEGMENT;
  const uint8_t* const weights = (const uint8_t*)call->args[1].data + 0;
  const qcg_unit* const x = (const qcg_unit*)call->shared + t0 * (UNITS * MR);
    for (int64_t p = p0; p < p1; ++p) {
      uint8_t* const panel_c = c;
      for (int64_t j = 0; j < SEGMENTS; ++j) {
        const uint8_t* const w = weights + p * PANEL + j * SEGMENT;
        const uint8_t* const next = w + SEGMENT;
        constexpr int64_t count = 8;
        // Each row tile fetches its share of the next block of weights.
        const int64_t fetches = count * 2;
        const int64_t next_step = (128 * count + tiles * fetches - 1) / (tiles * fetches);
        for (int64_t t = 0; t < tiles; ++t)
          multiply_tile(w, x + t * (UNITS * MR), panel_c + (j * tiles + t) * TILE * 4, count, true, next + t * fetches * next_step, next_step);
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
  return call->params[0] <= 0 ? 0 : tiles_of(call) * MR * (UNITS + 1) * 4;
}
int64_t scratch_bytes(const qcg_call* call) {
  if (call->params[0] <= 0) return 0;
  const int64_t product = tiles_per_block(call) * TILE * 4 * 1;
  return product > MR * UNITS * 4 ? product : MR * UNITS * 4;
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
      run_strip_0(call, t0, count, p0, p1, (uint8_t*)scratch);
    }
  }
}

}  // namespace

extern "C" {
extern const qcg_kernel golden __attribute__((visibility("default")));
const qcg_kernel golden = {QCG_KERNEL_ABI, 2, items, shared_bytes, scratch_bytes, run};
}
