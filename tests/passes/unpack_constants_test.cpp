// Weights packed by hand, with their bytes: what they are recognized as, what they are not, and what is refused.
#include "graph/ir/scheme.h"
#include "tests/passes/passes_test_util.h"
#include "tests/paths.h"
#include "tests/torch_cases.h"

using namespace qcg;
using namespace qcg::test;

namespace {

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
  Graph graph = parse(read_text(source_dir() + "/tests/golden/passes/unpack_constants/" + index + ".in"));
  give(graph, "qweight", made(8 * 16, [](size_t i) { return static_cast<int32_t>(i * 2654435761u); }));
  give(graph, "qzeros", made(4 * 2, [](size_t i) { return static_cast<int32_t>((i + 3) * 2246822519u); }));
  give(graph, "scales", made(4 * 16, [](size_t i) { return 0.25 + static_cast<double>(i) / 64; }));
  return graph;
}

Error refusal_of(const std::string& text) {
  Graph graph = parse(text);
  bind_random(graph, 1);
  const auto reports = run_passes(graph);
  REQUIRE(!reports.ok());
  return reports.error();
}

const std::vector<double> kMx4Values = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6};

// x * (table[codes] * scale per group of 16), the codes in the nibbles of bytes.
Graph table_weight(const std::string& dtype, const std::vector<double>& table) {
  Graph graph = parse("param @p: u8[24, 16]\nparam @t: " + dtype + "[" + std::to_string(table.size()) +
                      "]\nparam @s: " + dtype + "[24, 2]\ngraph(%x: " + dtype +
                      "[3, 32]) {\n"
                      "  %h = aten.__rshift__.Scalar(@p, other = 4) : u8[24, 16]\n"
                      "  %l = aten.__and__.Scalar(@p, other = 15) : u8[24, 16]\n"
                      "  %c = aten.stack.default([%h, %l], dim = -1) : u8[24, 16, 2]\n"
                      "  %i = aten.to.dtype(%c, dtype = i64) : i64[24, 16, 2]\n"
                      "  %n = aten.index.Tensor(@t, [%i]) : " +
                      dtype +
                      "[24, 16, 2]\n"
                      "  %g = aten.reshape.default(%n, shape = [24, 2, 16]) : " +
                      dtype +
                      "[24, 2, 16]\n"
                      "  %e = aten.unsqueeze.default(@s, dim = 2) : " +
                      dtype +
                      "[24, 2, 1]\n"
                      "  %m = aten.mul.Tensor(%g, %e) : " +
                      dtype +
                      "[24, 2, 16]\n"
                      "  %w = aten.reshape.default(%m, shape = [24, 32]) : " +
                      dtype +
                      "[24, 32]\n"
                      "  %y = aten.linear.default(%x, %w) : " +
                      dtype + "[3, 24]\n  return %y\n}\n");
  give(graph, "p", made(24 * 16, [](size_t i) { return static_cast<double>(i * 37 % 256); }));
  give(graph, "t", table);
  give(graph, "s", made(48, [](size_t i) { return std::ldexp(1.0, static_cast<int>(i % 5) - 3); }));
  return graph;
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

TEST_CASE("a weight looked up in a table is f4 or nf4 where the table is theirs") {
  const std::vector<double> nf4(kNf4Values.begin(), kNf4Values.end());
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    INFO(dtype);
    has(compiled(table_weight(dtype, kMx4Values)), "scheme = \"f4\", group = 16");
  }
  has(compiled(table_weight("f32", nf4)), "scheme = \"nf4\", group = 16");
  has(compiled(table_weight("f32", made(16, [](size_t i) { return static_cast<double>(i) - 8; }))), "scheme = \"w4\"");
  has(compiled(table_weight("f32", made(16, [](size_t i) { return static_cast<double>(i); }))), "scheme = \"w4\"");
  has(compiled(table_weight("f32", made(16, [](size_t i) { return static_cast<double>(i) * 9; }))), "scheme = \"w8\"");
}

