// Products of rows sorted by group: which matrices become those of qcg.grouped_linear, with the same values.
#include "graph/ir/elements.h"
#include "tests/passes/passes_test_util.h"

using namespace qcg;

namespace {

// Of 3 matrices [24, 32], groups of rows that end at 2, 2 and 6, and a 7th row of none. `weight`: what makes %w.
std::string grouped_text(const std::string& params, const std::string& weight, const std::string& op = "") {
  const std::string call = op.empty() ? "aten._grouped_mm.default(%x, %w, offs = @ends)" : op;
  return "param @ends: i32[3]\n" + params + "graph(%x: f32[7, 32]) {\n" + weight + "  %y = " + call +
         " : f32[7, 24]\n  return %y\n}\n";
}

// Through group_linears: the same values, and the report.
PassReport grouped(const std::string& text, const std::string& scheme) {
  Graph graph = parse(text);
  bind_random(graph, 3);
  const int32_t ends[] = {2, 2, 6};
  const auto* first = reinterpret_cast<const std::byte*>(ends);
  parameter(graph, "ends").data = Tensor::from_bytes(DType::i32, {3}, {first, first + sizeof(ends)});
  Graph after = graph;
  auto report = run_pass("group_linears", after, {.verify_after_each = true});
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  const std::string printed = print_graph(after);
  CHECK_MESSAGE(count_op(after, "qcg.grouped_linear") == !scheme.empty(), printed);
  const bool named = printed.find("scheme = \"" + scheme + "\"") != std::string::npos;
  CHECK_MESSAGE((named || scheme.empty() || scheme == "dense"), printed);
  check_same_values(graph, after, 5);
  return *report;
}

const std::string kToMatrices =
    "  %r = aten.reshape.default(%t, shape = [3, 24, 32]) : f32[3, 24, 32]\n"
    "  %w = aten.permute.default(%r, dims = [0, 2, 1]) : f32[3, 32, 24]\n";

}  // namespace

TEST_CASE("matrices of groups are packed as they lie, and transposed") {
  const std::string alias = "aten._grouped_mm.default(%x, @m, offs = @ends)";
  grouped(grouped_text("param @m: f32[3, 32, 24]\n", "", alias), "dense");
  grouped(
      grouped_text("param @m: f32[3, 32, 24]\n", "", "transformers.grouped_mm_fallback.default(%x, @m, offs = @ends)"),
      "dense");
  grouped(grouped_text("param @m: f32[3, 24, 32]\n",
                       "  %w = aten.permute.default(@m, dims = [0, 2, 1]) : f32[3, 32, 24]\n"),
          "dense");
}

TEST_CASE("quantized matrices of groups keep their scheme") {
  grouped(grouped_text(
              "param @p: u8[72, 16]\nparam @s: u8[72, 1]\n",
              "  %t = qcg.dequantize_4bit(@p, @s, format = \"mxfp4\", shape = [72, 32]) : f32[72, 32]\n" + kToMatrices),
          "f4");
  grouped(
      grouped_text("param @c: i8[72, 32]\nparam @s: f32[72, 2]\nparam @z: f32[72, 2]\n",
                   "  %t = torchao.dequantize_affine.default(@c, block_size = [1, 16], scale = @s, zero_point = @z, "
                   "input_dtype = i8, quant_min = -128, quant_max = 127, output_dtype = f32) : f32[72, 32]\n" +
                       kToMatrices),
      "w8");
  grouped(grouped_text("param @c: i8[3, 24, 32]\nparam @s: f32[3, 24, 1]\n",
                       "  %f = aten.to.dtype(@c, dtype = f32) : f32[3, 24, 32]\n"
                       "  %t = aten.mul.Tensor(%f, @s) : f32[3, 24, 32]\n"
                       "  %w = aten.permute.default(%t, dims = [0, 2, 1]) : f32[3, 32, 24]\n"),
          "w8");
  grouped(grouped_text("param @c: f8e4m3[3, 32, 24]\nparam @s: f32[3, 1, 24]\n",
                       "  %f = aten.to.dtype(@c, dtype = f32) : f32[3, 32, 24]\n"
                       "  %w = aten.mul.Tensor(%f, @s) : f32[3, 32, 24]\n"),
          "f8");
}

TEST_CASE("what is no linear of groups says why") {
  CHECK(mentions(grouped(grouped_text("",
                                      "  %r = aten.mul.Tensor(%x, 2) : f32[7, 32]\n"
                                      "  %c = aten.slice.Tensor(%r, dim = 0, start = 0, end = 3) : f32[3, 32]\n"
                                      "  %e = aten.reshape.default(%c, shape = [3, 32, 1]) : f32[3, 32, 1]\n"
                                      "  %w = aten.expand.default(%e, size = [3, 32, 24]) : f32[3, 32, 24]\n"),
                         ""),
                 "run time"));
  CHECK(mentions(grouped(grouped_text("param @p: u8[72, 16]\nparam @s: f8e4m3[72, 2]\nparam @g: f32[1]\n",
                                      "  %t = qcg.dequantize_4bit(@p, @s, format = \"nvfp4\", shape = [72, 32], "
                                      "global_scale = @g) : f32[72, 32]\n" +
                                          kToMatrices),
                         ""),
                 "a scale of all groups"));
}
