// Convolutions, pools and recurrent layers: what expand_layers makes of them computes the same, in linears of which none
// is fed through a permuted copy.
#include <fmt/format.h>

#include "graph/ops/op_table.h"
#include "graph/ops/verify.h"
#include "tests/passes/passes_test_util.h"
#include "tests/passes/random_net.h"

using namespace qcg;

namespace {

// What the passes make of it; the same values.
Graph passed(const Graph& before, uint64_t seed) {
  Graph after = before;
  const auto reports = run_passes(after, {.verify_after_each = true});
  REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
  check_same_values(before, after, seed);
  return after;
}

}  // namespace

TEST_CASE("convolutions of random geometry keep their values, also of no images") {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Graph before = parse(RandomNet(seed).build());
    INFO("seed ", seed, "\n", print_graph(before));
    before.remove_dead();
    REQUIRE(verify_graph(before).ok());
    bind_random(before, seed);
    const Graph after = passed(before, seed);
    const std::vector<Tensor> none = random_inputs(before, seed, 0);
    const auto empty = evaluate_graph(after, none);
    REQUIRE_MESSAGE(empty.ok(), empty.error().to_string());
    CHECK((*empty)[0].shape[0] == 0);
  }
}

TEST_CASE("between layers nothing is permuted, and what follows one is its epilogue") {
  Graph before = parse(std::string(kResidual));
  bind_random(before, 3);
  const Graph after = passed(before, 3);
  CHECK(count_op(after, "qcg.linear") == 3);
  CHECK(count_op(after, "qcg.windows") == 2);  // the first convolution, which has three channels, and the pool
  CHECK(count_op(after, "qcg.loop") == 0);     // batch_norm, relu and the shortcut are epilogues
  // Of the input, the windows of two convolutions, and one number per channel in the end.
  CHECK_MESSAGE(count_op(after, "aten.permute.default") == 4, print_graph(after));
}

TEST_CASE("what alone reads windows that slide is their epilogue, rounded as before") {
  Graph before = parse(R"(symbol s0 in [1, 64]
param @taps: bf16[8, 1, 3, 3]
param @b: bf16[8]
graph(%x: bf16[s0, 8, 9, 7]) {
  %a = aten.conv2d.default(%x, @taps, @b, [1, 1], [1, 1], [1, 1], 8) : bf16[s0, 8, 9, 7]
  %h = aten.hardswish.default(%a) : bf16[s0, 8, 9, 7]
  %p = aten.avg_pool2d.default(%h, [3, 3], [2, 2]) : bf16[s0, 8, 4, 3]
  %r = aten.add.Tensor(%p, %p) : bf16[s0, 8, 4, 3]
  %q = aten.max_pool2d.default(%h, [2, 2]) : bf16[s0, 8, 4, 3]
  %t = aten.tanh.default(%q) : bf16[s0, 8, 4, 3]
  return %r, %t, %q
}
)");
  bind_random(before, 1);
  const Graph after = passed(before, 1);
  CHECK(count_op(after, "qcg.windows") == 3);
  CHECK_MESSAGE(count_op(after, "qcg.loop") == 1, print_graph(after));  // tanh of what is returned, too
  for (const Node& node : after.nodes)
    if (is_op(node, "qcg.windows") && *node.arg("op").get<std::string>() == "product") {
      const auto& epilogue = *node.arg("epilogue").get<std::vector<Expr>>();
      REQUIRE(epilogue.size() == 1);
      CHECK(epilogue[0].str().find("cast_bf16(") == std::string::npos);  // the bias is added in f32
      CHECK(node.arg("operands").get<std::vector<ValueId>>()->size() == 1);
    }
}

TEST_CASE("a convolution of patches and one of a kernel of size 1 are linears of their input") {
  Graph before = parse(R"(symbol s0 in [1, 64]
param @patches: f32[8, 3, 4, 4]
param @b: f32[8]
param @one: f32[6, 8, 1, 1]
graph(%x: f32[s0, 3, 16, 12]) {
  %a = aten.conv2d.default(%x, @patches, @b, [4, 4]) : f32[s0, 8, 4, 3]
  %c = aten.conv2d.default(%a, @one) : f32[s0, 6, 4, 3]
  %d = aten.flatten.using_ints(%c, 2) : f32[s0, 6, 12]
  %e = aten.transpose.int(%d, 1, 2) : f32[s0, 12, 6]
  return %e
}
)");
  bind_random(before, 1);
  const Graph after = passed(before, 1);
  CHECK(count_op(after, "qcg.linear") == 2);
  CHECK(count_op(after, "aten.constant_pad_nd.default") == 0);
}