TEST_CASE("other tables are dense weights") {
  std::vector<double> almost = kMx4Values;
  almost[7] = 5.5;
  std::vector<double> nf4(kNf4Values.begin(), kNf4Values.end());
  nf4[3] = std::nextafter(static_cast<float>(nf4[3]), 0.0f);
  std::vector<double> large = made(16, [](size_t i) { return static_cast<double>(i) * 100; });
  for (const auto& table : {almost, nf4, large}) {
    const std::string text = compiled(table_weight("f32", table));
    has(text, "qcg.linear");
    has_not(text, "scheme");
  }
}

TEST_CASE("activations looked up at constant positions are slices") {
  const auto with = [](const std::string& text, const std::vector<std::vector<double>>& positions) {
    Graph graph = parse(text);
    for (size_t i = 0; i < positions.size(); ++i) give(graph, std::string(1, static_cast<char>('i' + i)), positions[i]);
    return graph;
  };
  // A triangle without its diagonal: rows of 1, 2 and 3.
  std::string text =
      compiled(with("symbol m in [1, 9]\nparam @i: i64[6]\nparam @j: i64[6]\ngraph(%x: f32[m, 4, 4]) {\n"
                    "  %y = aten.index.Tensor(%x, [none, @i, @j]) : f32[m, 6]\n  return %y\n}\n",
                    {{1, 2, 2, 3, 3, 3}, {0, 0, 1, 0, 1, 2}}));
  has(text, "aten.cat.default");
  has(text, "start = 4, end = 5");
  has(text, "start = 8, end = 10");
  has(text, "start = 12, end = 15");
  // Every other column is one slice; negative positions count from the end; what is left of an uneven list is single.
  text = compiled(
      with("param @i: i32[4]\ngraph(%x: bf16[3, 8]) {\n  %y = aten.index_select.default(%x, dim = -1, index = @i) : "
           "bf16[3, 4]\n  return %y\n}\n",
           {{1, 3, 5, 7}}));
  has(text, "start = 1, end = 8, step = 2");
  has_not(text, "aten.cat.default");
  compiled(
      with("param @i: i64[2, 3]\ngraph(%x: f32[3, 8]) {\n  %y = aten.index.Tensor(%x, [none, @i]) : f32[3, 2, 3]\n"
           "  return %y\n}\n",
           {{-1, 0, 5, 6, 2, 2}}));
}

TEST_CASE("a permutation of many columns is one look-up, not a copy of each column") {
  const auto steps = [](int64_t columns, auto&& position) {
    Graph graph = parse(fmt::format(
        "param @i: i64[{0}]\ngraph(%x: f32[3, {0}]) {{\n  %y = aten.index_select.default(%x, dim = 1, index = @i) : "
        "f32[3, {0}]\n  return %y\n}}\n",
        columns));
    std::vector<double> positions;
    for (int64_t i = 0; i < columns; ++i) positions.push_back(static_cast<double>(position(i)));
    give(graph, "i", positions);
    const auto reports = run_passes(graph, {.verify_after_each = true});
    REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
    return graph.nodes.size();
  };
  CHECK(steps(64, [](int64_t i) { return i * 29 % 64; }) == 1);
  // Eight runs of eight columns are eight slices and their cat.
  CHECK(steps(64, [](int64_t i) { return (7 - i / 8) * 8 + i % 8; }) == 9);
}

TEST_CASE("look-ups that are no slices stay look-ups") {
  const auto after = [](const std::string& text) {
    Graph graph = parse(text);
    bind_random(graph, 1);
    if (graph.find_value("i") != kNoValue) give(graph, "i", {1, 0});
    const auto reports = run_passes(graph, {.verify_after_each = true});
    REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
    return print_graph(graph);
  };
  // Axes that are not neighbours, sizes known only at run time, positions known only at run time.
  has(after("param @i: i64[2]\ngraph(%x: f32[3, 4, 5]) {\n  %y = aten.index.Tensor(%x, [@i, none, @i]) : f32[2, 4]\n"
            "  return %y\n}\n"),
      "aten.index.Tensor(%x, [@i, none, @i])");
  has(after("symbol m in [1, 9]\nparam @i: i64[2]\ngraph(%x: f32[m, 4]) {\n  %y = aten.index.Tensor(%x, [@i]) : "
            "f32[2, 4]\n  return %y\n}\n"),
      "aten.index.Tensor(%x, [@i])");
  has(after("graph(%x: f32[3, 4], %k: i64[2]) {\n  %y = aten.index.Tensor(%x, [none, %k]) : f32[3, 2]\n"
            "  return %y\n}\n"),
      "aten.index.Tensor(%x, [none, %k])");
  has(after("param @t: f32[9, 4]\ngraph(%x: i64[3]) {\n  %y = aten.embedding.default(@t, %x) : f32[3, 4]\n"
            "  return %y\n}\n"),
      "aten.embedding.default(@t, %x");
}

