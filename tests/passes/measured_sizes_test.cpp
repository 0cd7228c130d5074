// Sizes of torch.export that the run computes: nonzero, masks as indices, numbers read out of tensors.
#include "graph/oracle/ops.h"
#include "graph/oracle/reference.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Json any_node(const char* target, const char* name, Json inputs, Json output) {
  return {{"target", target},
          {"name", name},
          {"inputs", inputs},
          {"outputs", Json::array({output})},
          {"metadata", Json::object()}};
}

Json size_expr(const std::string& text) { return {{"as_expr", {{"expr_str", text}}}}; }
Json size_called(const char* name) { return {{"as_sym_int", {{"as_name", name}}}}; }

Json meta_with(int dtype, std::vector<Json> sizes) {
  Json out = {{"dtype", dtype}, {"sizes", Json::array()}, {"strides", Json::array()}, {"layout", 7}};
  for (const Json& size : sizes) out["sizes"].push_back(size), out["strides"].push_back({{"as_int", 1}});
  return out;
}

// small_export's x [s0, 4], and what `nodes` make of it. The last one makes "relu".
Json nodes_on_mask(std::vector<Json> nodes, Json result) {
  Json j = small_export();
  j["range_constraints"]["u0"] = {{"min_val", 0}, {"max_val", nullptr}};
  meta_of(j, "x")["dtype"] = 7;
  meta_of(j, "mask") = meta_with(12, {size_expr("s0"), {{"as_int", 4}}});
  meta_of(j, "relu") = std::move(result);
  graph_of(j)["nodes"] =
      Json::array({any_node("torch.ops.aten.gt.Scalar", "mask",
                            {argument("self", tensor("x")), argument("other", {{"as_int", 0}})}, tensor("mask"))});
  for (Json& each : nodes) graph_of(j)["nodes"].push_back(std::move(each));
  return j;
}

Json index_by(const char* mask) { return {{"as_optional_tensors", Json::array({tensor(mask)})}}; }

Tensor rows_of_four(std::vector<float> values) {
  const auto rows = static_cast<int64_t>(values.size()) / 4;
  return make_floats({rows, 4}, std::move(values));
}

}  // namespace

TEST_CASE("torch.export: nonzero measures how many elements there are, and the bound is all of them") {
  Json j = nodes_on_mask(
      {any_node("torch.ops.aten.nonzero.default", "places", Json::array({argument("self", tensor("mask"))}),
                tensor("places")),
       any_node("torch.ops.aten.sum.dim_IntList", "relu",
                {argument("self", tensor("places")), argument("dim", {{"as_ints", {0}}})}, tensor("relu"))},
      meta_with(5, {{{"as_int", 2}}}));
  meta_of(j, "places") = meta_with(5, {size_expr("u0"), {{"as_int", 2}}});
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->measured_symbols() == std::vector<std::string>{"u0"});
  const auto found = std::ranges::find_if(graph->nodes, [](const Node& n) { return !measured_symbol(n).empty(); });
  CHECK(found->arg("most").get<Dim>()->str() == "4*s0");
  // Elements [0, 1], [1, 0] and [1, 2] are above 0: their rows add up to 2, their columns to 3.
  const auto sums = evaluate_graph(*graph, {rows_of_four({-1, 1, -1, -1, 2, 0, 3, -1})});
  REQUIRE_MESSAGE(sums.ok(), sums.error().to_string());
  CHECK(read_doubles((*sums)[0]) == std::vector<double>{2, 3});
  const auto none = evaluate_graph(*graph, {rows_of_four({-1, -1, -1, -1})});
  REQUIRE_MESSAGE(none.ok(), none.error().to_string());
  CHECK(read_doubles((*none)[0]) == std::vector<double>{0, 0});
}

