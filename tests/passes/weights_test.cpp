// What recognition makes of the numbers of a weight: cases a golden cannot hold because they need bytes.
#include "tests/passes/passes_test_util.h"

using namespace qcg;

TEST_CASE("a zero point of zeros is dropped, another one is kept") {
  const char* text = R"(symbol s0 in [1, 8]
param @w: i8[8, 16]
param @s: f32[8, 2]
param @z: i8[8, 2]
graph(%x: f32[s0, 16]) {
  %d = torchao.dequantize_affine.default(@w, block_size = [1, 8], scale = @s, zero_point = @z, input_dtype = i8, quant_min = -8, quant_max = 7) : f32[8, 16]
  %y = aten.linear.default(%x, %d) : f32[s0, 8]
  return %y
}
)";
  for (double zero : {0.0, 3.0}) {
    Graph graph = parse(text);
    fill(graph, "z", zero);
    REQUIRE(run_pass("recognize_linear", graph).ok());
    REQUIRE(graph.nodes.size() == 1);
    CHECK(((*graph.nodes[0].arg("zeros").get<std::vector<ValueId>>())[0] == kNoValue) == (zero == 0));
  }
}

TEST_CASE("codes and zero points are taken for what they are, not for what the range promises") {
  auto recognized = [](const char* dtype, double code, double zero) {
    Graph graph = parse(std::string("param @w: ") + dtype +
                        "[4, 32]\nparam @s: f32[4, 2]\nparam @z: f32[4, 2]\ngraph(%x: f32[3, 32]) {\n"
                        "  %d = torchao.dequantize_affine.default(@w, block_size = [1, 16], scale = @s, zero_point = "
                        "@z, input_dtype = " +
                        dtype + ", quant_min = " + (dtype[0] == 'u' ? "0, quant_max = 15" : "-8, quant_max = 7") +
                        ") : f32[4, 32]\n"
                        "  %y = aten.linear.default(%x, %d) : f32[3, 4]\n  return %y\n}\n");
    fill(graph, "w", code);
    fill(graph, "s", 0.5);
    fill(graph, "z", zero);
    const Graph before = graph;
    REQUIRE(run_pass("recognize_linear", graph).ok());
    check_same_values(before, graph, 3);
    return print_graph(graph);
  };
  auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(has(recognized("i8", 7, 0), "\"w4\""));
  CHECK(has(recognized("i8", 8, 0), "\"w8\""));
  CHECK(has(recognized("u8", 15, 3), "\"w4\""));
  CHECK(has(recognized("u8", 16, 3), "\"w8\""));
  CHECK(has(recognized("u8", 200, 3), "\"w8\""));
  CHECK(has(recognized("i8", 5, 2), "zeros"));
  CHECK_FALSE(has(recognized("u8", 5, 8), "zeros"));  // codes - 8 have none
  CHECK(has(recognized("u8", 5, 7.5), "offsets"));
  CHECK(has(recognized("u8", 16, 7.5), "offsets"));
  CHECK(has(recognized("u8", 16, -2), "offsets"));  // -130 of codes - 128: no int8
}

