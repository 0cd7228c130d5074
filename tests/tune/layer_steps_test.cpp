// How many kernels a layer is: upper bounds of the steps of whole layers, as models export them.
#include <algorithm>

#include "codegen/plan/plan.h"
#include "graph/ops/verify.h"
#include "graph/passes/pass_list.h"
#include "graph/read/text.h"
#include "tune_harness.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::vector<std::string> steps_of(const std::string& text) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Status verified = verify_graph(*graph);
  REQUIRE_MESSAGE(verified.ok(), verified.error().to_string());
  const auto reports = run_passes(*graph);
  REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
  const auto plan = plan_kernels(*graph, {Device::cpu, Isa::portable});
  REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
  std::vector<std::string> out;
  for (const PlanStep& step : plan->steps) {
    const KernelProblem& problem = plan->problems[static_cast<size_t>(step.problem)];
    out.push_back(std::string(problem.family().name) + " " + problem.family().formula(problem));
  }
  return out;
}

std::string listed(const std::vector<std::string>& steps) {
  std::string out;
  for (const std::string& step : steps) out += step + "\n";
  return out;
}

size_t count_of(const std::vector<std::string>& steps, std::string_view family) {
  return static_cast<size_t>(std::ranges::count_if(steps, [&](const std::string& s) { return s.starts_with(family); }));
}

// Rows of 64 through four heads of 16; %q, %k and %v are [b, 4, s, 16].
const std::string kHeads = R"(
  %q1 = aten.reshape.default(%q0, shape = [b, s, 4, 16]) : f32[b, s, 4, 16]
  %k1 = aten.reshape.default(%k0, shape = [b, s, 4, 16]) : f32[b, s, 4, 16]
  %v1 = aten.reshape.default(%v0, shape = [b, s, 4, 16]) : f32[b, s, 4, 16]
  %q = aten.transpose.int(%q1, dim0 = 1, dim1 = 2) : f32[b, 4, s, 16]
  %k = aten.transpose.int(%k1, dim0 = 1, dim1 = 2) : f32[b, 4, s, 16]
  %v = aten.transpose.int(%v1, dim0 = 1, dim1 = 2) : f32[b, 4, s, 16]
)";
const std::string kJoined = R"(
  %o1 = aten.transpose.int(%o0, dim0 = 1, dim1 = 2) : f32[b, s, 4, 16]
  %o2 = aten.reshape.default(%o1, shape = [b, s, 64]) : f32[b, s, 64]
  %o3 = aten.linear.default(%o2, @wo) : f32[b, s, 64]
  %h = aten.add.Tensor(%x, %o3) : f32[b, s, 64]
)";
constexpr size_t kAttention = 1;

}  // namespace

TEST_CASE("an encoder's layer is six kernels beside its attention") {
  const auto steps = steps_of(R"(symbol b in [2, 64]
symbol s in [2, 64]
param @wq: f32[64, 64]
param @wk: f32[64, 64]
param @wv: f32[64, 64]
param @wo: f32[64, 64]
param @w1: f32[176, 64]
param @w2: f32[64, 176]
param @g: f32[64]
param @c: f32[64]
graph(%x: f32[b, s, 64], %m: bool[b, 1, s, s]) {
  %q0 = aten.linear.default(%x, @wq, @c) : f32[b, s, 64]
  %k0 = aten.linear.default(%x, @wk, @c) : f32[b, s, 64]
  %v0 = aten.linear.default(%x, @wv, @c) : f32[b, s, 64]
)" + kHeads + R"(
  %o0 = aten.scaled_dot_product_attention.default(%q, %k, %v, attn_mask = %m) : f32[b, 4, s, 16]
)" + kJoined + R"(
  %n = aten.layer_norm.default(%h, normalized_shape = [64], weight = @g, bias = @c, eps = 1e-12) : f32[b, s, 64]
  %u = aten.linear.default(%n, @w1) : f32[b, s, 176]
  %a = aten.gelu.default(%u) : f32[b, s, 176]
  %d = aten.linear.default(%a, @w2) : f32[b, s, 64]
  %r = aten.add.Tensor(%d, %n) : f32[b, s, 64]
  %y = aten.layer_norm.default(%r, normalized_shape = [64], weight = @g, bias = @c, eps = 1e-12) : f32[b, s, 64]
  return %y
}
)");
  INFO(listed(steps));
  CHECK(steps.size() <= 6 + kAttention);
  CHECK(count_of(steps, "gemm") == 4);
  CHECK(count_of(steps, "reduce") == 0);
}