TEST_CASE("operands that are no constants, or not in range, are refused by name") {
  Error e = refusal_of(
      "graph(%x: i32[3, 8]) {\n  %a = aten.abs.default(%x) : i32[3, 8]\n"
      "  %y = aten.pow.Scalar(self = 3, exponent = %a) : i32[3, 8]\n  return %y\n}\n");
  CHECK(e.code == ErrorCode::Unsupported);
  has(e.message, "aten.pow.Scalar (y)");
  has(e.message, "%a is computed from the inputs");
  has(e.help, "constants");
  e = refusal_of(
      "param @t: f32[9]\ngraph(%x: f32[3]) {\n  %i = aten.arange.start(start = 7, end = 10) : i64[3]\n"
      "  %v = aten.index.Tensor(@t, [%i]) : f32[3]\n  %y = aten.add.Tensor(%x, %v) : f32[3]\n  return %y\n}\n");
  CHECK(e.code == ErrorCode::BadInput);
  has(e.message, "index 9 is outside an axis of size 9");
  has(refusal_of("graph(%x: i64[4]) {\n  %k = aten.arange.default(end = 4) : i64[4]\n"
                 "  %v = aten.remainder.Tensor(%k, %k) : i64[4]\n  return %v\n}\n")
          .message,
      "divides by zero");
}

TEST_CASE("a small file does not make large constants") {
  const Error e = refusal_of(
      "graph(%x: f32[3]) {\n  %k = aten.arange.default(end = 40000000) : i64[40000000]\n"
      "  %y = aten.bitwise_and.Scalar(%k, other = 1) : i64[40000000]\n  return %y\n}\n");
  CHECK(e.code == ErrorCode::Unsupported);
  has(e.message, "aten.arange.default (k) makes more elements");
  // Nor many that are each within the limit.
  const Error sum = refusal_of(
      "graph(%x: f32[3]) {\n  %k = aten.arange.default(end = 9000000) : i64[9000000]\n"
      "  %y = aten.bitwise_and.Scalar(%k, other = 1) : i64[9000000]\n  return %y\n}\n");
  has(sum.message, "aten.bitwise_and.Scalar (y) makes more elements");
}

TEST_CASE("without bytes constants are declared") {
  Graph graph = parse(read_text(source_dir() + "/tests/golden/passes/unpack_constants/late_zero_point.in"));
  REQUIRE(run_passes(graph, {.verify_after_each = true}).ok());
  const std::string text = print_graph(graph);
  has(text, "scheme = \"w8\", group = 16");
}