TEST_CASE("the weight of a convolution stays quantized") {
  Graph before = parse(R"(symbol s0 in [1, 64]
param @q: i8[8, 3, 3, 3]
param @s: f32[8]
param @z: i64[8]
param @p: i8[16, 8, 2, 2]
param @t: f32[16]
graph(%x: f32[s0, 3, 6, 6]) {
  %w = quantized_decomposed.dequantize_per_channel.default(@q, @s, @z, 0, -127, 127, i8) : f32[8, 3, 3, 3]
  %a = aten.conv2d.default(%x, %w, none, [1, 1], [1, 1]) : f32[s0, 8, 6, 6]
  %v = torchao.dequantize_affine.default(@p, [1, 8, 2, 2], @t, none, i8, -128, 127, output_dtype = f32) : f32[16, 8, 2, 2]
  %c = aten.conv2d.default(%a, %v, none, [2, 2]) : f32[s0, 16, 3, 3]
  return %c
}
)");
  bind_random(before, 1);
  fill(before, "z", 0);
  const Graph after = passed(before, 1);
  CHECK_MESSAGE(count_op(after, "qcg.linear") == 2, print_graph(after));
  for (const Node& node : after.nodes)
    if (is_op(node, "qcg.linear")) CHECK(*node.arg("scheme").get<std::string>() == "w8");
}

TEST_CASE("images are resized whose sizes are known only at run time") {
  Graph before = parse(R"(symbol s0 in [1, 8]
symbol s1 in [3, 12]
graph(%x: f32[s0, 2, s1, 5], %y: f32[s0, 2, 7, s1]) {
  %a = aten.upsample_bilinear2d.vec(%x, none, false, [2.0, 2.0]) : f32[s0, 2, 2*s1, 10]
  %b = aten.upsample_bilinear2d.vec(%x, [7, s1], true, none) : f32[s0, 2, 7, s1]
  %c = aten.add.Tensor(%b, %y) : f32[s0, 2, 7, s1]
  %d = aten.upsample_nearest2d.vec(%a, [s1, 4], none) : f32[s0, 2, s1, 4]
  %e = aten.upsample_bicubic2d.vec(%x, none, false, [2.0, 1.5]) : f32[s0, 2, 2*s1, 7]
  %f = aten.upsample_bicubic2d.vec(%y, [3, s1], true, none) : f32[s0, 2, 3, s1]
  %g = aten._upsample_nearest_exact2d.vec(%x, none, [1.5, 1.0]) : f32[s0, 2, s1+floordiv(s1,2), 5]
  %h = aten.arange.start_step(0.5, s1, 0.25) : f32[4*s1-2]
  return %a, %c, %d, %e, %f, %g, %h
}
)");
  bind_random(before, 1);
  passed(before, 1);
}

TEST_CASE("windows say where their largest elements are, over axes whose sizes are known only at run time") {
  Graph before = parse(R"(symbol s0 in [1, 4]
symbol s1 in [3, 12]
graph(%x: f32[s0, 2, 2*s1, 7], %y: f32[2, s1, 9]) {
  %a, %b = aten.max_pool2d_with_indices.default(%x, [3, 2], [1, 2], [1, 1], [2, 3]) : f32[s0, 2, 2*s1-2, 3], i64[s0, 2, 2*s1-2, 3]
  %c, %d = aten.adaptive_max_pool2d.default(%x, [2, 3]) : f32[s0, 2, 2, 3], i64[s0, 2, 2, 3]
  %e, %f = aten.max_pool2d_with_indices.default(%y, [3, 3], [1, 1], [1, 1]) : f32[2, s1, 9], i64[2, s1, 9]
  %g = aten.max_unpool2d.default(%c, %d, [2*s1, 7]) : f32[s0, 2, 2*s1, 7]
  return %a, %b, %c, %d, %f, %g
}
)");
  bind_random(before, 1);
  passed(before, 1);
}