namespace {

std::string norm(const std::string& from, const std::string& to) {
  return "  %p" + to + " = aten.pow.Tensor_Scalar(%" + from + ", exponent = 2) : f32[b, s, 64]\n  %m" + to +
         " = aten.mean.dim(%p" + to + ", dim = [-1], keepdim = true) : f32[b, s, 1]\n  %e" + to +
         " = aten.add.Tensor(%m" + to + ", 1e-06) : f32[b, s, 1]\n  %r" + to + " = aten.rsqrt.default(%e" + to +
         ") : f32[b, s, 1]\n  %s" + to + " = aten.mul.Tensor(%" + from + ", %r" + to + ") : f32[b, s, 64]\n  %" + to +
         " = aten.mul.Tensor(@g, %s" + to + ") : f32[b, s, 64]\n";
}

std::string rope(const std::string& x, const std::string& to) {
  const std::string whole = " : f32[b, 4, s, 16]\n", half = " : f32[b, 4, s, 8]\n";
  return "  %a" + to + " = aten.slice.Tensor(%" + x + ", dim = 3, start = 0, end = 8)" + half + "  %b" + to +
         " = aten.slice.Tensor(%" + x + ", dim = 3, start = 8, end = 16)" + half + "  %n" + to +
         " = aten.neg.default(%b" + to + ")" + half + "  %c" + to + " = aten.cat.default([%n" + to + ", %a" + to +
         "], dim = -1)" + whole + "  %d" + to + " = aten.mul.Tensor(%" + x + ", %cos)" + whole + "  %f" + to +
         " = aten.mul.Tensor(%c" + to + ", %sin)" + whole + "  %" + to + " = aten.add.Tensor(%d" + to + ", %f" + to +
         ")" + whole;
}

}  // namespace

TEST_CASE("a decoder's layer is eight kernels beside its attention") {
  const auto steps = steps_of(R"(symbol b in [2, 64]
symbol s in [2, 64]
param @wq: f32[64, 64]
param @wk: f32[64, 64]
param @wv: f32[64, 64]
param @wo: f32[64, 64]
param @wg: f32[176, 64]
param @wu: f32[176, 64]
param @w2: f32[64, 176]
param @g: f32[64]
graph(%x: f32[b, s, 64], %cos: f32[s, 16], %sin: f32[s, 16]) {
)" + norm("x", "x1") + R"(
  %q0 = aten.linear.default(%x1, @wq) : f32[b, s, 64]
  %k0 = aten.linear.default(%x1, @wk) : f32[b, s, 64]
  %v0 = aten.linear.default(%x1, @wv) : f32[b, s, 64]
)" + kHeads + rope("q", "q2") +
                              rope("k", "k2") + R"(
  %o0 = aten.scaled_dot_product_attention.default(%q2, %k2, %v, is_causal = true) : f32[b, 4, s, 16]
)" + kJoined + norm("h", "x2") +
                              R"(
  %gate = aten.linear.default(%x2, @wg) : f32[b, s, 176]
  %up = aten.linear.default(%x2, @wu) : f32[b, s, 176]
  %act = aten.silu.default(%gate) : f32[b, s, 176]
  %t = aten.mul.Tensor(%act, %up) : f32[b, s, 176]
  %d = aten.linear.default(%t, @w2) : f32[b, s, 64]
  %y = aten.add.Tensor(%h, %d) : f32[b, s, 64]
  return %y
}
)");
  INFO(listed(steps));
  CHECK(steps.size() <= 8 + kAttention);
  CHECK(count_of(steps, "gemm") == 4);
  CHECK(count_of(steps, "reduce") == 0);
}

