// qgemm_i8_da8w8_f32_n32_k64_16x32x4_amx_int8
//
// gemm da8w8 x=i8 w=i8 k=64 k_segments=64 segment(32) output(f32 32 = acc0) m=0..
// candidate: amx_int8 16x32
// weights: da8w8 packed as [K/4][nr][4] u8 = s8 xor 0x80, panels of 32 columns
//
//            32 columns = 2 tiles
//          +--------+--------+
//  16 rows |  C 0   |  C 1   |  += A 4 x B 6, B 7: 64 k a step
//          +--------+--------+
//
// source nodes, in program order:
//   %y = aten.linear.default(%x, @proj.weight)  model.py:41
//
// lowered to:
//   %y = qcg.linear([%x], weights = [@proj.weight])
#include "abi.h"
#include "gemm_amx.h"
#include "quant/scale.h"

namespace {

constexpr int MR = 16, NR = 32;
constexpr int64_t UNITS = 16;  // of packed activations per row; 4 k each, a multiple of STEP
constexpr int64_t TILE = MR * NR;
constexpr int STEP = 16;  // units that one product of tiles multiplies

inline int64_t tiles_of(const qcg_call* call) { return (call->params[0] + MR - 1) / MR; }


// Phase 0: activations of one row tile, [unit / STEP][row][unit % STEP]: every 16 rows of it are an A tile.
void pack_tile(const qcg_call* call, int64_t tile, void* scratch) {
  const int64_t m = call->params[0];
  qcg_unit* const dst = (qcg_unit*)call->shared + tile * (UNITS * MR);
  int32_t* const row_sums = (int32_t*)((qcg_unit*)call->shared + tiles_of(call) * (UNITS * MR));
  int8_t* const row = (int8_t*)scratch;
  for (int r = 0; r < MR; ++r) {
    const int64_t i = tile * MR + r;
    if (i >= m) {
      for (int64_t u = 0; u < UNITS; u += STEP) __builtin_memset(dst + u * MR + r * STEP, 0, STEP * 4);
      row_sums[i] = 0;
      continue;
    }
    {
      const int8_t* x = (const int8_t*)call->args[0].data + i * call->args[0].stride;
      pack_s8_i8(row + 0, x, 64);
    }
    row_sums[i] = sum_elements(row, 64);
    for (int64_t u = 0; u < UNITS; u += STEP) __builtin_memcpy(dst + u * MR + r * STEP, (const qcg_unit*)row + u, STEP * 4);
  }
}

// One tile of results: c[MR][NR] (+)= weights of one block of K x packed activations. Counts are of 8 k.
__attribute__((noinline)) void multiply_tile(const uint8_t* w, const qcg_unit* x, uint8_t* c, int64_t count, bool first, const uint8_t* next, int64_t next_step) {
  if (first) {
    tile_zero<0>();
    tile_zero<1>();
  } else {
    tile_load<0>(c + 0, NR * 4);
    tile_load<1>(c + 64, NR * 4);
  }
  {
    const int64_t units = count * 2;
    for (int64_t u = 0; u < units; u += STEP) {
      const uint8_t* const b = w;
      // The share of this row tile in the next block is a line or two per step where there are many row tiles.
      const uint8_t* const fetched = next + next_step * 16;
      for (; next < fetched; next += 64) {
        __builtin_prefetch(next);
      }
      next = fetched;
      tile_load<4>(x + 0, 64);
      tile_load<6>(b + 0, 128);
      tile_dp_sud<0, 4, 6>();
      tile_load<6>(b + 64, 128);
      tile_dp_sud<1, 4, 6>();
      x += STEP * MR;
      w += 2048;
    }
  }
  tile_store<0>(c + 0, NR * 4);
  tile_store<1>(c + 64, NR * 4);
}

// Output 0: acc0
void finish_0(const qcg_call* call, const uint8_t* panel, const uint8_t* c, int64_t tiles, int64_t row0, int64_t col0) {
  const int64_t m = call->params[0];
  const int64_t rows = row0 + tiles * MR < m ? tiles * MR : m - row0;
  const qcg_arg y = call->args[3];
  const int32_t* const row_sums = (const int32_t*)((const qcg_unit*)call->shared + tiles_of(call) * (UNITS * MR)) + row0;
  (void)panel;
  for (int64_t r = 0; r < rows; ++r) {
    const float x_scale = ((const float*)call->args[1].data)[(row0 + r) * call->args[1].stride];
    for (int v = 0; v < 2; ++v) {
      const int64_t column = col0 + v * VL;
      if (column >= 32) break;
      const int n = 32 - column < VL ? (int)(32 - column) : VL;
      const int64_t at = v * VL;
      // segment 0
      vi sum0 = int_load(c + (0 * tiles * TILE + r * NR + at) * 4);
      sum0 = correct_rows(sum0, (const int32_t*)(panel + 2304) + at, row_sums[r]);
      vf acc0 = scale_int(sum0, (const float*)(panel + 2048) + at, x_scale);
      float* const out = (float*)y.data + (row0 + r) * y.stride + column;
      const vf result = acc0;
      if (n == VL) v_store_f32(out, result);
      else v_store_f32_n(out, result, n);
    }
  }
}

// Row tiles [t0, t0 + tiles) x panels [p0, p1) of strip 0: weights are streamed once.
void run_strip_0(const qcg_call* call, int64_t t0, int64_t tiles, int64_t p0, int64_t p1, uint8_t* c) {
  constexpr int64_t SEGMENTS = 1, SEGMENT = 2688, PANEL = SEGMENTS * SEGMENT;
  const uint8_t* const weights = (const uint8_t*)call->args[2].data + 0;
  const qcg_unit* const x = (const qcg_unit*)call->shared + t0 * (UNITS * MR);
    for (int64_t p = p0; p < p1; ++p) {
      uint8_t* const panel_c = c;
      for (int64_t j = 0; j < SEGMENTS; ++j) {
        const uint8_t* const w = weights + p * PANEL + j * SEGMENT;
        const uint8_t* const next = w + SEGMENT;
        constexpr int64_t count = 8;
        // Each row tile fetches its share of the next block of weights.
        const int64_t fetches = count * 2;
        const int64_t next_step = (256 * count + tiles * fetches - 1) / (tiles * fetches);
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
  return product > UNITS * 4 ? product : UNITS * 4;
}
void run(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch) {
  if (phase == 0) {
    for (int64_t tile = begin; tile < end; ++tile) pack_tile(call, tile, scratch);
    return;
  }
  const int64_t tiles = tiles_of(call), block = tiles_per_block(call);
  tile_config(call->params[0], STEP);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t t0 = item / CHUNKS * block, chunk = item % CHUNKS;
    const int64_t count = tiles - t0 < block ? tiles - t0 : block;
    {
      const int64_t p0 = (chunk - 0) * 1;
      const int64_t p1 = p0 + 1 < 1 ? p0 + 1 : 1;
      run_strip_0(call, t0, count, p0, p1, (uint8_t*)scratch);
    }
  }
  tile_release();
}

}  // namespace

extern "C" {
extern const qcg_kernel golden __attribute__((visibility("default")));
const qcg_kernel golden = {QCG_KERNEL_ABI, 2, items, shared_bytes, scratch_bytes, run};
}
