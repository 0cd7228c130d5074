// compile_model on graphs that no file holds.
#include "cache/store/sha256.h"
#include "codegen/compile.h"
#include "codegen/program/origin.h"
#include "codegen/program/staging.h"
#include "graph/ops/op_table.h"
#include "graph/read/pt2.h"
#include "tests/paths.h"
#include "tests/pipeline/memory_model.h"
#include "tests/temp_dir.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// y = x wᵀ, built node by node; w has no data yet.
Graph one_linear() {
  Graph graph;
  graph.symbols = {{"m", 1, 4}};
  const Shape rows = {Dim::symbol("m"), Dim(24)};
  const ValueId x = graph.add_input("x", DType::f32, rows);
  Tensor declared;
  declared.shape = {16, 24};
  declared.strides = Tensor::row_major_strides(declared.shape);
  const ValueId w = graph.add_parameter("w", declared);
  Value y;
  y.name = "y", y.dtype = DType::f32, y.shape = {Dim::symbol("m"), Dim(16)};
  const NodeId node = graph.add_node(find_op("aten.linear.default"), {Arg{x}, Arg{w}, Arg{kNoValue}}, {y});
  graph.outputs = graph.nodes[node].outputs;
  graph.output_names = {"y"};
  return graph;
}

CompileOptions options_for(const TempDir& dir, const std::string& program) {
  CompileOptions options;
  options.output = dir / program;
  options.tune = TuneMode::off;
  options.threads = options.jobs = 1;
  options.cache_dir = dir / "cache";
  return options;
}

}  // namespace

TEST_CASE("a graph in memory is compiled, verified against the oracle, and leaves no path") {
  TempDir dir;
  GraphModel model(one_linear(), {{"w", random_tensor({16, 24}, 1)}});
  const auto report = compile_model(model, options_for(dir, "p.qcg"));
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  CHECK(report->format == "memory");
  CHECK(report->key.empty());  // nothing is known of it: it is not kept
  CHECK(report->verdict.scope == "program");
  CHECK(report->packed == 1);
  CHECK(report->kept == 0);
  CHECK(slurp(dir / "p.qcg/origin.json").find("\"graph\"") == std::string::npos);
  const auto origin = read_origin(dir / "p.qcg");
  REQUIRE(!origin.ok());
  CHECK(origin.error().message.find("in memory") != std::string::npos);
}

TEST_CASE("the graph of an exported program in memory is known again, as JSON and in a .pt2") {
  struct Exported : GraphModel {
    using GraphModel::GraphModel;
    Result<std::string> digest() const override { return sha256_hex(json); }
    std::string json;
  };
  TempDir dir;
  const std::string archive = source_dir() + "/examples/llama_mlp_int8/graph.pt2",
                    other = source_dir() + "/examples/recsys_cat_linear/graph.pt2";
  Exported model(one_linear(), {{"w", random_tensor({16, 24}, 1)}});
  model.json = read_pt2_json(archive).value();
  REQUIRE(compile_model(model, options_for(dir, "p.qcg")).ok());
  spit(dir / "model.json", model.json);
  for (const std::string& graph : {archive, dir / "model.json"}) {
    const auto origin = read_origin(dir / "p.qcg", graph);
    REQUIRE_MESSAGE(origin.ok(), origin.error().to_string());
    CHECK(origin->input == graph);
    CHECK(origin->weights.empty());
  }
  CHECK(read_origin(dir / "p.qcg", other).error().message.find("from another graph") != std::string::npos);
  CHECK(read_origin(dir / "p.qcg").error().help.find("--graph FILE") != std::string::npos);
}

TEST_CASE("weights that do not belong to a graph in memory are named") {
  const auto error_with = [](std::map<std::string, Tensor> weights) {
    const auto model = GraphModel(one_linear(), std::move(weights)).read();
    REQUIRE(!model.ok());
    return model.error();
  };
  CHECK(error_with({{"v", random_tensor({16, 24}, 1)}}).where == "v");
  CHECK(error_with({{"w", random_tensor({24, 16}, 1)}}).message.find("f32[24, 16]") != std::string::npos);

  TempDir dir;
  GraphModel unbound(one_linear());
  const auto report = compile_model(unbound, options_for(dir, "p.qcg"));
  REQUIRE(!report.ok());
  CHECK(report.error().where == "w");
}

TEST_CASE("a model that its caller identifies is read once, and found in the cache under another name") {
  TempDir dir;
  CountingModel model(one_linear(), {{"w", random_tensor({16, 24}, 1)}});
  model.parts = {{"graph", "one linear"}, {"weights", "seed 1"}};
  const auto first = compile_model(model, options_for(dir, "a.qcg"));
  REQUIRE_MESSAGE(first.ok(), first.error().to_string());
  CHECK(!first->key.empty());
  CHECK(model.reads == 1);
  const auto again = compile_model(model, options_for(dir, "b.qcg"));
  REQUIRE_MESSAGE(again.ok(), again.error().to_string());
  CHECK(again->earlier.at > 0);
  CHECK(model.reads == 1);
  model.parts[1].identity = "seed 2";
  const auto other = compile_model(model, options_for(dir, "c.qcg"));
  REQUIRE_MESSAGE(other.ok(), other.error().to_string());
  CHECK(other->earlier.at == 0);
  CHECK(model.reads == 2);
}
