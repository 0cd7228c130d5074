// A graph with a kernel of every family, and its plan.
//
// Why here: what holds for every kind of kernel is tested on it, on the CPU and on a device.
//
//   const Plan plan = plan_families({Device::cpu, Isa::portable});
#pragma once

#include <doctest/doctest.h>

#include <string_view>

#include "codegen/plan/plan.h"
#include "graph/ops/verify.h"
#include "graph/read/text.h"

namespace qcg::test {

// Broadcasts, codes, integers, booleans, steps, moves, views with gaps, rows, reductions along both axes, products,
// scans, look-ups of rows and of elements, windows, writes, row programs, f64.
inline constexpr std::string_view kFamilyGraph = R"(symbol s0 in [1, 4096]
graph(%x: bf16[s0, 37], %experts: bf16[5, 21, 37], %ends: i32[5], %row: f32[37], %column: f32[s0, 1], %i: i64[s0, 37], %b: i8[37, s0], %ids: i64[2, s0], %at: i32[s0, 5], %offsets: i64[s0], %bagged: i32[67], %by: f32[67], %taps: f32[5, 1, 37], %to: i64[s0], %query: bf16[2, 6, s0, 40], %cache: f32[1, 2, 300, 40], %seen: i64[s0, 1]) {
  %a = qcg.loop([%x, %row, %column], exprs = [mul(silu(in0), add(in1, in2))]) : bf16[s0, 37]
  %q, %s, %z = qcg.quantize_rows(%a, mapping = "ASYMMETRIC", quant_min = -128, quant_max = 127, eps = 1e-05) : i8[s0, 37], f32[s0, 1], i32[s0, 1]
  %d = qcg.loop([%q, %z, %s], exprs = [mul(sub(in0, in1), in2)]) : f32[s0, 37]
  %e = qcg.loop([%d, %s], exprs = [cast_i8(clamp(round_even(div(in0, in1)), -128, 127))]) : i8[s0, 37]
  %m = aten.mean.dim(%d, dim = [1], keepdim = true) : f32[s0, 1]
  %h = aten.amax.default(%a, dim = [0], keepdim = false) : bf16[37]
  %n = qcg.loop([%i, %i], exprs = [add(mul(in0, 3), in1)], arithmetic = i64) : i64[s0, 37]
  %t = aten.transpose.int(%b, dim0 = 0, dim1 = 1) : i8[s0, 37]
  %c = qcg.loop([%t, %e], exprs = [gt(in0, in1)]) : bool[s0, 37]
  %w = aten.transpose.int(%d, dim0 = 0, dim1 = 1) : f32[37, s0]
  %p = aten.mm.default(%d, %w) : f32[s0, s0]
  %matrices = aten.transpose.int(%experts, dim0 = 1, dim1 = 2) : bf16[5, 37, 21]
  %grouped = aten._grouped_mm.default(%x, %matrices, %ends) : bf16[s0, 21]
  %l = qcg.loop([%i], exprs = [ge(add(pos1, size0), mul(in0, pos0))], arithmetic = i64, sizes = [s0]) : bool[s0, 37]
  %u = qcg.loop([%d], exprs = [where(ge(pos1, pos0), in0, size0)], sizes = [s0]) : f32[s0, 37]
  %r = aten.cumsum.default(%i, dim = 0) : i64[s0, 37]
  %f = aten.cumsum.default(%a, dim = 1) : bf16[s0, 37]
  %f3, %f4 = aten.cummax.default(%d, dim = 0) : f32[s0, 37], i64[s0, 37]
  %f5 = aten.logcumsumexp.default(%a, dim = 1) : bf16[s0, 37]
  %f6 = aten.prod.dim_int(%d, dim = 0) : f32[37]
  %v, %o = aten.topk.default(%d, k = 3) : f32[s0, 3], i64[s0, 3]
  %g, %j = aten.sort.default(%b, dim = 0, descending = false) : i8[37, s0], i64[37, s0]
  %r2 = aten.index.Tensor(%x, [%ids]) : bf16[2, s0, 37]
  %f2 = aten.gather.default(%d, dim = 1, index = %at) : f32[s0, 5]
  %g0, %g1, %g2, %g3 = aten._embedding_bag.default(%d, %bagged, %offsets, mode = 0, per_sample_weights = %by, padding_idx = 1) : f32[s0, 37], i64[0], i64[s0], i64[s0]
  %k, %k1, %k2, %k3 = aten._embedding_bag.default(%x, %bagged, %offsets, mode = 1) : bf16[s0, 37], i64[0], i64[s0], i64[s0]
  %w1 = qcg.windows(%x, none, op = "max", kernel = [3], stride = [1], dilation = [2], before = [2], places = [s0]) : bf16[s0, 37]
  %w2 = qcg.windows(%d, %taps, op = "product", kernel = [5], stride = [1], dilation = [1], before = [2], places = [s0]) : f32[s0, 37]
  %w3 = qcg.windows(%d, %taps, op = "product", kernel = [5], stride = [1], dilation = [1], before = [2], places = [s0], operands = [%x, %column, %row], epilogue = [relu(add(mul(acc0, in1), add(in0, in2)))], dtype = bf16) : bf16[s0, 37]
  %y1 = aten.expand.default(%d, size = [64, s0, 37]) : f32[64, s0, 37]
  %y2 = aten.reshape.default(%y1, shape = [64*s0, 37]) : f32[64*s0, 37]
  %y3 = aten.index_copy.default(%y2, dim = 0, index = %to, source = %d) : f32[64*s0, 37]
  %y4 = aten.index_add.default(%y2, dim = 0, index = %to, source = %d) : f32[64*s0, 37]
  %y5 = qcg.combine_at(%y2, dim = 0, index = %i, src = %d, reduce = "amax") : f32[64*s0, 37]
  %at1 = qcg.attention(%query, %cache, %cache, [%seen], mask = [ge(in0, pos3)], score = [mul(acc0, 0.25)]) : bf16[2, 6, s0, 40]
  %z1, %z2 = qcg.rows([%x, %row, %column], steps = [mul(in0, in2), mul(acc0, acc0), exp(sub(acc0, acc1)), acc2, mul(in1, div(acc2, acc3))], reduce = "- mean - sum -", stores = [4, 3], shape = [s0, 37]) : bf16[s0, 37], f32[s0, 1]
  %n1 = qcg.loop([%i, %x, %d, %c], exprs = [add(mul(in0, 1e-12), where(in3, sub(in1, in2), 1.7e9))], arithmetic = f64) : f64[s0, 37]
  %n2, %n6, %n7, %n8, %n9, %n10 = qcg.loop([%n1, %column, %d], exprs = [add(log(abs(in0)), fmod(in1, exp(atan(in2)))), pow(sqrt(abs(in0)), 3), log1p(abs(sub(in0, in2))), cast_i64(floor(mul(in2, 1e12))), ge(in0, in1), add(erf(in1), mul(tanh(in2), gelu(in1)))], arithmetic = f64) : f64[s0, 37], f64[s0, 37], bf16[s0, 37], i64[s0, 37], bool[s0, 37], f32[s0, 37]
  %n3 = aten.mean.dim(%n1, dim = [0], keepdim = false) : f64[37]
  %n4 = aten.amin.default(%n1, dim = [1], keepdim = false) : f64[s0]
  %n5 = aten.cumsum.default(%n1, dim = 1) : f64[s0, 37]
  %v2, %o2 = aten.topk.default(%n1, k = 3) : f64[s0, 3], i64[s0, 3]
  return %n2, %n6, %n7, %n8, %n9, %n10, %n3, %n4, %n5, %v2, %o2, %grouped, %e, %m, %h, %n, %c, %p, %l, %u, %r, %f, %f3, %f4, %f5, %f6, %v, %o, %g, %j, %r2, %f2, %g0, %k, %w1, %w2, %w3, %y3, %y4, %y5, %at1, %z1, %z2
}
)";

inline Plan plan_families(const Target& target) {
  auto graph = parse_graph(kFamilyGraph);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Status verified = verify_graph(*graph);
  REQUIRE_MESSAGE(verified.ok(), verified.error().to_string());
  auto plan = plan_kernels(*graph, target);
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  return std::move(*plan);
}

}  // namespace qcg::test