TEST_CASE("pools cut and round up axes whose sizes are known only at run time") {
  Graph before = parse(R"(symbol s0 in [1, 4]
symbol s1 in [2, 12]
graph(%x: f32[s0, 2, s1, 7], %y: f32[2, s1, 5, 2*s1]) {
  %a = aten.max_pool2d.default(%x, [3, 2], [2, 2], [0, 1], [1, 1], true) : f32[s0, 2, floordiv(s1,2), 4]
  %b = aten.avg_pool2d.default(%x, [3, 3], [2, 2], [1, 1], true, false) : f32[s0, 2, floordiv(s1,2)+1, 4]
  %c = aten.avg_pool2d.default(%x, [2, 3], [2, 1], [0, 1], true, true) : f32[s0, 2, floordiv(s1-1,2)+1, 7]
  %d = aten.avg_pool3d.default(%y, [2, 3, 2], [2, 2, 2], [0, 0, 1], true, true) : f32[2, floordiv(s1-1,2)+1, 2, s1+1]
  %e = aten.adaptive_avg_pool2d.default(%x, [3, 5]) : f32[s0, 2, 3, 5]
  %f, %g = aten.adaptive_max_pool2d.default(%x, [5, 3]) : f32[s0, 2, 5, 3], i64[s0, 2, 5, 3]
  %h, %i = aten.max_pool2d_with_indices.default(%x, [3, 2], [2, 2], [1, 0], [1, 1], true) : f32[s0, 2, floordiv(s1,2)+1, 4], i64[s0, 2, floordiv(s1,2)+1, 4]
  return %a, %b, %c, %d, %e, %f, %g, %h, %i
}
)");
  bind_random(before, 1);
  passed(before, 1);
}

TEST_CASE("layers that have no kernel are refused, with what to do") {
  const auto refusal = [](const std::string& signature, const std::string& call, const std::string& type) {
    const std::string results = type.find("], ") < type.size() ? "%y, %at" : "%y";
    Graph graph = parse(fmt::format("symbol s0 in [1, 64]\n{}  {} = {} : {}\n  return {}\n}}\n", signature, results,
                                    call, type, results));
    const Status verified = verify_graph(graph);
    if (!verified.ok()) return verified.error().to_string();
    bind_random(graph, 1);
    const auto reports = run_passes(graph);
    REQUIRE(!reports.ok());
    CHECK(reports.error().code == ErrorCode::Unsupported);
    return reports.error().to_string();
  };
  const std::string image = "graph(%x: f32[2, 4, 8, 8], %w: f32[4, 4, 3, 3]) {\n";
  const std::string transposed = refusal(
      image, "aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [1, 0], 1)", "f32[2, 4, 11, 10]");
  CHECK_MESSAGE(transposed.find("1 is not less than stride or dilation") < transposed.size(), transposed);
  const std::string crop =
      refusal(image, "aten.conv_transpose2d.input(%x, %w, none, [1, 1], [5, 5])", "f32[2, 4, 0, 0]");
  CHECK_MESSAGE(crop.find("5 of an axis of 8 may leave nothing") < crop.size(), crop);
  const std::string between =
      refusal("graph(%x: f32[2, 4, s0, 8]) {\n", "aten._upsample_bicubic2d_aa.vec(%x, none, false, [2.0, 2.0])",
              "f32[2, 4, 2*s0, 16]");
  CHECK_MESSAGE(between.find("a size known only at run time") < between.size(), between);
  const std::string two = "graph(%x: f32[3, 4], %w: f32[4, 3]) {\n";
  for (const auto& [equation, reason] :
       {std::pair{"ij,ji->ii", "an axis of the result twice"}, std::pair{"ii,ij->j", "with one label"},
        std::pair{"ij,ik->jk", "with one label"}, std::pair{"ij,jk->il", "no tensor has the label 'l'"},
        std::pair{"ij->ij", "for 2 tensors"}, std::pair{"ij,jk,k->i", "for 2 tensors"},
        std::pair{"i,jk->k", "has labels for 1 axes"}, std::pair{"i2,jk->k", "is no label"}}) {
    const std::string text = refusal(two, fmt::format("aten.einsum.default(\"{}\", [%x, %w])", equation), "f32[3, 3]");
    CHECK_MESSAGE(text.find(reason) < text.size(), text);
  }
  const std::string far = refusal("graph(%x: f32[s0, 3]) {\n", "aten.roll.default(%x, [2], [0])", "f32[s0, 3]");
  CHECK_MESSAGE(far.find("a shift of 2, which may be more than the axis of s0") < far.size(), far);
  const std::string indices = refusal("graph(%x: f32[2, 4, 8, 8], %i: i64[2, 4, 8, 4]) {\n",
                                      "aten.max_unpool2d.default(%x, %i, [16, 16])", "f32[2, 4, 16, 16]");
  CHECK_MESSAGE(indices.find("i64[2, 4, 8, 4] is no position for each of f32[2, 4, 8, 8]") < indices.size(), indices);
  const std::string up =
      refusal("graph(%x: f32[2, 4, s0, 8]) {\n", "aten.max_pool2d.default(%x, [1, 1], [2, 2], [0, 0], [1, 1], true)",
              "f32[2, 4, s0, 4]");
  CHECK_MESSAGE(up.find("begins in the axis depends on s0, a size known only at run time") < up.size(), up);
  const std::string large =
      refusal("graph(%x: f32[2, 4, 2, 8], %w: f32[4, 4, 3, 3]) {\n", "aten.conv2d.default(%x, %w)", "f32[2, 4, 0, 6]");
  CHECK_MESSAGE(large.find("a window of 3 may be larger") < large.size(), large);
  const std::string steps =
      refusal("graph(%x: f32[2, s0, 3], %h: f32[1, 2, 4], %v: f32[12, 3], %w: f32[12, 4]) {\n",
              "aten.gru.input(%x, %h, [%v, %w], false, 1, 0.0, false, false, true)", "f32[2, s0, 4], f32[1, 2, 4]");
  CHECK_MESSAGE(steps.find("s0 steps, a number known only at run time") < steps.size(), steps);
}

