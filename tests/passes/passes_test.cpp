// Options, gates and reports; and the cases a golden cannot hold because they need bytes.
#include "tests/passes/passes_test_util.h"
#include "tests/paths.h"
#include "graph/ops/op_table.h"
#include "graph/ops/verify.h"
#include "graph/oracle/reference.h"

using namespace qcg;

namespace {

constexpr const char* kQkv = R"(symbol s0 in [1, 8]
param @wq: f32[16, 16]
param @wk: f32[8, 16]
graph(%x: f32[s0, 16]) {
  %q = aten.linear.default(%x, @wq) : f32[s0, 16]
  %k = aten.linear.default(%x, @wk) : f32[s0, 8]
  %r = aten.relu.default(%k) : f32[s0, 8]
  return %q, %r
}
)";

size_t count_op(const Graph& graph, std::string_view op) {
  size_t count = 0;
  for (const Node& node : graph.nodes) count += node.op->name == op;
  return count;
}

void fill(Graph& graph, const std::string& name, double value) {
  for (Value& v : graph.values) {
    if (v.name != name) continue;
    std::vector<std::byte> bytes(static_cast<size_t>(v.data.numel()) * dtype_bytes(v.dtype));
    for (int64_t i = 0; i < v.data.numel(); ++i)
      double_to_element(v.dtype, value, bytes.data() + i * dtype_bytes(v.dtype));
    v.data = Tensor::from_bytes(v.dtype, v.data.shape, std::move(bytes));
  }
}

}  // namespace

TEST_CASE("a list of passes is run as it stands: it may lack, repeat and reorder what is not required") {
  const auto run_list = [](std::vector<std::string> order, std::vector<std::string>* ran = nullptr) {
    Graph before = parse(read_text(qcg::test::source_dir() + "/tests/golden/passes/merge_sibling_linears/qkv.in"));
    bind_random(before, 1);
    Graph after = before;
    auto reports = run_passes(after, {.order = std::move(order)});
    if (reports.ok()) check_same_values(before, after, 2);
    for (size_t i = 0; ran && reports.ok() && i < reports->size(); ++i) ran->push_back((*reports)[i].name);
    return reports.ok() ? Status() : Status(reports.error());
  };
  std::vector<std::string> all, ran;
  for (const PassInfo& pass : kPasses) all.emplace_back(pass.name);
  REQUIRE(run_list(all).ok());
  const std::vector<std::string> own = {"unpack_constants", "cse",         "fold_noops", "cse", "recognize_linear",
                                        "decompose",        "lower_loops", "dce",        "dce"};
  REQUIRE(run_list(own, &ran).ok());
  CHECK(ran == own);
  Status status = run_list({"unpack_constants", "fold_noops", "decompose", "dce"});
  REQUIRE(!status.ok());
  CHECK(status.error().code == ErrorCode::Usage);
  CHECK(status.error().where == "lower_loops");
  status = run_list({"make_coffee"});
  REQUIRE(!status.ok());
  CHECK(status.error().message.find("no such pass") != std::string::npos);
  CHECK(!run_list(std::vector<std::string>(300, "cse")).ok());
}

TEST_CASE("a list that lowers too early is refused by the operation that is left over") {
  Graph graph = parse("graph(%x: f32[4, 8]) {\n  %y = aten.softmax.int(%x, -1) : f32[4, 8]\n  return %y\n}\n");
  const auto reports =
      run_passes(graph, {.order = {"unpack_constants", "fold_noops", "lower_loops", "decompose", "dce"}});
  REQUIRE(!reports.ok());
  CHECK(reports.error().code == ErrorCode::Unsupported);
  CHECK(reports.error().message.find("remains after the passes") != std::string::npos);
}

TEST_CASE("passes can be disabled by name, required ones cannot") {
  Graph graph = parse(kQkv);
  auto reports = run_passes(graph, {.disabled = {"merge_sibling_linears", "fold_epilogue"}});
  REQUIRE(reports.ok());
  CHECK(count_op(graph, "qcg.linear") == 2);
  CHECK(count_op(graph, "qcg.loop") == 1);
  CHECK(mentions(*find_report(*reports, "merge_sibling_linears"), "--disable-pass=merge_sibling_linears"));

  for (const char* name : {"no_such_pass", "lower_loops"}) {
    auto refused = run_passes(graph, {.disabled = {name}});
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::Usage);
    CHECK(refused.error().where == name);
  }
}