TEST_CASE("a weight dequantized by hand is seen through zero points, offsets and groups in any order") {
  struct Case {
    const char *params, *body;  // %v [4, 32] is the weight
    double code;
    const char* expected;  // in the printed graph; empty: not recognized as a quantized weight
  };
  const std::string head = "  %c = aten.to.dtype(@w, dtype = f32) : f32[4, 2, 16]\n",
                    tail = "  %v = aten.reshape.default(%b, shape = [4, 32]) : f32[4, 32]\n";
  const char* const scaled = "  %a = aten.mul.Tensor(%c, @s) : f32[4, 2, 16]\n";
  const auto body = [&](const char* lines) { return head + lines + tail; };
  const std::string shifted =
      "  %i = aten.sub.Tensor(@w, 8) : i32[4, 2, 16]\n  %c = aten.to.dtype(%i, dtype = f32) : f32[4, 2, 16]\n" +
      std::string(scaled) + "  %b = aten.add.Tensor(%a, @z) : f32[4, 2, 16]\n" + tail;
  const std::string own_zero =
      body("  %d = aten.sub.Tensor(%c, @z) : f32[4, 2, 16]\n  %b = aten.mul.Tensor(@s, %d) : f32[4, 2, 16]\n");
  const std::string minus = body(
      "  %d = aten.add.Tensor(%c, 3) : f32[4, 2, 16]\n  %a = aten.mul.Tensor(%d, @s) : f32[4, 2, 16]\n  %b = "
      "aten.sub.Tensor(%a, 0.25) : f32[4, 2, 16]\n");
  const std::string twice =
      body("  %d = aten.mul.Tensor(%c, @s) : f32[4, 2, 16]\n  %b = aten.mul.Tensor(%d, @s) : f32[4, 2, 16]\n");
  const std::string divided =
      body("  %d = aten.mul.Tensor(@s, %c) : f32[4, 2, 16]\n  %b = aten.div.Tensor(%d, @z) : f32[4, 2, 16]\n");
  const std::string by_zero =
      body("  %d = aten.mul.Tensor(@s, %c) : f32[4, 2, 16]\n  %b = aten.div.Tensor(%d, 0) : f32[4, 2, 16]\n");
  const std::string by_codes = body("  %b = aten.div.Tensor(@s, %c) : f32[4, 2, 16]\n");
  const std::string along_k = body("  %b = aten.mul.Tensor(%c, @k) : f32[4, 2, 16]\n");
  const std::string wraps =
      "  %i = aten.sub.Tensor(@w, 8) : u8[4, 2, 16]\n  %c = aten.to.dtype(%i, dtype = f32) : f32[4, 2, 16]\n"
      "  %b = aten.mul.Tensor(%c, @s) : f32[4, 2, 16]\n" +
      tail;
  const std::string truncated = body(
      "  %d = aten.mul.Tensor(%c, @s) : f32[4, 2, 16]\n  %i = aten.to.dtype(%d, dtype = i8) : i8[4, 2, 16]\n"
      "  %b = aten.to.dtype(%i, dtype = f32) : f32[4, 2, 16]\n");
  const Case cases[] = {
      {"i32", shifted.c_str(), 13, "offsets = [@z.view], scheme = \"w4\", group = 16"},
      {"i32", shifted.c_str(), 99, "offsets = [@z.view], scheme = \"w8\", group = 16"},
      {"i32", shifted.c_str(), 300, ""},
      {"u8", own_zero.c_str(), 2, "group = 16"},
      {"u8", own_zero.c_str(), 200, "scheme = \"w8\", group = 16"},
      {"i8", minus.c_str(), -4, "offsets"},
      {"i8", twice.c_str(), 1, "group = 16"},
      {"i8", along_k.c_str(), 1, ""},
      {"i8", divided.c_str(), 1, "group = 16"},
      {"i8", by_zero.c_str(), 1, ""},
      {"i8", by_codes.c_str(), 1, ""},
      {"u8", wraps.c_str(), 3, ""},
      {"u8", wraps.c_str(), 30, "zeros"},  // no code does
      {"i8", truncated.c_str(), 1, ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.body);
    CAPTURE(c.code);
    Graph graph = parse("param @w: " + std::string(c.params) +
                        "[4, 2, 16]\nparam @s: f32[4, 2, 1]\nparam @z: f32[4, 2, 1]\nparam @k: f32[16]\n"
                        "graph(%x: f32[3, 32]) {\n" +
                        c.body + "  %y = aten.linear.default(%x, %v) : f32[3, 4]\n  return %y\n}\n");
    fill(graph, "w", c.code);
    fill(graph, "s", 0.5);
    fill(graph, "z", 3);
    fill(graph, "k", 2);
    const Graph before = graph;
    REQUIRE(run_pass("recognize_linear", graph).ok());
    const std::string text = print_graph(graph);
    CAPTURE(text);
    CHECK((text.find("scheme = \"w") != std::string::npos) == (c.expected[0] != 0));
    CHECK(text.find(c.expected) != std::string::npos);
    check_same_values(before, graph, 3);
  }
}

TEST_CASE("scales that were repeated along K are groups, in either order of the product") {
  const std::string head =
      "param @w: i8[4, 32]\nparam @s: f32[4, GROUPS]\nparam @z: i8[4, GROUPS]\ngraph(%x: f32[3, 32]) {\n"
      "  %c = aten.to.dtype(@w, dtype = f32) : f32[4, 32]\n  %zf = aten.to.dtype(@z, dtype = f32) : f32[4, GROUPS]\n"
      "  %sr = aten.repeat_interleave.self_int(@s, repeats = TIMES, dim = 1) : f32[4, 32]\n"
      "  %zr = aten.repeat_interleave.self_int(%zf, repeats = TIMES, dim = -1) : f32[4, 32]\n"
      "  %d = aten.sub.Tensor(%c, %zr) : f32[4, 32]\n";
  const std::string tail = "  %y = aten.linear.default(%x, %v) : f32[3, 4]\n  return %y\n}\n";
  auto with = [](std::string text, const std::string& what, const std::string& by) {
    for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), by);
    return text;
  };
  for (const char* product :
       {"  %v = aten.mul.Tensor(%d, %sr) : f32[4, 32]\n", "  %v = aten.mul.Tensor(%sr, %d) : f32[4, 32]\n"})
    for (const auto& [code, times, expected] : {std::tuple{-8.0, "16", "scheme = \"w4\", group = 16"},
                                                {15.0, "16", "scheme = \"w4\", group = 16"},
                                                {16.0, "16", "scheme = \"w8\", group = 16"},
                                                {7.0, "32", "scheme = \"w4\", epilogue"}}) {
      Graph graph =
          parse(with(with(head, "GROUPS", std::string(times) == "16" ? "2" : "1"), "TIMES", times) + product + tail);
      CAPTURE(code);
      fill(graph, "w", code);
      fill(graph, "s", 0.5);
      fill(graph, "z", 3);
      const Graph before = graph;
      REQUIRE(run_pass("fold_noops", graph).ok());
      const auto report = run_pass("recognize_linear", graph);
      REQUIRE(report.ok());
      const std::string text = print_graph(graph);
      CHECK_MESSAGE(text.find(expected) != std::string::npos, text);
      CHECK(mentions(*report, "no range is declared") == (code < 16));
      check_same_values(before, graph, 3);
    }
}

