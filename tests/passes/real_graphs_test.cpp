// The passes on the graphs that exporters really write (../shared/graphs, skipped where absent): what is recognized,
// merged and folded, and that the oracle sees no difference.
#include <filesystem>

#include "graph/read/read_graph.h"
#include "tests/passes/passes_test_util.h"
#include "tests/paths.h"

using namespace qcg;
namespace fs = std::filesystem;

namespace {

const fs::path kGraphs = fs::path(qcg::test::source_dir()) / "../shared/graphs";

struct Expected {
  const char* name;
  const char* scheme;
  size_t linears;        // after merging
  size_t other_nodes;    // anything but qcg.linear
  size_t segments;       // of the widest linear
  const char* epilogue;  // of the first linear
};

constexpr Expected kExpected[] = {
    {"llama_mlp_f32", "dense", 2, 0, 2, "mul(silu(acc0), acc1)"},
    {"llama_mlp_int8wo", "w8", 2, 0, 2, "mul(silu(acc0), acc1)"},
    {"llama_mlp_int4wo_g32", "w4", 2, 0, 2, "mul(silu(acc0), acc1)"},
    {"llama_mlp_da8w8", "da8w8", 2, 2, 2,
     "mul(cast_bf16(silu(cast_bf16(mul(cast_bf16(acc0), in0)))), cast_bf16(mul(cast_bf16(acc1), in1)))"},
    {"llama_qkv_bf16", "dense", 1, 0, 3, "acc0"},
    {"int8pack_siblings_bf16", "w8", 1, 0, 3, "acc0"},
    {"int8wo_odd_n3073", "w8", 1, 0, 1, "acc0"},
    {"cat_linear_pos_axis_bf16", "dense", 1, 0, 1, "acc0"},
    {"recsys_cat_linear_f32", "dense", 1, 0, 1, "relu(acc0)"},
    {"llama31_8b_linears_bf16", "dense", 4, 0, 3, "add(in0, acc0)"},
    {"llama31_8b_linears_int8wo", "w8", 4, 0, 3, "add(in0, acc0)"},
    {"llama31_8b_linears_int4wo_g128", "w4", 4, 0, 3, "add(in0, acc0)"},
    {"llama31_8b_linears_da8w8", "da8w8", 4, 4, 3, "add(in1, cast_bf16(mul(cast_bf16(acc0), in0)))"},
    {"int4pack_cpu_g32", "w4", 1, 0, 1, "acc0"},
    {"llama_mlp_da8w4_g32", "da8w4", 2, 2, 2, "mul(silu(acc0), acc1)"},
    {"llama31_8b_linears_da8w4_g128", "da8w4", 4, 4, 3, "add(in0, acc0)"},
    {"llama31_8b_linears_da8w4_g128_bf16", "da8w4", 4, 4, 3, "add(in0, cast_bf16(acc0))"},
};

bool skip_without_graphs() {
  if (fs::exists(kGraphs)) return false;
  MESSAGE("skipped: " << kGraphs.string() << " is not there");
  return true;
}

fs::path graph_file(const std::string& name) {
  const fs::path pt2 = kGraphs / name / "graph.pt2";
  return fs::exists(pt2) ? pt2 : kGraphs / name / "graph.json";
}

Graph read(const std::string& name) {
  auto graph = read_graph(graph_file(name).string());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  return std::move(*graph);
}

bool is_bound(const Graph& graph) {
  for (const Value& value : graph.values)
    if (value.kind == ValueKind::parameter && !value.data.bound()) return false;
  return true;
}

}  // namespace

TEST_CASE("real exports lower to the linears they are made of") {
  if (skip_without_graphs()) return;
  for (const Expected& expected : kExpected) {
    if (!fs::exists(graph_file(expected.name))) {
      MESSAGE("skipped: no " << expected.name);
      continue;
    }
    INFO(expected.name);
    const Graph before = read(expected.name);
    Graph graph = before;
    auto reports = run_passes(graph, {.verify_after_each = true});
    REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
    INFO(print_graph(graph));
    size_t linears = 0, others = 0, segments = 0;
    std::string epilogue;
    for (const Node& node : graph.nodes) {
      if (node.op->name != "qcg.linear") {
        ++others;
        continue;
      }
      CHECK(*node.arg("scheme").get<std::string>() == expected.scheme);
      if (linears++ == 0) epilogue = (*node.arg("epilogue").get<std::vector<Expr>>())[0].str();
      segments = std::max(segments, node.arg("weights").get<std::vector<ValueId>>()->size());
      CHECK(!node.origins.empty());
    }
    CHECK(linears == expected.linears);
    CHECK(others == expected.other_nodes);
    CHECK(segments == expected.segments);
    CHECK(epilogue == expected.epilogue);
    if (is_bound(before)) check_same_values(before, graph, 5);

    Graph again = graph;
    auto second = run_passes(again, {});
    REQUIRE(second.ok());
    CHECK(print_graph(again) == print_graph(graph));
  }
}

TEST_CASE("without recognition a graph still lowers, unfused, to the same values") {
  if (skip_without_graphs()) return;
  for (const char* name : {"llama_mlp_f32", "llama_mlp_int8wo", "llama_mlp_int4wo_g32", "llama_mlp_da8w8",
                           "int8pack_siblings_bf16", "recsys_cat_linear_f32"}) {
    if (!fs::exists(graph_file(name))) continue;
    INFO(name);
    const Graph before = read(name);
    Graph graph = before;
    auto reports = run_passes(graph, {.disabled = {"recognize_linear"}, .verify_after_each = true});
    REQUIRE_MESSAGE(reports.ok(), reports.error().to_string());
    for (const Node& node : graph.nodes) {
      CHECK(node.op->role != OpRole::quantize);
      CHECK(node.op->role != OpRole::pointwise);
      CHECK(node.op->name != "qcg.linear");
    }
    check_same_values(before, graph, 5);
  }
}

TEST_CASE("explain gets the groups by the names of the export") {
  if (skip_without_graphs()) return;
  Graph graph = read("llama31_8b_linears_bf16");
  auto reports = run_passes(graph);
  REQUIRE(reports.ok());
  const PassReport& merge = *find_report(*reports, "merge_sibling_linears");
  const std::vector<std::vector<std::string>> expected = {{"linear_1", "linear_2", "linear_3"},
                                                          {"linear_4", "linear_5"}};
  CHECK(merge.groups == expected);
  CHECK(mentions(merge, "only linear that reads attn"));
}