TEST_CASE("codes that are cast to a narrower integer before they are used are codes") {
  // The range of a code is its parameter's: [0, 15].
  const auto with_codes = [](const std::string& dtype, const std::string& arithmetic) {
    Graph graph = parse(
        "param @q: " + dtype + "[24, 32]\nparam @z: i32[24, 2, 1]\nparam @s: f32[24, 2, 1]\ngraph(%x: f32[3, 32]) {\n" +
        "  %g = aten.reshape.default(@q, shape = [24, 2, 16]) : " + dtype + "[24, 2, 16]\n" + arithmetic +
        "  %f = aten.to.dtype(%c, dtype = f32) : f32[24, 2, 16]\n"
        "  %m = aten.mul.Tensor(%f, @s) : f32[24, 2, 16]\n"
        "  %w = aten.reshape.default(%m, shape = [24, 32]) : f32[24, 32]\n"
        "  %y = aten.linear.default(%x, %w) : f32[3, 24]\n  return %y\n}\n");
    give(graph, "q", made(24 * 32, [](size_t i) { return static_cast<double>(i * 37 % 16); }));
    give(graph, "z", made(48, [](size_t i) { return static_cast<double>(i % 16); }));
    give(graph, "s", made(48, [](size_t i) { return std::ldexp(1.0, static_cast<int>(i % 5) - 6); }));
    return graph;
  };
  for (const char* dtype : {"i32", "i64", "i16"}) {  // compressed-tensors
    INFO(dtype);
    const std::string text =
        compiled(with_codes(dtype, "  %d = aten.sub.Tensor(%g, other = 8) : " + std::string(dtype) +
                                       "[24, 2, 16]\n  %c = aten.to.dtype(%d, dtype = i8) : i8[24, 2, 16]\n"));
    has(text, "scheme = \"w4\", group = 16");
    has_not(text, "zeros = [@");
  }
  // 0 - 8 is 248 in a byte, and -8 again as a signed one.
  has(compiled(with_codes("u8",
                          "  %d = aten.sub.Tensor(%g, other = 8) : u8[24, 2, 16]\n"
                          "  %c = aten.to.dtype(%d, dtype = i8) : i8[24, 2, 16]\n")),
      "scheme = \"w4\", group = 16");
  // Zero points stay zero points: the difference would need 5 bits.
  const std::string zeros = compiled(with_codes("i32",
                                                "  %d = aten.sub.Tensor(%g, @z) : i32[24, 2, 16]\n"
                                                "  %c = aten.to.dtype(%d, dtype = i8) : i8[24, 2, 16]\n"));
  has(zeros, "scheme = \"w4\", group = 16");
  has(zeros, "zeros = [@");
  // What wraps is what it wraps to.
  has(compiled(with_codes("i32",
                          "  %d = aten.add.Tensor(%g, other = 120) : i32[24, 2, 16]\n"
                          "  %c = aten.to.dtype(%d, dtype = i8) : i8[24, 2, 16]\n")),
      "scheme = \"w8\", group = 16");
}

TEST_CASE("integers chosen by a condition are codes, and products of constants per group are scales") {
  const auto with = [](const std::string& nodes) {
    Graph graph = parse(
        "param @q: u8[24, 32]\nparam @s: f32[24, 2]\nparam @level: u8[24, 2]\nparam @all: f32[]\n"
        "graph(%x: f32[3, 32]) {\n" +
        nodes +
        "  %w = aten.reshape.default(%m, shape = [24, 32]) : f32[24, 32]\n"
        "  %y = aten.linear.default(%x, %w) : f32[3, 24]\n  return %y\n}\n");
    give(graph, "q", made(24 * 32, [](size_t i) { return static_cast<double>(i * 37 % 16); }));
    give(graph, "s", made(48, [](size_t i) { return std::ldexp(1.0, static_cast<int>(i % 5) - 6); }));
    give(graph, "level", made(48, [](size_t i) { return static_cast<double>(i % 7 + 1); }));
    give(graph, "all", {0.5});
    return compiled(graph);
  };
  const std::string chosen = with(
      "  %i = aten.to.dtype(@q, dtype = i8) : i8[24, 32]\n"
      "  %high = aten.gt.Scalar(%i, other = 7) : bool[24, 32]\n"
      "  %less = aten.sub.Tensor(%i, other = 16) : i8[24, 32]\n"
      "  %c = aten.where.self(%high, %less, %i) : i8[24, 32]\n"
      "  %f = aten.to.dtype(%c, dtype = f32) : f32[24, 32]\n"
      "  %g = aten.reshape.default(%f, shape = [24, 2, 16]) : f32[24, 2, 16]\n"
      "  %u = aten.unsqueeze.default(@s, dim = 2) : f32[24, 2, 1]\n"
      "  %m = aten.mul.Tensor(%g, %u) : f32[24, 2, 16]\n");
  has(chosen, "scheme = \"w4\", group = 16");
  has_not(chosen, "zeros = [@");
  has(with("  %f = aten.to.dtype(@q, dtype = f32) : f32[24, 32]\n"
           "  %d = aten.sub.Tensor(%f, other = 8) : f32[24, 32]\n"
           "  %g = aten.reshape.default(%d, shape = [24, 2, 16]) : f32[24, 2, 16]\n"
           "  %l = aten.to.dtype(@level, dtype = f32) : f32[24, 2]\n"
           "  %a = aten.mul.Tensor(%l, @all) : f32[24, 2]\n"
           "  %u = aten.unsqueeze.default(%a, dim = 2) : f32[24, 2, 1]\n"
           "  %m = aten.mul.Tensor(%g, %u) : f32[24, 2, 16]\n"),
      "scheme = \"w4\", group = 16");
}

