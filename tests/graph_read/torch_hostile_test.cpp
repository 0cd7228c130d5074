#include <functional>

#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// One way in which a file can lie.
struct Hostile {
  const char* what;
  std::function<void(Json&)> damage;
  ErrorCode code;
  const char* where;    // part of Error::where
  const char* message;  // part of Error::message
};

}  // namespace

TEST_CASE("torch.export: hostile graphs are refused by path and reason") {
  const Hostile rows[] = {
      {"no graph", [](Json& j) { j["graph_module"].erase("graph"); }, ErrorCode::BadInput, "$.graph_module",
       "'graph' is missing"},
      {"graph is a list", [](Json& j) { graph_of(j) = Json::array(); }, ErrorCode::BadInput, "$.graph_module.graph",
       "expected an object"},
      {"other schema", [](Json& j) { j["schema_version"]["major"] = 9; }, ErrorCode::Unsupported,
       "$.schema_version.major", "schema version 9"},
      {"schema is text", [](Json& j) { j["schema_version"]["major"] = "8"; }, ErrorCode::BadInput,
       "$.schema_version.major", "expected an integer"},
      {"no schema", [](Json& j) { j.erase("schema_version"); }, ErrorCode::BadInput, "$", "'schema_version'"},
      {"target is a number", [](Json& j) { node_of(j, 0)["target"] = 3; }, ErrorCode::BadInput, "nodes[0].target",
       "expected a string"},
      {"unknown op", [](Json& j) { node_of(j, 1)["target"] = "torch.ops.aten.nope.default"; }, ErrorCode::Unsupported,
       "nodes[1]", "aten.nope.default"},
      {"unknown argument", [](Json& j) { node_of(j, 0)["inputs"][1]["name"] = "wait"; }, ErrorCode::BadInput,
       "nodes[0].inputs[1]", "no argument 'wait'"},
      {"argument twice", [](Json& j) { node_of(j, 0)["inputs"][1]["name"] = "input"; }, ErrorCode::BadInput,
       "nodes[0].inputs[1]", "given twice"},
      {"argument missing", [](Json& j) { node_of(j, 0)["inputs"].erase(1); }, ErrorCode::BadInput, "nodes[0].inputs",
       "lacks its argument 'weight'"},
      {"argument of another kind",
       [](Json& j) {
         node_of(j, 0)["inputs"][1]["arg"] = {{"as_int", 3}};
       },
       ErrorCode::BadInput, "nodes[0].inputs[1].arg", "must be a tensor, found 'as_int'"},
      {"union of two", [](Json& j) { node_of(j, 0)["inputs"][1]["arg"]["as_int"] = 3; }, ErrorCode::BadInput,
       "nodes[0].inputs[1].arg", "one field"},
      {"union of none", [](Json& j) { node_of(j, 0)["inputs"][1]["arg"] = Json::object(); }, ErrorCode::BadInput,
       "nodes[0].inputs[1].arg", "one field"},
      {"argument is a list", [](Json& j) { node_of(j, 0)["inputs"][1]["arg"] = Json::array(); }, ErrorCode::BadInput,
       "nodes[0].inputs[1].arg", "expected an object"},
      {"undefined name", [](Json& j) { node_of(j, 1)["inputs"][0]["arg"] = tensor("ghost"); }, ErrorCode::BadInput,
       "nodes[1].inputs[0].arg", "'ghost' is not defined"},
      {"cycle", [](Json& j) { node_of(j, 0)["inputs"][0]["arg"] = tensor("relu"); }, ErrorCode::BadInput,
       "nodes[0].inputs[0].arg", "'relu' is not defined above"},
      {"self loop", [](Json& j) { node_of(j, 1)["inputs"][0]["arg"] = tensor("relu"); }, ErrorCode::BadInput,
       "nodes[1].inputs[0].arg", "'relu' is not defined above"},
      {"name twice", [](Json& j) { node_of(j, 1)["outputs"][0] = tensor("linear"); }, ErrorCode::BadInput,
       "nodes[1].outputs[0]", "defined twice"},
      {"name twice in one node", [](Json& j) { node_of(j, 1)["outputs"].push_back(tensor("relu")); },
       ErrorCode::BadInput, "nodes[1].outputs[1]", "defined twice"},
      {"name of an input", [](Json& j) { node_of(j, 1)["outputs"][0] = tensor("x"); }, ErrorCode::BadInput,
       "nodes[1].outputs[0]", "defined twice"},
      {"empty name", [](Json& j) { node_of(j, 1)["outputs"][0] = tensor(""); }, ErrorCode::BadInput,
       "nodes[1].outputs[0]", "0 bytes"},
      {"long name", [](Json& j) { node_of(j, 1)["outputs"][0] = tensor(std::string(2000, 'a').c_str()); },
       ErrorCode::BadInput, "nodes[1].outputs[0]", "2000 bytes"},
      {"too many outputs",
       [](Json& j) {
         node_of(j, 1)["outputs"] = {tensor("relu"), tensor("p2")};
         meta_of(j, "p2") = meta_of(j, "relu");
       },
       ErrorCode::BadInput, "nodes[1].outputs", "1 outputs"},
      {"no metadata", [](Json& j) { graph_of(j)["tensor_values"].erase("linear"); }, ErrorCode::BadInput,
       "nodes[0].outputs[0]", "does not describe 'linear'"},
      {"shape lie", [](Json& j) { meta_of(j, "linear")["sizes"][1]["as_int"] = 5; }, ErrorCode::BadInput, "nodes[0]",
       ""},
      {"dtype lie", [](Json& j) { meta_of(j, "linear")["dtype"] = 6; }, ErrorCode::BadInput, "nodes[0]", ""},
      {"unknown dtype", [](Json& j) { meta_of(j, "linear")["dtype"] = 99; }, ErrorCode::Unsupported,
       "tensor_values.linear.dtype", "type number 99"},
      {"complex dtype", [](Json& j) { meta_of(j, "linear")["dtype"] = 10; }, ErrorCode::Unsupported, "nodes[0].outputs",
       "has complex numbers"},
      {"dtype is text", [](Json& j) { meta_of(j, "linear")["dtype"] = "f32"; }, ErrorCode::BadInput,
       "tensor_values.linear.dtype", "expected an integer"},
      {"sparse", [](Json& j) { meta_of(j, "x")["layout"] = 1; }, ErrorCode::Unsupported, "tensor_values.x.layout",
       "not strided"},
      {"negative size", [](Json& j) { meta_of(j, "p_fc_weight")["sizes"][0]["as_int"] = -3; }, ErrorCode::BadInput,
       "p_fc_weight.sizes[0]", "negative"},
      {"negative input size", [](Json& j) { meta_of(j, "x")["sizes"][1]["as_int"] = -4; }, ErrorCode::BadInput,
       "x.sizes[1]", "negative"},
      {"huge weight",
       [](Json& j) {
         for (auto& s : meta_of(j, "p_fc_weight")["sizes"]) s["as_int"] = INT64_MAX / 2;
       },
       ErrorCode::BadInput, "p_fc_weight", "too large"},
      {"symbolic weight",
       [](Json& j) {
         meta_of(j, "p_fc_bias")["sizes"][0] = {{"as_expr", {{"expr_str", "s0"}}}};
       },
       ErrorCode::BadInput, "p_fc_bias.sizes[0]", "symbolic"},
      {"strides short", [](Json& j) { meta_of(j, "p_fc_weight")["strides"].erase(0); }, ErrorCode::BadInput,
       "p_fc_weight.strides", "1 strides for 2"},
      {"too many axes",
       [](Json& j) {
         meta_of(j, "x")["sizes"] = Json(std::vector<Json>(65, {{"as_int", 1}}));
       },
       ErrorCode::BadInput, "x.sizes", "65 axes"},
      {"size expression",
       [](Json& j) { meta_of(j, "x")["sizes"][0]["as_expr"]["expr_str"] = "RoundToInt(Symbol('s0'))"; },
       ErrorCode::Unsupported, "x.sizes[0].as_expr.expr_str", "'RoundToInt'"},
      {"size is text", [](Json& j) { meta_of(j, "x")["sizes"][1] = "4"; }, ErrorCode::BadInput, "x.sizes[1]",
       "expected an object"},
      {"size is real", [](Json& j) { meta_of(j, "x")["sizes"][1]["as_int"] = 4.5; }, ErrorCode::BadInput,
       "x.sizes[1].as_int", "expected an integer"},
      {"empty range", [](Json& j) { j["range_constraints"]["s0"]["min_val"] = 65; }, ErrorCode::BadInput,
       "range_constraints.s0", "range is empty"},
      {"specs short", [](Json& j) { j["graph_module"]["signature"]["input_specs"].erase(0); }, ErrorCode::BadInput,
       "signature.input_specs", "2 specs for 3"},
      {"spec of another tensor",
       [](Json& j) { j["graph_module"]["signature"]["input_specs"][0]["parameter"]["arg"]["name"] = "x"; },
       ErrorCode::BadInput, "input_specs[0]", "names 'x'"},
      {"weight twice",
       [](Json& j) { j["graph_module"]["signature"]["input_specs"][1]["parameter"]["parameter_name"] = "fc.weight"; },
       ErrorCode::BadInput, "input_specs[1]", "declared twice"},
      {"token",
       [](Json& j) {
         j["graph_module"]["signature"]["input_specs"][2] = {{"token", {{"arg", {{"name", "x"}}}}}};
       },
       ErrorCode::Unsupported, "input_specs[2]", "effect tokens"},
      {"custom object",
       [](Json& j) {
         j["graph_module"]["signature"]["input_specs"][2] = {{"custom_obj", {{"arg", {{"name", "x"}}}}}};
       },
       ErrorCode::Unsupported, "input_specs[2]", "custom object"},
      {"integer input",
       [](Json& j) {
         graph_of(j)["inputs"][2] = {{"as_sym_int", {{"as_name", "n"}}}};
       },
       ErrorCode::BadInput, "graph.inputs[2]", "does not describe 'n'"},
      {"integer input that is derived",
       [](Json& j) {
         graph_of(j)["inputs"][2] = {{"as_sym_int", {{"as_name", "n"}}}};
         graph_of(j)["sym_int_values"]["n"] = {{"as_expr", {{"expr_str", "2*s0"}}}};
       },
       ErrorCode::Unsupported, "graph.inputs[2]", "'n' is the size 2*s0"},
      {"fraction as input",
       [](Json& j) {
         graph_of(j)["inputs"][2] = {{"as_sym_float", {{"as_name", "n"}}}};
       },
       ErrorCode::Unsupported, "graph.inputs[2]", "not a tensor"},
      {"size that is not defined as output",
       [](Json& j) {
         graph_of(j)["outputs"][0] = {{"as_sym_int", {{"as_name", "n"}}}};
       },
       ErrorCode::BadInput, "graph.outputs[0]", "'n' is not defined"},
      {"mutation",
       [](Json& j) {
         j["graph_module"]["signature"]["output_specs"][0] = {
             {"buffer_mutation", {{"arg", {{"name", "relu"}}}, {"buffer_name", "b"}}}};
       },
       ErrorCode::BadInput, "output_specs[0]", "changes the buffer 'b', which the graph does not have"},
      {"undefined output", [](Json& j) { graph_of(j)["outputs"][0] = tensor("ghost"); }, ErrorCode::BadInput,
       "graph.outputs[0]", "'ghost' is not defined"},
      {"text output",
       [](Json& j) {
         graph_of(j)["outputs"][0] = {{"as_string", "3"}};
       },
       ErrorCode::Unsupported, "graph.outputs[0]", "not a tensor"},
      {"nodes is an object", [](Json& j) { graph_of(j)["nodes"] = Json::object(); }, ErrorCode::BadInput, "graph.nodes",
       "expected a list"},
      {"node is text", [](Json& j) { graph_of(j)["nodes"][0] = "x"; }, ErrorCode::BadInput, "graph.nodes[0]",
       "expected an object"},
      {"inputs missing", [](Json& j) { node_of(j, 0).erase("inputs"); }, ErrorCode::BadInput, "nodes[0]",
       "'inputs' is missing"},
  };
  for (const Hostile& row : rows) {
    INFO(std::string(row.what));
    Json j = small_export();
    row.damage(j);
    Error e = error_of(j);
    INFO(e.to_string());
    CHECK(std::string(error_code_name(e.code)) == error_code_name(row.code));
    CHECK(contains(e.where, row.where));
    CHECK(contains(e.message, row.message));
  }
}
