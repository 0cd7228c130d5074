// What torch's CPU cannot compute: block-wise _scaled_mm, 4-bit floats; and what must be refused. Numbers by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "graph/ops/four_bit.h"
#include "graph/ops/verify.h"
#include "graph/oracle/reference.h"
#include "graph/read/text.h"

using namespace qcg;

namespace {

Tensor numbers(DType dtype, std::vector<int64_t> shape, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) double_to_element(dtype, values[i], bytes.data() + i * dtype_bytes(dtype));
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

std::vector<double> evaluate(const std::string& text, const std::vector<Tensor>& inputs) {
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  auto out = evaluate_graph(*graph, inputs, {true});
  REQUIRE_MESSAGE(out.ok(), out.error().to_string());
  const Tensor y = (*out)[0].contiguous();
  std::vector<double> values;
  for (int64_t i = 0; i < y.numel(); ++i)
    values.push_back(element_to_double(y.dtype, y.bytes().data() + i * dtype_bytes(y.dtype)));
  return values;
}

std::string refusal(const std::string& text) {
  auto graph = parse_graph(text);
  if (!graph.ok()) return graph.error().to_string();
  Status status = verify_graph(*graph);
  return status.ok() ? "" : status.error().to_string();
}

}  // namespace

TEST_CASE("nibbles in both orders") {
  const Tensor bytes = numbers(DType::u8, {1, 2}, {0xBA, 0x1F});
  auto codes = [&](NibbleOrder order) {
    const Tensor t = unpack_nibbles(bytes, order);
    CHECK(t.shape == std::vector<int64_t>{1, 4});
    std::vector<int> out;
    for (std::byte b : t.bytes()) out.push_back(static_cast<int>(b));
    return out;
  };
  CHECK(codes(NibbleOrder::low_first) == std::vector<int>{10, 11, 15, 1});
  CHECK(codes(NibbleOrder::high_first) == std::vector<int>{11, 10, 1, 15});
}

TEST_CASE("dequantize_4bit: mxfp4, nvfp4 and nf4 by hand") {
  const Tensor packed = numbers(DType::u8, {2, 2}, {0x71, 0x9F, 0x20, 0x08});
  // Row 0: codes 1 7 15 9, row 1: 0 2 8 0.
  const std::string mx =
      "graph(%p: u8[2, 2], %s: u8[2, 1]) {\n  %w = qcg.dequantize_4bit(%p, %s, format = \"mxfp4\", shape = [2, 4]) : "
      "f32[2, 4]\n  return %w\n}\n";
  CHECK(evaluate(mx, {packed, numbers(DType::u8, {2, 1}, {128, 126})}) ==
        std::vector<double>{1, 12, -12, -1, 0, 0.5, 0, 0});
  const std::string nv =
      "graph(%p: u8[2, 2], %s: f8e4m3[4], %g: f32[]) {\n"
      "  %w = qcg.dequantize_4bit(%p, %s, format = \"nvfp4\", shape = [2, 4], global_scale = %g, group = 2) : f32[2, "
      "4]\n  return %w\n}\n";
  CHECK(evaluate(nv, {packed, numbers(DType::f8e4m3, {4}, {1, 0.5, 2, 448}), numbers(DType::f32, {}, {4})}) ==
        std::vector<double>{2, 24, -12, -1, 0, 8, 0, 0});
  // High nibble first: row 0: 7 1 9 15, row 1: 2 0 0 8.
  const std::string nf =
      "graph(%p: u8[4, 1], %s: f32[4]) {\n  %w = qcg.dequantize_4bit(%p, %s, format = \"nf4\", shape = [2, 4], group = "
      "2) : f32[2, 4]\n  return %w\n}\n";
  const std::vector<double> w =
      evaluate(nf, {numbers(DType::u8, {4, 1}, {0x71, 0x9F, 0x20, 0x08}), numbers(DType::f32, {4}, {2, 10, 1, 3})});
  CHECK(w[0] == 0);
  CHECK(w[1] == doctest::Approx(-0.6961928 * 2));
  CHECK(w[2] == doctest::Approx(0.1609302 * 10));
  CHECK(w[3] == 10);
  CHECK(w[5] == -1);
  CHECK(w[6] == -3);
}