TEST_CASE("codes unpacked in a loop are codes: slices of an empty weight that are written one by one") {
  std::string loop =
      "param @p: i32[24, 4]\nparam @s: f32[24, 1]\ngraph(%x: f32[3, 32]) {\n"
      "  %w0 = aten.full.default([24, 32], 0, dtype = i32) : i32[24, 32]\n";
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1), from = "%w" + n;
    loop += "  %r" + n + " = aten.__rshift__.Scalar(@p, " + std::to_string(4 * i) + ") : i32[24, 4]\n  %a" + n +
            " = aten.bitwise_and.Scalar(%r" + n + ", 15) : i32[24, 4]\n  %t" + n + " = aten.slice.Tensor(" + from +
            ", 1, " + n + ", 32, 8) : i32[24, 4]\n  %c" + n + " = aten.copy.default(%t" + n + ", %a" + n +
            ") : i32[24, 4]\n  %w" + next + " = aten.slice_scatter.default(" + from + ", %c" + n + ", 1, " + n +
            ", 32, 8) : i32[24, 32]\n";
  }
  Graph graph = parse(loop +
                      "  %d = aten.sub.Tensor(%w8, other = 8) : i32[24, 32]\n"
                      "  %c = aten.to.dtype(%d, dtype = i8) : i8[24, 32]\n"
                      "  %f = aten.to.dtype(%c, dtype = f32) : f32[24, 32]\n"
                      "  %m = aten.mul.Tensor(%f, @s) : f32[24, 32]\n"
                      "  %y = aten.linear.default(%x, %m) : f32[3, 24]\n  return %y\n}\n");
  give(graph, "p", made(24 * 4, [](size_t i) { return static_cast<int32_t>(i * 2654435761u); }));
  give(graph, "s", made(24, [](size_t i) { return 0.25 + static_cast<double>(i) / 64; }));
  has(compiled(graph), "scheme = \"w4\"");
}

TEST_CASE("what reads a constant that is evaluated only later reads the result") {
  Graph graph = parse(R"(param @p: i32[1, 4]
param @q: i32[4, 1]
graph(%x: f32[4, 4]) {
  %h = aten.bitwise_and.Scalar(@p, other = 7) : i32[1, 4]
  %d = aten.mul.Tensor(%h, @q) : i32[4, 4]
  %l = aten.lt.Scalar(%d, other = 5) : bool[4, 4]
  %e = aten.abs.default(%d) : i32[4, 4]
  %c = aten.to.dtype(%e, dtype = i8) : i8[4, 4]
  %y = aten.mul.Tensor(%x, %c) : f32[4, 4]
  %z = aten.where.self(%l, %y, %x) : f32[4, 4]
  return %z
}
)");
  give(graph, "p", {1, -20, 3, 9});
  give(graph, "q", {5, 60, -7, 2});
  const std::string after = compiled(graph);
  has_not(after, "aten.bitwise_and");
  has_not(after, "%d = ");
}

TEST_CASE("parts of a parameter that are repeated to sizes known only at run time stay what they are") {
  Graph graph = parse(
      "symbol s0 in [1, 9]\nparam @z: f32[]\ngraph(%x: f32[s0, 4]) {\n"
      "  %row = aten.expand.default(@z, size = [s0, 2]) : f32[s0, 2]\n"
      "  %end = aten.expand.default(@z, size = [s0, 1]) : f32[s0, 1]\n"
      "  %side = aten.cat.default([%row, %end], dim = 1) : f32[s0, 3]\n"
      "  %y = aten.cat.default([%x, %side], dim = 1) : f32[s0, 7]\n  return %y\n}\n");
  give(graph, "z", {0.5});
  has(compiled(graph), "f32[s0, 7]");
}