TEST_CASE("a convolution over a length known only at run time keeps its values at every length") {
  Graph before = parse(R"(symbol s0 in [4, 64]
param @w: f32[6, 3, 3]
param @d: f32[6, 1, 5]
graph(%x: f32[2, 3, 2*s0], %z: f32[2, 6, s0]) {
  %a = aten.conv1d.default(%x, @w, none, [2], [1]) : f32[2, 6, s0]
  %b = aten.add.Tensor(%a, %z) : f32[2, 6, s0]
  %c = aten.conv1d.default(%b, @d, none, [1], [2], [1], 6) : f32[2, 6, s0]
  return %c
}
)");
  bind_random(before, 1);
  const Graph after = passed(before, 1);
  for (int64_t size : {4, 5, 17}) {
    const std::vector<Tensor> inputs = random_inputs(before, 2, size);
    CHECK((*evaluate_graph(after, inputs))[0].shape == (*evaluate_graph(before, inputs))[0].shape);
  }
  Graph odd = parse(R"(symbol s0 in [3, 64]
param @w: f32[6, 3, 3]
graph(%x: f32[2, 3, s0]) {
  %a = aten.conv1d.default(%x, @w, none, [2], [1]) : f32[2, 6, floordiv(s0-1,2)+1]
  %b = aten.max_pool1d.default(%a, [2], [2]) : f32[2, 6, floordiv(floordiv(s0-1,2)-1,2)+1]
  return %b
}
)");
  bind_random(odd, 1);
  const Graph lowered = passed(odd, 1);
  for (int64_t size : {4, 7, 64}) {
    const std::vector<Tensor> inputs = random_inputs(odd, 2, size);
    CHECK((*evaluate_graph(lowered, inputs))[0].shape == std::vector<int64_t>{2, 6, ((size - 1) / 2 - 1) / 2 + 1});
  }
}

TEST_CASE("patches of an image whose size has a range have as many places at each size of the range") {
  Graph before = parse(R"(symbol s0 in [8, 11]
param @w: f32[6, 3, 4, 4]
graph(%x: f32[2, 3, s0, s0]) {
  %a = aten.conv2d.default(%x, @w, none, [4, 4]) : f32[2, 6, 2, 2]
  return %a
}
)");
  bind_random(before, 1);
  const Graph after = passed(before, 1);
  for (int64_t size = 8; size <= 11; ++size) {
    const std::vector<Tensor> inputs = random_inputs(before, 2, size);
    CHECK((*evaluate_graph(after, inputs))[0].shape == std::vector<int64_t>{2, 6, 2, 2});
  }
}
