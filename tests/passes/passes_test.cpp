// Lists of passes, options, gates and reports.
#include "graph/ops/op_table.h"
#include "graph/ops/verify.h"
#include "graph/oracle/reference.h"
#include "tests/passes/passes_test_util.h"
#include "tests/paths.h"

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

TEST_CASE("functions with steps keep the roundings of the epilogue before them, continuous ones do not") {
  const auto keeps = [](const std::string& call) {
    Graph graph = parse(
        "param @w: bf16[8, 16]\ngraph(%x: bf16[4, 16], %r: bf16[4, 8]) {\n"
        "  %y = qcg.linear([%x], weights = [@w], epilogue = [acc0]) : bf16[4, 8]\n"
        "  %m = aten.mul.Tensor(%y, %r) : bf16[4, 8]\n  %s = " +
        call + " : bf16[4, 8]\n  return %s\n}\n");
    bind_random(graph, 1);
    const auto reports = run_passes(graph);
    REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
    return print_graph(graph).find("cast_bf16(acc0)") != std::string::npos;
  };
  for (const char* call :
       {"aten.round.default(%m)", "aten.ceil.default(%m)", "aten.trunc.default(%m)", "aten.frac.default(%m)",
        "aten.fmod.Scalar(%m, 0.5)", "aten.remainder.Scalar(%m, 0.5)", "aten.floor_divide.default(%m, 0.5)",
        "aten.div.Tensor_mode(%m, 0.5, rounding_mode = \"trunc\")", "aten.round.decimals(%m, decimals = 1)",
        "aten.sign.default(%m)", "aten.hardshrink.default(%m, 0.5)", "aten.threshold.default(%m, 0.25, -1.0)"})
    CHECK_MESSAGE(keeps(call), call);
  for (const char* call : {"aten.relu.default(%m)", "aten.leaky_relu.default(%m, 0.1)", "aten.tanh.default(%m)"})
    CHECK_MESSAGE(!keeps(call), call);
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
