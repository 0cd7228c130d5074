// as_strided of torch.export: a tensor as it is, and windows of it.
#include <algorithm>

#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("torch.export: as_strided of a tensor as it is, where strides of axes of size 1 are free, and of windows") {
  Json j = small_export();
  Json& meta = meta_of(j, "wide") = meta_of(j, "relu");
  meta["sizes"].push_back({{"as_int", 1}});
  meta["strides"].push_back({{"as_int", 1}});
  meta["storage_offset"] = {{"as_int", 2}};
  meta_of(j, "same") = meta;
  const auto node = [](const char* target, const char* from, const char* to) {
    const Json rows = {{"as_name", "rows"}}, columns = {{"as_int", 3}}, one = {{"as_int", 1}};
    return Json{{"target", target},
                {"inputs", {argument("self", tensor(from)), argument("size", {{"as_sym_ints", {rows, columns, one}}})}},
                {"outputs", {tensor(to)}},
                {"metadata", Json::object()}};
  };
  Json& nodes = graph_of(j)["nodes"];
  nodes.push_back({{"target", "torch.ops.aten.sym_size.int"},
                   {"inputs", {argument("self", tensor("x")), argument("dim", {{"as_int", 0}})}},
                   {"outputs", {{{"as_sym_int", {{"as_name", "rows"}}}}}},
                   {"metadata", Json::object()}});
  graph_of(j)["sym_int_values"]["rows"] = {{"as_expr", {{"expr_str", "s0"}}}};
  nodes.push_back(node("torch.ops.aten.view.default", "relu", "wide"));
  nodes.push_back(node("torch.ops.aten.as_strided.default", "wide", "same"));
  graph_of(j)["outputs"][0] = tensor("same");
  j["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"] = tensor("same");
  Json& inputs = nodes.back()["inputs"];
  const auto with = [&](std::vector<int> strides, Json offset) {
    while (inputs.size() > 2) inputs.erase(inputs.size() - 1);
    inputs.push_back(argument("stride", {{"as_ints", strides}}));
    inputs.push_back(argument("storage_offset", offset));
    return read_bytes(j.dump());
  };
  for (const auto& read : {with({3, 1, 99}, {{"as_none", true}}), with({3, 1, 1}, {{"as_int", 2}})}) {
    REQUIRE_MESSAGE(read.ok(), read.error().to_string());
    CHECK(to_string(read->value(read->outputs[0]).shape) == "[s0, 3, 1]");
  }
  // Windows of [s0, 3]: row r reads r, r + 3 and r + 6, which all are among the 3 s0 elements if s0 is at least 3.
  const auto windows = with({1, 3, 1}, {{"as_none", true}});
  REQUIRE_MESSAGE(windows.ok(), windows.error().to_string());
  CHECK(to_string(windows->value(windows->outputs[0]).shape) == "[s0, 3, 1]");
  CHECK(std::ranges::count_if(windows->nodes, [](const Node& n) { return n.op->name == "aten.unfold.default"; }) == 2);
  REQUIRE(windows->conditions.size() == 1);
  CHECK(windows->conditions[0].text == "as_strided ends inside of its tensor");
  CHECK(windows->conditions[0].holds({{"s0", 3}}));
  CHECK_FALSE(windows->conditions[0].holds({{"s0", 2}}));

  for (const auto& read :
       {with({3, 1, 1}, {{"as_int", 0}}), with({3, 1}, {{"as_none", true}}), with({-1, 3, 1}, {{"as_none", true}})}) {
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::Unsupported);
    CHECK(read.error().message == "as_strided reads its tensor in another order");
  }
}
