// Weights packed by hand, with their bytes: what they are recognized as, what they are not, and what is refused.
#include "tests/passes/passes_test_util.h"
#include "tests/torch_cases.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Value& parameter(Graph& graph, const std::string& name) {
  for (Value& v : graph.values)
    if (v.kind == ValueKind::parameter && v.name == name) return v;
  FAIL("no parameter " << name);
  return graph.values[0];
}

void give(Graph& graph, const std::string& name, const std::vector<double>& values) {
  Value& v = parameter(graph, name);
  v.data = tensor_of(v.dtype, v.data.shape, values);
}

template <class F>
std::vector<double> made(size_t count, F&& f) {
  std::vector<double> out;
  for (size_t i = 0; i < count; ++i) out.push_back(f(i));
  return out;
}

// All passes: the same values, and the linear as it is printed.
std::string compiled(const Graph& graph) {
  Graph after = graph;
  const auto reports = run_passes(after, {.verify_after_each = true});
  REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
  check_same_values(graph, after, 5);
  return print_graph(after);
}

void has(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, part << " in\n" << text);
}
void has_not(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) == std::string::npos, part << " in\n" << text);
}

// [K, N] in words of eight rows, groups of 16, zero points 1 less than they mean.
Graph rows_of_words(const std::string& index) {
  Graph graph =
      parse(read_text(std::string(QCG_SOURCE_DIR) + "/tests/golden/passes/unpack_constants/" + index + ".in"));
  give(graph, "qweight", made(8 * 16, [](size_t i) { return static_cast<int32_t>(i * 2654435761u); }));
  give(graph, "qzeros", made(4 * 2, [](size_t i) { return static_cast<int32_t>((i + 3) * 2246822519u); }));
  give(graph, "scales", made(4 * 16, [](size_t i) { return 0.25 + static_cast<double>(i) / 64; }));
  return graph;
}

Error error_of(const std::string& text) {
  Graph graph = parse(text);
  bind_random(graph, 1);
  const auto reports = run_passes(graph);
  REQUIRE(!reports.ok());
  return reports.error();
}

}  // namespace

TEST_CASE("words of codes with their zero points are int4 in groups") {
  const std::string text = compiled(rows_of_words("rows_of_words"));
  has(text, "scheme = \"w4\", group = 16");
  has(text, "zeros = [@");
  has_not(text, "qcg.loop");
}

TEST_CASE("groups in any order are no groups: a dense weight with the right numbers") {
  const std::string text = compiled(rows_of_words("groups_in_any_order"));
  has(text, "qcg.linear");
  has_not(text, "scheme = \"w4\"");
  has_not(text, "qcg.loop");
}

TEST_CASE("operands that are no constants, or not in range, are refused by name") {
  Error e = error_of(
      "graph(%x: i32[3, 8]) {\n  %a = aten.abs.default(%x) : i32[3, 8]\n"
      "  %y = aten.bitwise_right_shift.Tensor_Scalar(%a, other = 2) : i32[3, 8]\n  return %y\n}\n");
  CHECK(e.code == ErrorCode::Unsupported);
  has(e.message, "aten.bitwise_right_shift.Tensor_Scalar (y)");
  has(e.message, "%a is computed from the inputs");
  has(e.help, "constants");
  has(error_of("graph(%x: u8[3, 8], %z: u8[8]) {\n  %y = aten.bitwise_and.Tensor(%x, %z) : u8[3, 8]\n  return %y\n}\n")
          .message,
      "%z is computed from the inputs");
  has(error_of("param @t: f32[9, 4]\ngraph(%x: i64[3]) {\n  %y = aten.embedding.default(@t, %x) : f32[3, 4]\n"
               "  return %y\n}\n")
          .message,
      "aten.embedding.default (y)");
  e = error_of(
      "param @t: f32[9]\ngraph(%x: f32[3]) {\n  %i = aten.arange.start(start = 7, end = 10) : i64[3]\n"
      "  %v = aten.index.Tensor(@t, [%i]) : f32[3]\n  %y = aten.add.Tensor(%x, %v) : f32[3]\n  return %y\n}\n");
  CHECK(e.code == ErrorCode::BadInput);
  has(e.message, "index 9 is outside an axis of size 9");
  has(error_of("graph(%x: i64[4]) {\n  %k = aten.arange.default(end = 4) : i64[4]\n"
               "  %v = aten.remainder.Tensor(%k, %k) : i64[4]\n  return %v\n}\n")
          .message,
      "divides by zero");
}

TEST_CASE("a small file does not make large constants") {
  const Error e = error_of(
      "graph(%x: f32[3]) {\n  %k = aten.arange.default(end = 40000000) : i64[40000000]\n"
      "  %y = aten.bitwise_and.Scalar(%k, other = 1) : i64[40000000]\n  return %y\n}\n");
  CHECK(e.code == ErrorCode::Unsupported);
  has(e.message, "aten.arange.default (k) makes more elements");
}

TEST_CASE("without bytes constants are declared") {
  Graph graph =
      parse(read_text(std::string(QCG_SOURCE_DIR) + "/tests/golden/passes/unpack_constants/late_zero_point.in"));
  REQUIRE(run_passes(graph, {.verify_after_each = true}).ok());
  const std::string text = print_graph(graph);
  has(text, "scheme = \"w8\", group = 16");
}
