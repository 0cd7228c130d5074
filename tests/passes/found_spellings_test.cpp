// What random spellings found (spelling_test.cpp), one graph each.
#include "tests/passes/passes_test_util.h"

using namespace qcg;

namespace {

struct Found {
  const char* what;
  const char* graph;
};

constexpr Found kFound[] = {
    {"rows sliced behind a constant that is repeated over them", R"(symbol s0 in [1, 64]
param @w: f32[32, 6]
param @c: f32[1, 1]
graph(%x: f32[s0, 6]) {
  %y = aten.linear.default(%x, @w) : f32[s0, 32]
  %e = aten.expand.default(@c, [s0, 1]) : f32[s0, 1]
  %m = aten.mul.Tensor(%y, %e) : f32[s0, 32]
  %s = aten.slice.Tensor(%m, 0, 0, 1) : f32[1, 32]
  return %s
})"},
    {"a scale for every element: blocks of one are their own extremes", R"(graph(%x: f32[5, 1]) {
  %s, %z = torchao.choose_qparams_affine.default(%x, "ASYMMETRIC", [1, 1], i8, -128, 127, none, f32, i32) : f32[5, 1], i32[5, 1]
  %q = torchao.quantize_affine.default(%x, [1, 1], %s, none, i8, -128, 127) : i8[5, 1]
  %d = torchao.dequantize_affine.default(%q, [1, 1], %s, %z, i8, -128, 127) : f32[5, 1]
  return %d
})"},
    {"scales [M] chosen by rows, multiplied by columns because M = K", R"(param @w: f32[4, 8]
graph(%x: f32[8, 8]) {
  %s, %z = torchao.choose_qparams_affine.default(%x, "ASYMMETRIC", [1, 8], i8, -128, 127, 1e-07, f32, i32) : f32[8], i32[8]
  %q = torchao.quantize_affine.default(%x, [1, 8], %s, %z, i8, -128, 127) : i8[8, 8]
  %zf = aten.to.dtype(%z, f32) : f32[8]
  %qf = aten.to.dtype(%q, f32) : f32[8, 8]
  %c = aten.sub.Tensor(%qf, %zf) : f32[8, 8]
  %d = aten.mul.Tensor(%c, %s) : f32[8, 8]
  %y = aten.linear.default(%d, @w) : f32[8, 4]
  return %y
})"},
    {"an integer product that is rounded before its first scale", R"(param @w: i8[16, 64]
param @ws: f32[16]
graph(%x: f32[4, 64]) {
  %s, %z = torchao.choose_qparams_affine.default(%x, "SYMMETRIC", [1, 64], i8, -128, 127, 1e-07, f32, i8, keepdim = true) : f32[4, 1], i8[4, 1]
  %q = torchao.quantize_affine.default(%x, [1, 64], %s, %z, i8, -128, 127) : i8[4, 64]
  %t = aten.permute.default(@w, [1, 0]) : i8[64, 16]
  %i = aten._int_mm.default(%q, %t) : i32[4, 16]
  %r = aten.to.dtype(%i, bf16) : bf16[4, 16]
  %f = aten.mul.Tensor(%r, %s) : f32[4, 16]
  %y = aten.mul.Tensor(%f, @ws) : f32[4, 16]
  return %y
})"},
    {"a product in bf16 whose scale makes it f32", R"(param @w: i8[16, 64]
param @ws: f32[16]
graph(%x: bf16[4, 64]) {
  %t = aten.permute.default(@w, [1, 0]) : i8[64, 16]
  %f = aten.to.dtype(%t, bf16) : bf16[64, 16]
  %p = aten.mm.default(%x, %f) : bf16[4, 16]
  %y = aten.mul.Tensor(%p, @ws) : f32[4, 16]
  return %y
})"},
    {"codes that are repeated over the rows of a weight", R"(param @w: i8[1, 8]
param @o: f32[8, 1]
param @s: f32[8]
graph(%x: f32[4, 8]) {
  %f = aten.to.dtype(@w, f32) : f32[1, 8]
  %e = aten.expand.default(@o, [8, 8]) : f32[8, 8]
  %c = aten.mul.Tensor(%f, %e) : f32[8, 8]
  %d = aten.mul.Tensor(%c, @s) : f32[8, 8]
  %t = aten.permute.default(%d, [1, 0]) : f32[8, 8]
  %y = aten.linear.default(%x, %t) : f32[4, 8]
  return %y
})"},
};

}  // namespace

TEST_CASE("spellings that went wrong once") {
  for (const Found& found : kFound) {
    SUBCASE(found.what) {
      Graph before = parse(found.graph);
      bind_random(before, 1);
      Graph after = before;
      const auto reports = run_passes(after, {.verify_after_each = true});
      REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
      for (uint64_t seed = 1; seed <= 3; ++seed) check_same_values(before, after, seed);
    }
  }
}