TEST_CASE("weights and scales in parts are those of one linear") {
  Graph graph = parse(R"(param @a: i8[32, 8]
param @b: i8[16, 32]
param @s: f32[8]
param @t: f32[16]
graph(%x: i8[3, 32], %xs: f32[3, 1]) {
  %p = aten.permute.default(@b, [1, 0]) : i8[32, 16]
  %w = tensor_cast.cat.default([@a, %p], 1) : i8[32, 24]
  %u = aten.cat.default([@s, @t], 0) : f32[24]
  %y = tensor_cast.static_quant_linear.default(%x, %w, %u, none, %xs, none, none, f32) : f32[3, 24]
  return %y
})");
  bind_random(graph, 1);
  has(compiled(graph), "scheme = \"da8w8\"");
}

TEST_CASE("a weight of integers that becomes one of floats is warned of by name") {
  const auto warnings = [](Graph graph) {
    const auto reports = run_passes(graph);
    REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
    return find_report(*reports, "recognize_linear")->warnings;
  };
  const auto dense = warnings(rows_of_words("groups_in_any_order"));
  REQUIRE(dense.size() == 1);
  has(dense[0], "y: its weight is computed from the integers of @qweight and is compiled as floats: ");
  has(dense[0], "one scale per output channel or group along K");
  CHECK(warnings(rows_of_words("rows_of_words")).empty());
  Graph unread = rows_of_words("groups_in_any_order");
  unread.outputs = {unread.inputs[0]};
  CHECK(warnings(unread).empty());
  const std::vector<double> nf4(kNf4Values.begin(), kNf4Values.end());
  CHECK(warnings(table_weight("f32", nf4)).empty());
  std::vector<double> almost = nf4;
  almost[3] = -0.5;
  CHECK(warnings(table_weight("f32", almost)).size() == 1);
  // Rows looked up at positions, and a mask, are no codes.
  Graph looked_up = parse(
      "param @e: f32[40, 64]\nparam @i: i32[24]\nparam @b: bool[24, 64]\ngraph(%x: f32[3, 64]) {\n"
      "  %r = aten.index.Tensor(@e, [@i]) : f32[24, 64]\n"
      "  %w = aten.mul.Tensor(%r, @b) : f32[24, 64]\n"
      "  %y = aten.linear.default(%x, %w) : f32[3, 24]\n  return %y\n}\n");
  bind_random(looked_up, 1);
  give(looked_up, "i", made(24, [](size_t i) { return static_cast<double>(i * 7 % 40); }));
  CHECK(warnings(looked_up).empty());
  // Kernels of convolutions: a scale per output channel is one of w8, and a scale per input channel is none.
  const auto convolution = [](const std::string& scale) {
    Graph graph = parse("param @c: i8[8, 4, 3, 3]\nparam @s: f32" + scale +
                        "\ngraph(%x: f32[1, 4, 6, 6]) {\n"
                        "  %f = aten.to.dtype(@c, dtype = f32) : f32[8, 4, 3, 3]\n"
                        "  %w = aten.mul.Tensor(%f, @s) : f32[8, 4, 3, 3]\n"
                        "  %y = aten.conv2d.default(%x, %w) : f32[1, 8, 4, 4]\n  return %y\n}\n");
    bind_random(graph, 1);
    return graph;
  };
  const Graph by_channel = convolution("[8, 1, 1, 1]");
  CHECK(warnings(by_channel).empty());
  has(compiled(by_channel), "scheme = \"w8\"");
  const auto by_input = warnings(convolution("[1, 4, 1, 1]"));
  REQUIRE(by_input.size() == 1);
  has(by_input[0], "y: its weight is computed from the integers of @c and is compiled as floats: ");
  Graph fp8 = parse(
      "param @c: f8e4m3[24, 64]\nparam @s: f32[1, 64]\ngraph(%x: f32[3, 64]) {\n"
      "  %f = aten.to.dtype(@c, dtype = f32) : f32[24, 64]\n  %w = aten.mul.Tensor(%f, @s) : f32[24, 64]\n"
      "  %y = aten.linear.default(%x, %w) : f32[3, 24]\n  return %y\n}\n");
  bind_random(fp8, 1);
  REQUIRE(warnings(fp8).size() == 1);
  has(warnings(fp8)[0], "computed from the fp8 of @c");
}