TEST_CASE("_scaled_mm with one scale per 1 x 128 and 128 x 128, the last block partial") {
  std::vector<double> ones(200, 1), scales = {1, 10};
  const std::string text =
      "graph(%x: f8e4m3[1, 200], %w: f8e4m3[200, 2], %sa: f32[1, 2], %sb: f32[2, 1]) {\n"
      "  %y = aten._scaled_mm.default(%x, %w, %sa, %sb, out_dtype = f32) : f32[1, 2]\n  return %y\n}\n";
  const std::vector<double> y = evaluate(
      text, {numbers(DType::f8e4m3, {1, 200}, ones), numbers(DType::f8e4m3, {200, 2}, std::vector<double>(400, 2)),
             numbers(DType::f32, {1, 2}, scales), numbers(DType::f32, {2, 1}, {0.5, 3})});
  CHECK(y == std::vector<double>{128 * 1 * 0.5 * 2 + 72 * 10 * 3 * 2.0, 128 * 1 * 0.5 * 2 + 72 * 10 * 3 * 2.0});
}

TEST_CASE("_scaled_mm with 128 x 128 scales and no more than 128 columns") {
  const std::string text =
      "graph(%x: f8e4m3[1, 64], %w: f8e4m3[64, 130], %sa: f32[1, 1], %sb: f32[1, 2]) {\n"
      "  %y = aten._scaled_mm.default(%x, %w, %sa, %sb, out_dtype = f32) : f32[1, 130]\n  return %y\n}\n";
  const std::vector<double> y =
      evaluate(text, {numbers(DType::f8e4m3, {1, 64}, std::vector<double>(64, 1)),
                      numbers(DType::f8e4m3, {64, 130}, std::vector<double>(64 * 130, 2)),
                      numbers(DType::f32, {1, 1}, {10}), numbers(DType::f32, {1, 2}, {0.5, 3})});
  CHECK(y[0] == 64 * 2 * 10 * 0.5);
  CHECK(y[127] == y[0]);
  CHECK(y[128] == 64 * 2 * 10 * 3.0);
  CHECK(y[129] == y[128]);
}

TEST_CASE("operands that do not fit are refused, with the argument named") {
  auto scaled = [](const std::string& inputs, const std::string& rest) {
    return "graph(" + inputs + ") {\n  %y = aten._scaled_mm.default(%x, %w, %sa, %sb" + rest +
           ") : f8e4m3[4, 6]\n  return %y\n}\n";
  };
  const std::string x = "%x: f8e4m3[4, 16], ", w = "%w: f8e4m3[16, 6], ";
  CHECK(refusal(scaled(x + w + "%sa: f32[4, 1], %sb: f32[1, 6]", "")) == "");
  CHECK(refusal(scaled(x + w + "%sa: f32[3, 1], %sb: f32[1, 6]", "")).find("scale_a") != std::string::npos);
  CHECK(refusal(scaled(x + w + "%sa: f32[], %sb: f32[5]", "")).find("scale_b") != std::string::npos);
  CHECK(refusal(scaled("%x: f32[4, 16], " + w + "%sa: f32[], %sb: f32[]", "")).find("f8e4m3 or f8e5m2") !=
        std::string::npos);
  CHECK(refusal(scaled(x + "%w: f8e4m3[8, 6], %sa: f32[], %sb: f32[]", "")).find("mat2") != std::string::npos);
  CHECK(refusal(scaled(x + w + "%sa: f32[], %sb: f32[], %b: f32[5]", ", bias = %b")).find("bias") != std::string::npos);
  auto four = [](const std::string& rest) {
    return "graph(%p: u8[2, 8], %s: u8[2, 1]) {\n  %w = qcg.dequantize_4bit(%p, %s, " + rest +
           ") : f32[2, 16]\n  return %w\n}\n";
  };
  CHECK(refusal(four("format = \"mxfp4\", shape = [2, 16]")) == "");
  CHECK(refusal(four("format = \"mxfp5\", shape = [2, 16]")).find("mxfp5") != std::string::npos);
  CHECK(refusal(four("format = \"mxfp4\", shape = [2, 16], group = 8")).find("scales") != std::string::npos);
  CHECK(refusal(four("format = \"mxfp4\", shape = [2, 32]")).find("packed") != std::string::npos);
  CHECK(refusal(four("format = \"mxfp4\", shape = [2, 16], first_nibble = \"both\"")).find("first_nibble") !=
        std::string::npos);
  CHECK(refusal(four("format = \"mxfp4\", shape = [2, 16], group = -1")).find("group") != std::string::npos);
}
