// Products of rows sorted by group, compiled: each group's rows get its matrix, in every scheme, and rows of none are 0.
#include "tests/real_graphs/check_case.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::string grouped_graph(const std::string& dtype, const std::string& params, const std::string& matrices) {
  return "symbol n in [0, 512]\n" + params + "graph(%x: " + dtype + "[n, 64], %ends: i64[5]) {\n" + matrices +
         "  %w = aten.permute.default(%m, dims = [0, 2, 1]) : " + dtype + "[5, 64, 48]\n" +
         "  %y = aten._grouped_mm.default(%x, %w, offs = %ends) : " + dtype + "[n, 48]\n  return %y\n}\n";
}

std::string in_groups(const std::string& dtype) {
  return "  %m = aten.reshape.default(%t, shape = [5, 48, 64]) : " + dtype + "[5, 48, 64]\n";
}

// Rows of one group, of several, of groups that are empty or end before others, and of none.
void check_groups(const std::string& text, DType dtype) {
  const TempDir dir;
  spit(dir / "graph.txt", text);
  const std::pair<int64_t, std::vector<double>> cases[] = {{33, {3, 3, 20, 21, 30}},       {4, {0, 0, 4, 4, 4}},
                                                           {9, {5, 2, -1, 7, 100}},        {1, {0, 0, 0, 0, 0}},
                                                           {300, {0, 140, 280, 290, 300}}, {0, {0, 0, 0, 0, 0}}};
  for (const auto& [rows, ends] : cases) {
    std::vector<double> x(static_cast<size_t>(rows * 64));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i * 37 % 101) / 64 - 0.75;
    const NamedTensors inputs = {{"x", tensor_of(dtype, {rows, 64}, x)}, {"ends", tensor_of(DType::i64, {5}, ends)}};
    REQUIRE(write_safetensors(dir / "in", inputs).ok());
    const Run run = qcodegen({"check", dir / "graph.txt", "--weights", "random:3", "--inputs", dir / "in"});
    CHECK_MESSAGE(run.status == 0, rows << " rows\n" << run.out << run.err << text);
  }
}

}  // namespace

TEST_CASE("compiled products of groups are the oracle's") {
  check_groups(grouped_graph("bf16", "param @a: bf16[240, 64]\n",
                             "  %m = aten.reshape.default(@a, shape = [5, 48, 64]) : bf16[5, 48, 64]\n"),
               DType::bf16);
  check_groups(
      grouped_graph("bf16", "param @p: u8[240, 32]\nparam @s: u8[240, 2]\n",
                    "  %t = qcg.dequantize_4bit(@p, @s, format = \"mxfp4\", shape = [240, 64], dtype = bf16) : "
                    "bf16[240, 64]\n" +
                        in_groups("bf16")),
      DType::bf16);
  check_groups(grouped_graph("f32", "param @c: i8[240, 64]\nparam @s: f32[240, 2]\n",
                             "  %t = torchao.dequantize_affine.default(@c, block_size = [1, 32], scale = @s, "
                             "zero_point = none, input_dtype = i8, "
                             "quant_min = -8, quant_max = 7, output_dtype = f32) : f32[240, 64]\n" +
                                 in_groups("f32")),
               DType::f32);
}
