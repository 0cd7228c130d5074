// Sizes of positions, and of what is read and written there, to which torch.export gives symbols of their own.
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Json index_meta(int dtype, std::vector<std::string> symbols) {
  Json out = {{"dtype", dtype}, {"sizes", Json::array()}, {"strides", Json::array()}, {"layout", 7}};
  for (const std::string& symbol : symbols) {
    out["sizes"].push_back({{"as_expr", {{"expr_str", "Symbol('" + symbol + "')"}}}});
    out["strides"].push_back({{"as_int", 1}});
  }
  return out;
}

// y = target(x [rows, columns], …): what is written has symbols of its own.
Json written(const char* target, Json inputs) {
  Json j = small_export();
  for (const char* symbol : {"s0", "s1", "s2", "s3", "s4", "s5"})
    j["range_constraints"][symbol] = {{"min_val", 2}, {"max_val", nullptr}};
  Json& graph = graph_of(j);
  Json specs = Json::array();
  graph["inputs"] = Json::array();
  for (const char* name : {"x", "p", "v"}) {
    graph["inputs"].push_back(tensor(name));
    specs.push_back({{"user_input", {{"arg", tensor(name)}}}});
  }
  j["graph_module"]["signature"]["input_specs"] = specs;
  meta_of(j, "x") = meta_of(j, "relu") = index_meta(7, {"s0", "s1"});
  graph["nodes"] = Json::array({{{"target", target},
                                 {"name", "relu"},
                                 {"inputs", inputs},
                                 {"outputs", Json::array({tensor("relu")})},
                                 {"metadata", Json::object()}}});
  return j;
}

std::string sizes_of_inputs(const Json& j) {
  const auto graph = read_bytes(j.dump());
  if (!graph.ok()) return graph.error().message;
  std::string out;
  for (const ValueId id : graph->inputs) out += to_string(graph->value(id).shape);
  return out;
}

}  // namespace

TEST_CASE("torch.export: values that are written at positions are as many as these") {
  Json j = written(
      "torch.ops.aten.index_put.default",
      {argument("self", tensor("x")), argument("indices", {{"as_optional_tensors", Json::array({tensor("p")})}}),
       argument("values", tensor("v"))});
  meta_of(j, "p") = index_meta(5, {"s2"});
  meta_of(j, "v") = index_meta(7, {"s3", "s1"});
  CHECK(sizes_of_inputs(j) == "[s0, s1][s2][s2, s1]");
}

TEST_CASE("torch.export: a scatter writes what has as many elements as its positions") {
  for (const char* target : {"torch.ops.aten.scatter_add.default", "torch.ops.aten.scatter.src"}) {
    Json j = written(target, {argument("self", tensor("x")), argument("dim", {{"as_int", 1}}),
                              argument("index", tensor("p")), argument("src", tensor("v"))});
    meta_of(j, "p") = index_meta(5, {"s2", "s3"});
    meta_of(j, "v") = index_meta(7, {"s4", "s5"});
    const std::string sizes = sizes_of_inputs(j);
    CHECK_MESSAGE(sizes == "[s4, s1][s4, s5][s4, s5]", sizes);
  }
}