TEST_CASE("an activation that is scaled by its rows' largest and cast is one kernel before its linear") {
  const auto steps = steps_of(R"(symbol s in [2, 64]
param @w: f8e4m3[24, 64]
param @sw: f32[1, 24]
graph(%x: bf16[s, 64], %g: bf16[s, 64]) {
  %p = aten.mul.Tensor(%x, %g) : bf16[s, 64]
  %f = aten.to.dtype(%p, dtype = f32) : f32[s, 64]
  %a = aten.abs.default(%f) : f32[s, 64]
  %m = aten.amax.default(%a, dim = [-1], keepdim = true) : f32[s, 1]
  %c = aten.clamp_min.default(%m, 1e-12) : f32[s, 1]
  %k = aten.div.Tensor(%c, 448.0) : f32[s, 1]
  %v = aten.div.Tensor(%f, %k) : f32[s, 64]
  %l = aten.clamp.default(%v, -448.0, 448.0) : f32[s, 64]
  %q = aten.to.dtype(%l, dtype = f8e4m3) : f8e4m3[s, 64]
  %t = aten.t.default(@w) : f8e4m3[64, 24]
  %y = aten._scaled_mm.default(%q, %t, %k, @sw, out_dtype = bf16) : bf16[s, 24]
  return %y
}
)");
  INFO(listed(steps));
  CHECK(steps.size() == 2);
  CHECK(count_of(steps, "rows") == 1);
}

TEST_CASE("softmax, log_softmax, layer_norm and rms_norm are one kernel each, a residual and quantization included") {
  const std::string head = "symbol s in [2, 64]\ngraph(%x: f32[s, 64], %r: f32[s, 64], %g: f32[64]) {\n";
  const std::string bodies[] = {
      "  %y = aten.softmax.int(%x, dim = -1) : f32[s, 64]\n  return %y\n}\n",
      "  %y = aten.log_softmax.int(%x, dim = 1) : f32[s, 64]\n  return %y\n}\n",
      "  %h = aten.add.Tensor(%x, %r) : f32[s, 64]\n"
      "  %y = aten.layer_norm.default(%h, normalized_shape = [64], weight = %g) : f32[s, 64]\n  return %h, %y\n}\n",
      "  %h = aten.add.Tensor(%x, %r) : f32[s, 64]\n"
      "  %n = aten.rms_norm.default(%h, normalized_shape = [64], weight = %g) : f32[s, 64]\n"
      "  %q, %c, %z = qcg.quantize_rows(%n, mapping = \"SYMMETRIC\", quant_min = -127, quant_max = 127) : i8[s, 64], "
      "f32[s, 1], i32[s, 1]\n  return %h, %q, %c\n}\n"};
  for (const std::string& body : bodies) {
    const auto steps = steps_of(head + body);
    INFO(body, listed(steps));
    CHECK(steps.size() == 1);
  }
}

TEST_CASE("a linear of rows whose number is a difference reads and writes them where they lie") {
  const std::vector<std::string> steps = steps_of(R"(symbol b in [1, 8]
symbol s in [20, 64]
param @w: f32[8, 16]
graph(%x: f32[b, s, 16]) {
  %cut = aten.slice.Tensor(%x, dim = 1, start = 4, end = 9223372036854775807) : f32[b, s-4, 16]
  %r = aten.tanh.default(%cut) : f32[b, s-4, 16]
  %y = aten.linear.default(%r, @w) : f32[b, s-4, 8]
  %t = aten.transpose.int(%y, dim0 = 1, dim1 = 2) : f32[b, 8, s-4]
  return %t
}
)");
  CHECK_MESSAGE(steps.size() == 3, listed(steps));
  REQUIRE(!steps.empty());
  CHECK_MESSAGE(steps.back().starts_with("loop"), listed(steps));
  CHECK_MESSAGE(steps[1].starts_with("gemm"), listed(steps));
}

TEST_CASE("a linear finds windows and heads where they lie") {
  const auto steps = steps_of(R"(symbol b in [2, 64]
symbol s in [8, 64]
param @w: f32[24, 32]
graph(%x: f32[b, 4, s, 8], %p: f32[b, s, 8]) {
  %t = aten.transpose.int(%x, dim0 = 1, dim1 = 2) : f32[b, s, 4, 8]
  %j = aten.reshape.default(%t, shape = [b, s, 32]) : f32[b, s, 32]
  %y = aten.linear.default(%j, @w) : f32[b, s, 24]
  %u = aten.unfold.default(self = %p, dimension = 1, size = 4, step = 1) : f32[b, s - 3, 8, 4]
  %q = aten.transpose.int(%u, dim0 = 2, dim1 = 3) : f32[b, s - 3, 4, 8]
  %k = aten.reshape.default(%q, shape = [b, s - 3, 32]) : f32[b, s - 3, 32]
  %z = aten.linear.default(%k, @w) : f32[b, s - 3, 24]
  return %y, %z
}
)");
  INFO(listed(steps));
  CHECK(steps.size() == 2);
  CHECK(count_of(steps, "gemm") == 2);
}
