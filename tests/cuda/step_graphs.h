// Graphs whose kernels are tested on devices, beside that of tests/tune/family_graph.h.
//
// Why here: the executor of PTX and a real device run them.
#pragma once

#include <string_view>

namespace qcg::test {

// Rows that are whole pieces of what a thread and a warp take.
inline constexpr std::string_view kFullRows = R"(
graph(%x: bf16[8, 2048], %w: bf16[2048], %a: f32[128, 64], %b: f32[128, 64], %ids: i64[16], %table: bf16[64, 2048]) {
  %y = qcg.loop([%x, %w], exprs = [mul(silu(in0), in1)]) : bf16[8, 2048]
  %z = qcg.rows([%x, %w], steps = [mul(in0, in0), mul(in1, mul(in0, rsqrt(add(acc0, 1e-06))))], reduce = "mean -", stores = [1], shape = [8, 2048]) : bf16[8, 2048]
  %q, %s, %o = qcg.quantize_rows(%z, mapping = "ASYMMETRIC", quant_min = -128, quant_max = 127, eps = 1e-05) : i8[8, 2048], f32[8, 1], i32[8, 1]
  %m = aten.amax.default(%x, dim = [0], keepdim = false) : bf16[2048]
  %t = aten.transpose.int(%b, dim0 = 0, dim1 = 1) : f32[64, 128]
  %p = aten.mm.default(%a, %t) : f32[128, 128]
  %g = aten.index.Tensor(%table, [%ids]) : bf16[16, 2048]
  return %y, %z, %q, %s, %m, %p, %g
}
)";

// Rows longer than a block, and most of the ways to put them in order.
inline constexpr std::string_view kSortedRows = R"(symbol s0 in [1, 64]
graph(%x: f32[s0, 600], %h: bf16[s0, 300], %i: i64[s0, 257]) {
  %a, %b = aten.sort.default(%x, dim = 1, descending = true) : f32[s0, 600], i64[s0, 600]
  %c, %d = aten.topk.default(%h, k = 40) : bf16[s0, 40], i64[s0, 40]
  %e, %f = aten.topk.default(%x, k = 3, largest = false) : f32[s0, 3], i64[s0, 3]
  %g = aten.argmax.default(%i, dim = 1) : i64[s0]
  return %a, %b, %c, %d, %e, %f, %g
})";

// Writes at positions, most of which are equal to others: rows longer than what a block moves, more positions than it
// has threads, elements, positions along two axes, all ways to combine, axes that are walked backwards.
inline constexpr std::string_view kWrites = R"(symbol s0 in [1, 400]
graph(%cache: bf16[3, 40, 70], %rows: bf16[3, s0, 70], %at: i64[s0], %wide: f32[9, 1100], %long: f32[s0, 1100], %table: f32[6, 50], %index: i64[5, s0], %src: f32[5, s0], %i: i32[s0, 3], %j: i64[s0, 1], %whole: i64[8, 9, 4], %part: i64[s0, 3, 4], %column: i32[50], %numbers: i32[s0]) {
  %a = aten.index_copy.default(%cache, dim = 1, index = %at, source = %rows) : bf16[3, 40, 70]
  %b = aten.index_add.default(%wide, dim = 0, index = %at, source = %long) : f32[9, 1100]
  %c = aten.scatter.src(%table, dim = 1, index = %index, src = %src) : f32[6, 50]
  %d = aten.scatter_add.default(%table, dim = 1, index = %index, src = %src) : f32[6, 50]
  %e = aten.index_put.default(%whole, indices = [%i, %j], values = %part) : i64[8, 9, 4]
  %f = qcg.combine_at(%column, dim = 0, index = %at, src = %numbers, reduce = "prod") : i32[50]
  %g = qcg.combine_at(%table, dim = 1, index = %index, src = %src, reduce = "amin") : f32[6, 50]
  %n = qcg.loop([%wide], exprs = [neg(in0)]) : f32[9, 1100]
  %o = aten.flip.default(%n, dims = [0]) : f32[9, 1100]
  %h = aten.index_copy.default(%o, dim = 0, index = %at, source = %long) : f32[9, 1100]
  %p = qcg.loop([%column], exprs = [neg(in0)]) : i32[50]
  %q = aten.flip.default(%p, dims = [0]) : i32[50]
  %k = aten.index_add.default(%q, dim = 0, index = %at, source = %numbers) : i32[50]
  return %a, %b, %c, %d, %e, %f, %g, %h, %k
})";

// Attention that tensor cores compute from two rows on: causal behind a cache, masks, additive bias, groups of heads, rows
// that see nothing.
inline constexpr std::string_view kAttention = R"(symbol s0 in [1, 400]
graph(%q: bf16[2, 6, s0, 64], %k: bf16[1, 2, 150, 64], %v: bf16[1, 2, 150, 32], %seen: i64[s0], %h: f16[1, 3, s0, 128], %k2: f16[1, 3, s0, 128], %bias: f32[3, s0, s0], %keep: bool[1, 1, s0, s0], %x: bf16[1, 2, s0, 16], %wide: bf16[1, 2, s0, 96]) {
  %seen2 = aten.reshape.default(%seen, shape = [1, 1, s0, 1]) : i64[1, 1, s0, 1]
  %bias2 = aten.reshape.default(%bias, shape = [1, 3, s0, s0]) : f32[1, 3, s0, s0]
  %a = qcg.attention(%q, %k, %v, [%seen2], mask = [ge(in0, pos3)], score = [mul(acc0, 0.125)]) : bf16[2, 6, s0, 32]
  %b = qcg.attention(%h, %k2, %k2, [%bias2], score = [add(mul(acc0, 0.0883), in0)]) : f16[1, 3, s0, 128]
  %c = qcg.attention(%x, %x, %wide, [], mask = [ge(pos2, pos3)], score = [mul(acc0, 0.25)]) : bf16[1, 2, s0, 96]
  %d = qcg.attention(%x, %x, %x, [%keep], mask = [in0], score = [mul(acc0, 0.25)], empty = "mean") : bf16[1, 2, s0, 16]
  %e = qcg.attention(%wide, %wide, %x, [%keep], mask = [in0], score = [mul(acc0, 0.1)], empty = "nan") : bf16[1, 2, s0, 16]
  return %a, %b, %c, %d, %e
})";

}  // namespace qcg::test