TEST_CASE("a packed weight that cannot be read is an error that says why") {
  const std::string da8w4 =
      "param @s: f32[1, 1, 32]\nparam @z: i8[1, 1, 32]\nparam @c: i32[1, 1, 32]\ngraph(%q: u8[3, 32], %qs: f32[3], "
      "%qz: i32[3]ARG) {\n"
      "  %y = torchao.da8w4_linear_cpu.default(%q, %qs, %qz, WEIGHT, @s, @z, @c, none, output_dtype = f32) : f32[3, "
      "32]\n  return %y\n}\n";
  auto message = [](Graph graph) {
    const auto reports = run_passes(graph);
    REQUIRE(!reports.ok());
    CHECK(reports.error().code == ErrorCode::Unsupported);
    return reports.error().message;
  };
  auto with = [](std::string text, const std::string& arg, const std::string& weight) {
    text.replace(text.find("ARG"), 3, arg);
    return text.replace(text.find("WEIGHT"), 6, weight);
  };
  Graph graph = parse("param @w: u8[1, 1, 32, 16]\n" + with(da8w4, "", "@w"));
  bind_random(graph, 1);
  Graph fits = graph;
  CHECK(run_passes(fits).ok());
  fill(graph, "c", 1);
  CHECK(message(graph).find("compensation") != std::string::npos);
  CHECK(message(parse(with(da8w4, ", %w: u8[1, 1, 32, 16]", "%w"))).find("run time") != std::string::npos);
  CHECK(message(parse("param @sz: bf16[1, 32, 2]\ngraph(%x: bf16[3, 32], %w: u8[32, 16]) {\n"
                      "  %y = aten._weight_int4pack_mm_for_cpu.default(%x, %w, qGroupSize = 32, qScaleAndZeros = @sz) "
                      ": bf16[3, 32]\n"
                      "  return %y\n}\n"))
            .find("run time") != std::string::npos);
}

TEST_CASE("a quantized product whose weight no scheme takes multiplies by the evaluated weight") {
  Graph before = parse(R"(param @w: i8[16, 24]
param @s: f32[24]
param @z: f32[24]
graph(%x: f32[4, 16]) {
  %y = tensor_cast.static_quant_linear.default(%x, @w, @s, @z, none, none, none, out_dtype = none) : f32[4, 24]
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

TEST_CASE("codes of two bytes have the range of two bytes, without limits of their own") {
  Graph before = parse(R"(param @s: f32[4, 1]
graph(%x: f32[4, 8]) {
  %large = aten.mul.Scalar(%x, 1000) : f32[4, 8]
  %q = torchao.quantize_affine.default(%large, block_size = [1, 8], scale = @s, zero_point = none, output_dtype = i16) : i16[4, 8]
  %y = aten.to.dtype(%q, dtype = f32) : f32[4, 8]
  return %y
}
)");
  bind_random(before, 1);
  Graph after = before;
  REQUIRE(run_passes(after).ok());
  check_same_values(before, after, 2);
}

TEST_CASE("the scale of integer rows is f32, however it is stored") {
  Graph before = parse(R"(param @w: i8[16, 24]
param @s: f32[24]
param @sx: bf16[]
graph(%x: i8[4, 16], %sy: bf16[4, 1]) {
  %y = tensor_cast.static_quant_linear.default(%x, @w, @s, none, @sx, none, none, out_dtype = bf16) : bf16[4, 24]
  %z = tensor_cast.static_quant_linear.default(%x, @w, @s, none, %sy, none, none, out_dtype = bf16) : bf16[4, 24]
  return %y, %z
}
)");
  bind_random(before, 1);
  Graph after = before;
  REQUIRE(run_passes(after).ok());
  for (const Node& node : after.nodes)
    if (node.op->name == "qcg.linear") CHECK(after.value(node.tensor("x_scale")).dtype == DType::f32);
  check_same_values(before, after, 2);
}

TEST_CASE("tied weights are found by their bytes") {
  Graph graph = parse(R"(symbol s0 in [1, 8]
param @a: f32[8, 16]
param @b: f32[8, 16]
graph(%x: f32[s0, 16]) {
  %y = aten.linear.default(%x, @a) : f32[s0, 8]
  %z = aten.linear.default(%x, @b) : f32[s0, 8]
  %r = aten.relu.default(%z) : f32[s0, 8]
  return %y, %r
}
)");
  fill(graph, "a", 0.5);
  Tensor shared;
  for (Value& v : graph.values)
    if (v.name == "a") shared = v.data;
  for (Value& v : graph.values)
    if (v.name == "b") v.data = shared;
  Graph after = graph;
  REQUIRE(run_passes(after).ok());
  REQUIRE(after.nodes.size() == 1);
  CHECK(after.nodes[0].arg("weights").get<std::vector<ValueId>>()->size() == 1);
  check_same_values(graph, after, 9);
}
