// Constants that are evaluated, sizes as numbers, and roundings that are kept.
#include "tests/passes/passes_test_util.h"

using namespace qcg;

TEST_CASE("emulated casts round where eager execution does") {
  Graph before = parse(R"(symbol s0 in [1, 8]
param @wg: bf16[24, 32]
param @wu: bf16[24, 32]
graph(%x: bf16[s0, 32], %r: bf16[s0, 24]) {
  %g = aten.linear.default(%x, @wg) : bf16[s0, 24]
  %u = aten.linear.default(%x, @wu) : bf16[s0, 24]
  %s = aten.silu.default(%g) : bf16[s0, 24]
  %m = aten.mul.Tensor(%s, %u) : bf16[s0, 24]
  %a = aten.add.Tensor(%m, %r) : bf16[s0, 24]
  %e = aten.exp.default(%r) : bf16[s0, 24]
  %n = aten.neg.default(%e) : bf16[s0, 24]
  return %a, %n
}
)");
  bind_random(before, 5);
  Graph after = before;
  PassOptions options;
  options.emulate_precision_casts = true;
  REQUIRE(run_passes(after, options).ok());
  REQUIRE(after.nodes.size() == 2);
  const std::vector<Tensor> inputs = random_inputs(before, 6);
  auto want = evaluate_graph(before, inputs, {.emulate_casts = true}),
       got = evaluate_graph(after, inputs, {.emulate_casts = true});
  REQUIRE(want.ok());
  REQUIRE(got.ok());
  for (size_t i = 0; i < want->size(); ++i) {
    const Tensor &a = (*want)[i], &b = (*got)[i];
    CHECK(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()));
  }
}

TEST_CASE("constants are folded when they are bound and small, or no larger than what they are made of") {
  const std::string head = "param @a: ", floats = R"(f32[4, 4]
param @b: f32[4]
graph(%x: f32[4, 4]) {
  %s = aten.add.Tensor(@a, @b) : f32[4, 4]
  %t = aten.exp.default(%s) : f32[4, 4]
  %y = aten.mul.Tensor(%x, %t) : f32[4, 4]
  return %y
}
)",
                    codes = R"(i8[4, 4]
param @b: f32[4]
graph(%x: f32[4, 4]) {
  %c = aten.to.dtype(@a, dtype = f32) : f32[4, 4]
  %s = aten.add.Tensor(%c, @b) : f32[4, 4]
  %y = aten.mul.Tensor(%x, %s) : f32[4, 4]
  return %y
}
)";
  PassOptions small;
  small.gates.constant_max_elements = 15;
  for (const std::string* text : {&floats, &codes}) {
    Graph unbound = parse(head + *text);
    REQUIRE(run_pass("fold_constants", unbound).ok());
    CHECK(unbound.nodes.size() == 3);

    Graph before = parse(head + *text);
    bind_random(before, 1);
    Graph after = before, gated = before;
    REQUIRE(run_pass("fold_constants", after).ok());
    CHECK(after.nodes.size() == 1);
    check_same_values(before, after, 2);
    REQUIRE(run_pass("fold_constants", gated, small).ok());
    CHECK(gated.nodes.size() == (text == &codes ? 3 : 1));
  }
}

TEST_CASE("a weight that is computed from constants is evaluated, however large") {
  Graph before = parse(R"(param @a: i8[24, 16]
param @b: i8[8, 16]
graph(%x: f32[4, 16]) {
  %c = aten.cat.default([@a, @b]) : i8[32, 16]
  %f = aten.to.dtype(%c, dtype = f32) : f32[32, 16]
  %s = aten.sin.default(%f) : f32[32, 16]
  %y = aten.linear.default(%x, %s) : f32[4, 32]
  return %y
}
)");
  bind_random(before, 1);
  Graph after = before;
  PassOptions small;
  small.gates.constant_max_elements = 15;
  REQUIRE(run_pass("fold_constants", after, small).ok());
  REQUIRE(after.nodes.size() == 1);
  CHECK(after.nodes[0].op->name == "qcg.linear");
  check_same_values(before, after, 2);
}

TEST_CASE("a batch_norm after a linear is a product and a sum of its epilogue") {
  Graph before = parse(R"(param @w: f32[32, 16]
param @scale: f32[32]
param @shift: f32[32]
param @mean: f32[32]
param @log_var: f32[32]
graph(%x: f32[4, 16]) {
  %h = aten.linear.default(%x, @w) : f32[4, 32]
  %var = aten.exp.default(@log_var) : f32[32]
  %n = aten.batch_norm.default(%h, @scale, @shift, @mean, %var, false, 0.1, 0.001, true) : f32[4, 32]
  %y = aten.relu.default(%n) : f32[4, 32]
  return %y
}
)");
  bind_random(before, 1);
  Graph after = before;
  REQUIRE(run_passes(after).ok());
  REQUIRE(after.nodes.size() == 1);
  CHECK(after.nodes[0].op->name == "qcg.linear");
  check_same_values(before, after, 2);
}

TEST_CASE("the positions of extremes are found where they are read, and only there") {
  const std::string head = "graph(%x: f32[4, 16]) {\n  %v, %at = aten.max.dim(%x, -1, false) : f32[4], i64[4]\n";
  Graph values = parse(head + "  return %v\n}\n"), positions = parse(head + "  return %at\n}\n");
  REQUIRE(run_passes(values).ok());
  REQUIRE(run_passes(positions).ok());
  CHECK((count_op(values, "aten.amax.default") == 1 && values.nodes.size() == 1));
  CHECK((count_op(positions, "aten.argmax.default") == 1 && positions.nodes.size() == 1));
}
