// Weights that are codes with scales, where the bytes matter: 4-bit floats from native JSON's op, zero points that are
// not whole, one weight used twice.
#include "graph/ir/elements.h"
#include "tests/passes/passes_test_util.h"

using namespace qcg;

namespace {

Tensor numbers(DType dtype, std::vector<int64_t> shape, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) double_to_element(dtype, values[i], bytes.data() + i * dtype_bytes(dtype));
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

// Through recognize_linear: the same values, this scheme, and the report.
PassReport recognized(Graph graph, const std::string& scheme) {
  Graph after = graph;
  auto report = run_pass("recognize_linear", after);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  const std::string text = print_graph(after);
  CHECK_MESSAGE(text.find("scheme = \"" + scheme + "\"") != std::string::npos, text);
  check_same_values(graph, after, 5);
  return *report;
}

std::string four_bit(const std::string& format, const std::string& scales, const std::string& more) {
  return "param @p: u8[24, 32]\nparam @s: " + scales +
         "\nparam @g: f32[1]\ngraph(%x: f32[3, 64]) {\n  %w = qcg.dequantize_4bit(@p, @s, format = \"" + format +
         "\", shape = [24, 64]" + more +
         ") : f32[24, 64]\n  %y = aten.linear.default(%x, %w) : f32[3, 24]\n  return %y\n}\n";
}

}  // namespace

TEST_CASE("4-bit floats become f4 and nf4") {
  const std::tuple<std::string, std::string, std::string, std::string> cases[] = {
      {"mxfp4", "u8[24, 2]", "", "f4"},
      {"mxfp4", "f8e8m0[24, 2]", ", first_nibble = \"high\"", "f4"},
      {"nvfp4", "f8e4m3[24, 4]", ", global_scale = @g", "f4"},
      {"nf4", "f32[24]", "", "nf4"},
      {"nf4", "f32[48]", ", group = 32, first_nibble = \"low\"", "nf4"}};
  for (const auto& [format, scales, more, scheme] : cases) {
    INFO(format, more);
    Graph graph = parse(four_bit(format, scales, more));
    bind_random(graph, 3);
    recognized(std::move(graph), scheme);
  }
}

TEST_CASE("mxfp4 and nvfp4 under a dynamically quantized activation are da8f4") {
  const std::pair<std::string, std::string> formats[] = {
      {"u8[24, 2]", "format = \"mxfp4\", shape = [24, 64]"},
      {"f8e4m3[24, 4]", "format = \"nvfp4\", shape = [24, 64], global_scale = @g"}};
  for (const auto& [scales, arguments] : formats) {
    Graph graph = parse(
        "param @p: u8[24, 32]\nparam @s: " + scales +
        "\nparam @g: f32[1]\nparam @b: f32[24]\ngraph(%x: f32[3, 64]) {\n"
        "  %s0, %z0 = torchao.choose_qparams_affine.default(%x, mapping_type = \"ASYMMETRIC\", block_size = [1, 64], "
        "target_dtype = i8, "
        "scale_dtype = f32, zero_point_dtype = i8, keepdim = true) : f32[3, 1], i8[3, 1]\n"
        "  %q = torchao.quantize_affine.default(%x, block_size = [1, 64], scale = %s0, zero_point = %z0, output_dtype "
        "= i8) : i8[3, 64]\n"
        "  %d = torchao.dequantize_affine.default(%q, block_size = [1, 64], scale = %s0, zero_point = %z0, input_dtype "
        "= i8) : f32[3, 64]\n"
        "  %w = qcg.dequantize_4bit(@p, @s, " +
        arguments + ") : f32[24, 64]\n  %y = aten.linear.default(%d, %w, @b) : f32[3, 24]\n  return %y\n}\n");
    bind_random(graph, 3);
    INFO(arguments);
    recognized(std::move(graph), "da8f4");
  }
}

TEST_CASE(
    "the global scale of nvfp4 multiplies sums: scales stay numbers of e4m3, siblings merge, biases are added behind "
    "it") {
  Graph graph = parse(
      "param @p: u8[24, 32]\nparam @s: f8e4m3[24, 4]\nparam @g: f32[1]\nparam @h: f32[]\nparam @b: f32[24]\n"
      "graph(%x: f32[3, 64]) {\n"
      "  %v = qcg.dequantize_4bit(@p, @s, format = \"nvfp4\", shape = [24, 64], global_scale = @g) : f32[24, 64]\n"
      "  %w = qcg.dequantize_4bit(@p, @s, format = \"nvfp4\", shape = [24, 64], global_scale = @h) : f32[24, 64]\n"
      "  %y = aten.linear.default(%x, %v, @b) : f32[3, 24]\n  %z = aten.linear.default(%x, %w) : f32[3, 24]\n"
      "  return %y, %z\n}\n");
  bind_random(graph, 3);
  parameter(graph, "g").data = numbers(DType::f32, {1}, {0.0123});
  parameter(graph, "h").data = numbers(DType::f32, {}, {3.21});
  Graph after = graph;
  for (const char* pass : {"recognize_linear", "merge_sibling_linears"}) REQUIRE(run_pass(pass, after).ok());
  check_same_values(graph, after, 5);
  int linears = 0;
  for (const Node& node : after.nodes) {
    if (node.op->name != "qcg.linear") continue;
    ++linears;
    for (ValueId id : *node.arg("scales").get<std::vector<ValueId>>()) {
      const auto scales = read_elements<double>(after.value(id).data);
      REQUIRE(scales);
      for (double v : *scales) CHECK(round_to_dtype(DType::f8e4m3, v) == v);
    }
  }
  CHECK(linears == 1);
}