TEST_CASE("what the passes leave is verified, whatever the build") {
  Graph graph = parse(kQkv);
  graph.value(graph.outputs[1]).shape[1] = Dim(9);  // relu of [s0, 8]
  const auto reports = run_passes(graph);
  REQUIRE(!reports.ok());
  CHECK(reports.error().message.find("left a broken graph") != std::string::npos);
}

TEST_CASE("every pass can be left out and the values stay") {
  for (const PassInfo& pass : kPasses) {
    if (pass.required) continue;
    INFO(pass.name);
    Graph before = parse(kQkv);
    bind_random(before, 3);
    Graph after = before;
    REQUIRE(run_passes(after, {.disabled = {std::string(pass.name)}, .verify_after_each = true}).ok());
    check_same_values(before, after, 4);
  }
}

TEST_CASE("the hook sees the graph after each pass") {
  Graph graph = parse(kQkv);
  std::vector<std::string> seen;
  PassOptions options;
  options.after_each = [&](std::string_view pass, const Graph& g) {
    seen.push_back(std::string(pass));
    CHECK(verify_graph(g).ok());
  };
  REQUIRE(run_passes(graph, options).ok());
  REQUIRE(seen.size() == std::size(kPasses));
  CHECK(seen.front() == "unpack_constants");
  CHECK(seen.back() == "dce");
}

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
  CHECK_FALSE(has(recognized("u8", 16, 7.5), "qcg.linear([%x], weights = [@w"));  // int8 has no real zero point: dense
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
      {"i32", shifted.c_str(), 99, ""},  // int8 has no offset
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

TEST_CASE("the positions of extremes are refused, their values are not") {
  const std::string head = "graph(%x: f32[4, 16]) {\n  %v, %at = aten.max.dim(%x, -1, false) : f32[4], i64[4]\n";
  Graph values = parse(head + "  return %v\n}\n"), positions = parse(head + "  return %at\n}\n");
  CHECK(run_passes(values).ok());
  const auto refused = run_passes(positions);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::Unsupported);
  CHECK(refused.error().message.find("the indices of aten.max.dim are used") != std::string::npos);
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

TEST_CASE("a size as a number is an error where no operator takes it as a tensor") {
  Graph graph = parse(R"(symbol s0 in [1, 64]
graph(%x: f32[s0, 16]) {
  %y = aten.clamp.default(%x, max = s0) : f32[s0, 16]
  return %y
}
)");
  const auto reports = run_passes(graph);
  REQUIRE(!reports.ok());
  CHECK(reports.error().code == ErrorCode::Unsupported);
  CHECK(reports.error().message.find("size known only at run time") != std::string::npos);
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

TEST_CASE("gates of split_cat_linear") {
  const std::string text = R"(symbol s0 in [1, 8]
param @w: f32[8, 32]
graph(%a: f32[s0, 16], %b: f32[s0, 16]) {
  %c = aten.cat.default([%a, %b], dim = -1) : f32[s0, 32]
  %y = qcg.linear([%c], weights = [@w], epilogue = [acc0]) : f32[s0, 8]
  return %y
}
)";
  auto report = [&](auto&& change) {
    Graph graph = parse(text);
    PassOptions options;
    change(options.gates);
    auto result = run_pass("split_cat_linear", graph, options);
    REQUIRE(result.ok());
    return std::move(*result);
  };
  CHECK(report([](PassGates&) {}).fired == 1);
  const PassReport parts = report([](PassGates& g) { g.cat_max_parts = 1; });
  CHECK(parts.fired == 0);
  CHECK(mentions(parts, "2 parts (cat_max_parts is 1)"));
  CHECK(parts.counters.at("refused: cat_max_parts") == 1);
  CHECK(mentions(report([](PassGates& g) { g.cat_min_piece_width = 17; }), "cat_min_piece_width is 17"));
  CHECK(mentions(report([](PassGates& g) { g.cat_max_total_width = 31; }), "cat_max_total_width is 31"));
}