TEST_CASE("torch.export: a mask selects elements, and written again it says where they go back to: one size") {
  Json j = nodes_on_mask(
      {any_node("torch.ops.aten.index.Tensor", "chosen",
                {argument("self", tensor("x")), argument("indices", index_by("mask"))}, tensor("chosen")),
       any_node("torch.ops.aten.add.Tensor", "more",
                {argument("self", tensor("chosen")), argument("other", {{"as_int", 5}})}, tensor("more")),
       any_node("torch.ops.aten.gt.Scalar", "again",
                {argument("self", tensor("x")), argument("other", {{"as_int", 0}})}, tensor("again")),
       any_node(
           "torch.ops.aten.index_put.default", "relu",
           {argument("self", tensor("x")), argument("indices", index_by("again")), argument("values", tensor("more"))},
           tensor("relu"))},
      meta_with(7, {size_expr("s0"), {{"as_int", 4}}}));
  meta_of(j, "again") = meta_of(j, "mask");
  meta_of(j, "chosen") = meta_of(j, "more") = meta_with(7, {size_expr("u0")});
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->measured_symbols() == std::vector<std::string>{"u0"});
  const auto y = evaluate_graph(*graph, {rows_of_four({-1, 1, -1, -1, 2, 0, 3, -1})});
  REQUIRE_MESSAGE(y.ok(), y.error().to_string());
  CHECK(read_doubles((*y)[0]) == std::vector<double>{-1, 6, -1, -1, 7, 0, 8, -1});
}

TEST_CASE("torch.export: a number read out of a tensor is a size where torch asserts a bound of it") {
  const auto sliced = [](const char* asserted) {
    Json j = nodes_on_mask(
        {any_node("torch.ops.aten.sum.default", "count", Json::array({argument("self", tensor("mask"))}),
                  tensor("count")),
         any_node("torch.ops.aten.item.default", "item", Json::array({argument("self", tensor("count"))}),
                  size_called("item")),
         any_node(
             "torch.ops.aten._assert_scalar.default", "checked",
             {argument("self", {{"as_sym_bool", {{"as_name", "le"}}}}), argument("assert_msg", {{"as_string", ""}})},
             {{"as_none", true}}),
         any_node("torch.ops.aten.slice.Tensor", "part",
                  {argument("self", tensor("x")), argument("dim", {{"as_int", 0}}), argument("start", {{"as_int", 0}}),
                   argument("end", size_called("item"))},
                  tensor("part")),
         any_node("torch.ops.aten.sum.dim_IntList", "relu",
                  {argument("self", tensor("part")), argument("dim", {{"as_ints", {0}}})}, tensor("relu"))},
        meta_with(7, {{{"as_int", 4}}}));
    meta_of(j, "count") = meta_with(5, {});
    meta_of(j, "part") = meta_with(7, {size_expr("u0"), {{"as_int", 4}}});
    graph_of(j)["sym_int_values"]["item"] = size_expr("Symbol('u0', integer=True)");
    graph_of(j)["sym_bool_values"]["le"] = size_expr(asserted);
    return read_bytes(j.dump());
  };
  const auto graph = sliced("LessThan(Symbol('u0'), Symbol('s0'))");
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto y = evaluate_graph(*graph, {rows_of_four({1, -1, -1, 0, 8, -8, -8, 0})});
  REQUIRE_MESSAGE(y.ok(), y.error().to_string());
  // Two numbers are above 0, so both rows are summed.
  CHECK(read_doubles((*y)[0]) == std::vector<double>{9, -9, -9, 0});
  const auto beyond = evaluate_graph(*graph, {rows_of_four({1, 1, 1, 0})});
  REQUIRE(!beyond.ok());
  CHECK(beyond.error().message == "u0 is 3, and may be from 0 to 1");

  const auto unbounded = sliced("GreaterThan(Symbol('u0'), Integer(0))");
  REQUIRE(!unbounded.ok());
  CHECK(unbounded.error().message == "the number 'item' is read out of a tensor (.item()): it depends on the data");
  CHECK(unbounded.error().help.find("torch._check(n <= x.shape[0])") != std::string::npos);
}