TEST_CASE("codes of a weight dequantized by hand under a dynamically quantized activation: as wide as they are") {
  for (const auto& [dtype, high, scheme] : {std::tuple{DType::i8, 15, "da8w4"},
                                            {DType::i8, 16, "da8w8"},
                                            {DType::u8, 15, "da8w4"},
                                            {DType::u8, 255, "da8w8"}}) {
    Graph graph = parse(
        "param @w: " + std::string(dtype_name(dtype)) +
        "[24, 4, 16]\nparam @s: f32[24, 4, 1]\nparam @z: f32[24, 4, 1]\ngraph(%x: f32[3, 64]) {\n"
        "  %s0, %z0 = torchao.choose_qparams_affine.default(%x, mapping_type = \"ASYMMETRIC\", block_size = [1, 64], "
        "target_dtype = i8, "
        "scale_dtype = f32, zero_point_dtype = i8, keepdim = true) : f32[3, 1], i8[3, 1]\n"
        "  %q = torchao.quantize_affine.default(%x, block_size = [1, 64], scale = %s0, zero_point = %z0, output_dtype "
        "= i8) : i8[3, 64]\n"
        "  %d = torchao.dequantize_affine.default(%q, block_size = [1, 64], scale = %s0, zero_point = %z0, input_dtype "
        "= i8) : f32[3, 64]\n"
        "  %c = aten.to.dtype(@w, dtype = f32) : f32[24, 4, 16]\n  %e = aten.sub.Tensor(%c, @z) : f32[24, 4, 16]\n"
        "  %m = aten.mul.Tensor(@s, %e) : f32[24, 4, 16]\n  %v = aten.reshape.default(%m, shape = [24, 64]) : f32[24, "
        "64]\n"
        "  %y = aten.linear.default(%d, %v) : f32[3, 24]\n  return %y\n}\n");
    std::vector<double> codes, scales, zeros;
    for (int i = 0; i < 24 * 64; ++i) codes.push_back(i * 7 % (high + 1));
    for (int i = 0; i < 24 * 4; ++i) scales.push_back(0.01 * (i % 5 + 1)), zeros.push_back(i % 16);
    parameter(graph, "w").data = numbers(dtype, {24, 4, 16}, codes);
    parameter(graph, "s").data = numbers(DType::f32, {24, 4, 1}, scales);
    parameter(graph, "z").data = numbers(DType::f32, {24, 4, 1}, zeros);
    INFO(scheme, " ", high);
    const PassReport report = recognized(std::move(graph), scheme);
    CHECK(mentions(report, "no range is declared") == (high == 15));
  }
}

TEST_CASE("zero points that are not whole are offsets of int4 and int8, of float activations only") {
  auto graph_of = [](const std::string& op, const std::string& weight, const std::string& x) {
    return parse("param @w: " + weight + "\nparam @ws: f32[24]\nparam @wo: f32[1]\ngraph(%x: " + x +
                 "[3, 16]) {\n  %y = tensor_cast." + op +
                 ".default(%x, @w, @ws, @wo, out_dtype = f32) : f32[3, 24]\n  return %y\n}\n");
  };
  Graph int4 = graph_of("static_quant_linear_int4", "u8[8, 24]", "f32"),
        int8 = graph_of("static_quant_linear", "i8[16, 24]", "f32");
  for (Graph* graph : {&int4, &int8}) {
    bind_random(*graph, 3);
    parameter(*graph, "wo").data = numbers(DType::f32, {1}, {1.625});
  }
  recognized(std::move(int4), "w4");
  recognized(int8, "w8");
  Graph bytes = parse(
      "param @w: i8[16, 24]\nparam @ws: f32[24]\nparam @wo: f32[1]\nparam @xs: f32[]\ngraph(%x: i8[3, 16]) {\n"
      "  %y = tensor_cast.static_quant_linear.default(%x, @w, @ws, @wo, @xs, out_dtype = f32) : f32[3, 24]\n"
      "  return %y\n}\n");
  bind_random(bytes, 3);
  parameter(bytes, "wo").data = numbers(DType::f32, {1}, {1.625});
  auto report = run_pass("recognize_linear", bytes);
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  CHECK(mentions(*report, "the zero points of the weight are not integers"));
  CHECK(print_graph(bytes).find("qcg.linear") == std::string::npos);
}

TEST_CASE("one packed weight used twice is unpacked once") {
  Graph graph = parse(
      "param @w: u8[8, 24]\nparam @ws: f32[24]\nparam @xs: f32[]\ngraph(%x: i8[3, 16], %z: i8[5, 16]) {\n"
      "  %a = tensor_cast.static_quant_linear_int4.default(%x, @w, @ws, x_scale = @xs, out_dtype = f32) : f32[3, 24]\n"
      "  %b = tensor_cast.static_quant_linear_int4.default(%z, @w, @ws, x_scale = @xs, out_dtype = f32) : f32[5, 24]\n "
      " return %a, %b\n}\n");
  bind_random(graph, 3);
  REQUIRE(run_pass("recognize_linear", graph).ok());
  std::set<ValueId> weights;
  for (const Node& node : graph.nodes)
    if (node.op->name == "qcg.linear") weights.insert(node.arg("weights").get<std::vector<ValueId>>()->front());
  CHECK(weights.size() == 1);
}
