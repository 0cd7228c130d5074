// qgemm_i8_da8f4_g32_f32_n32_k64_16x32x8_amx_int8
//
// gemm da8f4 x=i8 w=i8 k=64 group=32 k_segments=64 segment(32) output(f32 32 = acc0) m=0..
// candidate: amx_int8 16x32
// weights: da8f4 packed as [K/8][nr][8] e2m1: byte j of a dword has k = j (low nibble) and 4 + j (high), panels of 32 columns
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
#include "quant/e2m1.h"

namespace {

constexpr int MR = 16, NR = 32;
constexpr int64_t UNITS = 32;  // of packed activations per row; 4 k each, a multiple of 16
constexpr int64_t TILE = MR * NR;
constexpr int64_t GROUPS = 2, WORDS = 1;  // per group and row: what its zero points and offsets add to sums

inline int64_t tiles_of(const qcg_call* call) { return (call->params[0] + MR - 1) / MR; }
inline int64_t group_length(int64_t g) { return g + 1 < GROUPS ? 64 : 64; }
inline qcg_unit* sums_of(const qcg_call* call, int64_t tile) {
  return (qcg_unit*)call->shared + tiles_of(call) * ((UNITS + 1) * MR) + tile * (GROUPS * WORDS * MR);
}

inline int64_t rows_of(const qcg_call* call, int64_t tile) {
  const int64_t left = call->params[0] - tile * MR;
  return left < MR ? left : MR;
}

// Phase 0: activations of one row tile, [unit / 16][row][unit % 16]: every 16 rows of it are an A tile.
void pack_tile(const qcg_call* call, int64_t tile, void* scratch) {
  const int64_t m = call->params[0];
  qcg_unit* const dst = (qcg_unit*)call->shared + tile * (UNITS * MR);
  qcg_unit* const x_sums = sums_of(call, tile);
  int8_t* const row = (int8_t*)scratch;
  for (int r = 0; r < MR; ++r) {
    const int64_t i = tile * MR + r;
    if (i >= m) {
      for (int64_t u = 0; u < UNITS; u += 16) __builtin_memset(dst + u * MR + r * 16, 0, 64);
      for (int64_t g = 0; g < GROUPS * WORDS; ++g) x_sums[g * MR + r] = 0;
      continue;
    }
    __builtin_memset(row, 0, UNITS * 4);
    {
      const int8_t* x = (const int8_t*)call->args[0].data + i * call->args[0].stride;
      for (int64_t k = 0, n = 0; k < 64; k += n) {  // groups of 32 k take 64
        const int64_t g = (0 + k) / 32, o = (0 + k) % 32;
        n = 32 - o < 64 - k ? 32 - o : 64 - k;
        pack_s8_i8(row + g * 64 + o, x + k, n);
      }
    }
    for (int64_t g = 0; g < GROUPS; ++g) {
      const auto sum = sum_elements(row + g * 64, group_length(g));
      qcg_unit* const words = x_sums + g * (WORDS * MR) + r;
      *words = (qcg_unit)(-12 * sum);
    }
    for (int64_t u = 0; u < UNITS; u += 16) __builtin_memcpy(dst + u * MR + r * 16, (const qcg_unit*)row + u, 64);
  }
}

inline int64_t units_of(int64_t g) {
  (void)g;
  return 4 * 2;
}
// Weight units [0, rows) as rows of two B tiles.
QCG_INLINE void unpack_rows(uint8_t* b, const uint8_t* w, int64_t rows) {
  for (int64_t r = 0; r < rows; r += 2) {
    vi_store((int32_t*)(b + r * 128 + 0), vnni_weight_f4x8u<0>(w + r * 64 + 0));
    vi_store((int32_t*)(b + r * 128 + 64), vnni_weight_f4x8u<0>(w + r * 64 + 64));
    vi_store((int32_t*)(b + r * 128 + 128), vnni_weight_f4x8u<1>(w + r * 64 + 0));
    vi_store((int32_t*)(b + r * 128 + 192), vnni_weight_f4x8u<1>(w + r * 64 + 64));
  }
}

// The sums of one group, scaled, into c.
__attribute__((noinline)) void add_sums(const uint8_t* sums, const uint8_t* header, const qcg_unit* x_sums, uint8_t* c, int64_t rows, bool first) {
    const vf s0 = v_load_f32((const float*)header + 0 * VL);
    const vf s1 = v_load_f32((const float*)header + 1 * VL);
  for (int64_t r = 0; r < rows; ++r) {
    {
      const int64_t at = (r * NR + 0 * VL) * 4;
      const auto sum = int_load(sums + at);
      const vf total = add_group(first ? v_zero() : fma_load(c + at), vi_add(sum, vi_set1((int32_t)x_sums[r])), s0);
      fma_store(c + at, total);
    }
    {
      const int64_t at = (r * NR + 1 * VL) * 4;
      const auto sum = int_load(sums + at);
      const vf total = add_group(first ? v_zero() : fma_load(c + at), vi_add(sum, vi_set1((int32_t)x_sums[r])), s1);
      fma_store(c + at, total);
    }
  }
}

// One tile of results: c[MR][NR] (+)= weights of one block of K x packed activations. Counts are of 8 k.
// Groups [g0, g1): the sums of one are scaled into c while tiles multiply the next, which takes about as long.
__attribute__((noinline)) void multiply_tile(const uint8_t* w, const qcg_unit* x, uint8_t* c, int64_t g0, int64_t g1, bool first, const qcg_unit* x_sums, int64_t rows, const uint8_t* next, int64_t next_step) {
  alignas(64) uint8_t buffers[2][16 * 128];
  int turn = 0;
  // The next step is unpacked while the tiles of this one multiply.
  const auto unpack_next = [&](const uint8_t* step, int64_t units) {
    uint8_t* const at = buffers[turn ^= 1];
    const int64_t rows = units < 16 ? units : 16;
    unpack_rows(at, step, rows);
    tile_clear_rows(at, rows);
    return (const uint8_t*)at;
  };
  const uint8_t* b = unpack_next(w + 128, units_of(g0));
  alignas(64) uint8_t sums[TILE * 4];
  const uint8_t* before = nullptr;  // header of the group whose sums these are
  for (int64_t g = g0; g < g1; ++g) {
    const uint8_t* const header = w;
    w += 128;
    const int64_t units = units_of(g);
    tile_zero<0>();
    tile_zero<1>();
    for (int64_t u = 0; u < units; u += 16) {
      for (int f = 0; f < 16; ++f, next += next_step) {
        __builtin_prefetch(next);
      }
      tile_load<4>(x + 0, 64);
      tile_load<6>(b, 128);
      tile_load<7>(b + 64, 128);
      tile_dp_sud<0, 4, 6>();
      tile_dp_sud<1, 4, 7>();
      x += 16 * MR;
      w += 1024;
      if (u + 16 < units) b = unpack_next(w, units - u - 16);
    }
    w -= ((units + 15) / 16 * 16 - units) * 64;  // a last step may be a part
    if (g + 1 < g1) b = unpack_next(w + 128, units_of(g + 1));
    if (g > g0) add_sums(sums, before, x_sums + (g - 1) * (WORDS * MR), c, rows, first && g == g0 + 1);
    tile_store<0>(sums + 0, NR * 4);
    tile_store<1>(sums + 64, NR * 4);
    before = header;
  }
  add_sums(sums, before, x_sums + (g1 - 1) * (WORDS * MR), c, rows, first && g1 == g0 + 1);
}

// Output 0: acc0
void finish_0(const qcg_call* call, const uint8_t* panel, const uint8_t* c, int64_t tiles, int64_t row0, int64_t col0) {
  const int64_t m = call->params[0];
  const int64_t rows = row0 + tiles * MR < m ? tiles * MR : m - row0;
  const qcg_arg y = call->args[3];
  (void)panel;
  for (int64_t r = 0; r < rows; ++r) {
    const float x_scale = ((const float*)call->args[1].data)[(row0 + r) * call->args[1].stride];
    for (int v = 0; v < 2; ++v) {
      const int64_t column = col0 + v * VL;
      if (column >= 32) break;
      const int n = 32 - column < VL ? (int)(32 - column) : VL;
      const int64_t at = v * VL;
      // segment 0
      vf acc0 = fma_load(c + (0 * tiles * TILE + r * NR + at) * 4);
      acc0 = v_mul(acc0, v_set1(x_scale));
      float* const out = (float*)y.data + (row0 + r) * y.stride + column;
      const vf result = acc0;
      if (n == VL) v_store_f32(out, result);
      else v_store_f32_n(out, result, n);
    }
  }
}

// Row tiles [t0, t0 + tiles) x panels [p0, p1) of output 0: weights are streamed once.
void run_output_0(const qcg_call* call, int64_t t0, int64_t tiles, int64_t p0, int64_t p1, uint8_t* c) {
  constexpr int64_t SEGMENTS = 1, SEGMENT = 1920, PANEL = SEGMENTS * SEGMENT;
  const uint8_t* const weights = (const uint8_t*)call->args[2].data + 0;
  const qcg_unit* const x = (const qcg_unit*)call->shared + t0 * (UNITS * MR);
    for (int64_t p = p0; p < p1; ++p) {
      uint8_t* const panel_c = c;
      for (int64_t j = 0; j < SEGMENTS; ++j) {
        const uint8_t* const w = weights + p * PANEL + j * SEGMENT;
        const uint8_t* const next = w + SEGMENT;
        constexpr int64_t count = 2;
        // Each row tile fetches its share of the next block of weights.
        const int64_t fetches = count * 8;
        const int64_t next_step = (640 * count + tiles * fetches - 1) / (tiles * fetches);
        for (int64_t t = 0; t < tiles; ++t)
          multiply_tile(w, x + t * (UNITS * MR), panel_c + (j * tiles + t) * TILE * 4, 0, count, true, sums_of(call, t0 + t), rows_of(call, t0 + t), next + t * fetches * next_step, next_step);
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
  return call->params[0] <= 0 ? 0 : tiles_of(call) * MR * (UNITS + 1 + GROUPS * WORDS) * 4;
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
  tile_config(call->params[0]);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t t0 = item / CHUNKS * block, chunk = item % CHUNKS;
    const int64_t count = tiles - t0 < block ? tiles - t0 : block;
    {
      const int64_t p0 = (chunk - 0) * 1;
      const int64_t p1 = p0 + 1 < 1 ? p0 + 1 : 1;
      run_output_0(call, t0, count, p0, p1, (uint8_t*)scratch);
    }
  }
  tile_release();
}

}  // namespace

extern "C" {
extern const qcg_kernel golden __attribute__((visibility("default")));
const qcg_kernel golden = {QCG_KERNEL_ABI, 2, items, shared_bytes, scratch_bytes, run};
}