TEST_CASE("concatenations of concatenations are not followed without end") {
  constexpr int kDoublings = 40;
  std::string text = "graph(%v0: f32[4, 8]) {\n";
  int64_t width = 8;
  for (int i = 0; i < kDoublings; ++i) {
    const std::string part = "%v" + std::to_string(i);
    width *= 2;
    text += "  %v" + std::to_string(i + 1) + " = aten.cat.default([" + part + ", " + part + "], dim = -1) : f32[4, " +
            std::to_string(width) + "]\n";
  }
  text = "param @w: f32[2, " + std::to_string(width) + "]\n" + text + "  %y = qcg.linear([%v" +
         std::to_string(kDoublings) + "], weights = [@w], epilogue = [acc0]) : f32[4, 2]\n  return %y\n}\n";
  Graph graph = parse(text);
  auto report = run_pass("split_cat_linear", graph);
  REQUIRE(report.ok());
  CHECK(report->fired == 0);
  CHECK(mentions(*report, "more than 1024 parts"));
}

TEST_CASE("gates of merge_sibling_linears and fold_epilogue") {
  Graph graph = parse(kQkv);
  PassOptions options;
  options.gates.merge_max_siblings = 1;
  options.gates.epilogue_max_nodes = 1;
  auto reports = run_passes(graph, options);
  REQUIRE(reports.ok());
  CHECK(count_op(graph, "qcg.linear") == 2);
  CHECK(mentions(*find_report(*reports, "merge_sibling_linears"), "merge_max_siblings is 1"));
  CHECK(mentions(*find_report(*reports, "fold_epilogue"), "epilogue_max_nodes = 1"));
}

TEST_CASE("linears measured to be faster over their concatenation keep it") {
  Graph graph = parse(R"(symbol s0 in [1, 64]
param @w: f32[8, 32]
param @v: f32[24, 32]
graph(%a: f32[s0, 16], %b: f32[s0, 16]) {
  %c = aten.cat.default([%a, %b], dim = -1) : f32[s0, 32]
  %y = aten.linear.default(%c, @w) : f32[s0, 8]
  %z = aten.linear.default(%c, @v) : f32[s0, 24]
  return %y, %z
}
)");
  PassOptions options;
  options.disabled = {"merge_sibling_linears"};
  options.keep_cats = {"y"};
  auto reports = run_passes(graph, options);
  REQUIRE(reports.ok());
  const PassReport& split = *find_report(*reports, "split_cat_linear");
  CHECK(mentions(split, "measured faster over the concatenation"));
  CHECK(split.fired == 1);
}

TEST_CASE("linears kept apart are not merged, others are") {
  Graph graph = parse(kQkv);
  PassOptions options;
  for (const Node& node : graph.nodes)
    if (options.keep_apart.empty() && node.op->name.starts_with("aten.linear"))
      options.keep_apart.insert(node.origins.begin(), node.origins.end());
  REQUIRE(!options.keep_apart.empty());
  auto reports = run_passes(graph, options);
  REQUIRE(reports.ok());
  CHECK(mentions(*find_report(*reports, "merge_sibling_linears"), "faster by itself"));
  Graph merged = parse(kQkv);
  REQUIRE(run_passes(merged).ok());
  CHECK(count_op(graph, "qcg.linear") == count_op(merged, "qcg.linear") + 1);
}

TEST_CASE("a chain of a hundred thousand nodes is no deep recursion") {
  Graph graph;
  ValueId x = graph.add_input("x", DType::f32, {Dim(2)});
  const OpSchema* relu = find_op("aten.relu.default");
  for (int i = 0; i < 100000; ++i) {
    Value out;
    out.name = "v" + std::to_string(i);
    out.shape = {Dim(2)};
    x = graph.nodes[graph.add_node(relu, {x}, {out})].outputs[0];
  }
  graph.outputs = {x};
  graph.output_names = {"y"};
  PassOptions options;
  for (const char* pass : {"fold_noops", "cse", "dce"}) REQUIRE(run_pass(pass, graph, options).ok());
  CHECK(graph.nodes.size() == 100000);
}
