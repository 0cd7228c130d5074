// What older versions of torch and torchao write in another way.
#include <cmath>

#include "graph/read/files/json.h"
#include "graph/read/text.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Json meta_with(std::vector<int> sizes, int dtype = 7) {
  Json list = Json::array(), strides = Json::array();
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    list.push_back({{"as_int", sizes[axis]}});
    int stride = 1;
    for (size_t inner = axis + 1; inner < sizes.size(); ++inner) stride *= sizes[inner];
    strides.push_back({{"as_int", stride}});
  }
  return {{"dtype", dtype}, {"sizes", list}, {"strides", strides}, {"layout", 7}};
}

Json node_of_target(const char* target, const char* name, Json inputs, Json outputs) {
  return {{"target", target}, {"name", name}, {"inputs", inputs}, {"outputs", outputs}, {"metadata", Json::object()}};
}

std::string text_after_reading(const Json& j) {
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  return print_graph(*graph);
}

}  // namespace

TEST_CASE("json: numbers that torch up to 2.7 writes as Python does") {
  const auto document = JsonDocument::parse("[Infinity, -Infinity, NaN]", "");
  REQUIRE(document.ok());
  std::vector<double> values;
  for (JsonCursor value : document->root()) {
    CHECK(value.is(JsonKind::real));
    values.push_back(*value.real());
  }
  REQUIRE(values.size() == 3);
  CHECK(values[0] == INFINITY);
  CHECK(values[1] == -INFINITY);
  CHECK(std::isnan(values[2]));
  for (const char* bad : {"Inf", "-Inf", "-NaN", "Infinite", "nan", "[Infinity"}) {
    INFO(std::string(bad));
    CHECK_FALSE(JsonDocument::parse(bad, "").ok());
  }
}

TEST_CASE("torch.export: last states of an LSTM that torch 2.6 to 2.11 describes with an axis too many") {
  Json j = small_export();
  meta_of(j, "p_fc_weight") = meta_with({12, 4});
  meta_of(j, "p_fc_bias") = meta_with({12, 3});
  meta_of(j, "x") = meta_with({5, 2, 4});
  for (const char* name : {"zeros", "last"}) meta_of(j, name) = meta_with({1, 2, 3});
  meta_of(j, "sequence") = meta_with({5, 2, 3});
  meta_of(j, "relu") = meta_with({1, 2, 3});
  const auto describe = [&](std::vector<int> sizes) { meta_of(j, "h") = meta_of(j, "c") = meta_with(sizes); };
  const Json zeros = {{"name", "zeros"}};
  graph_of(j)["nodes"] = Json::array(
      {node_of_target("torch.ops.aten.zeros.default", "zeros",
                      Json::array({argument("size", {{"as_ints", {1, 2, 3}}})}), Json::array({tensor("zeros")})),
       node_of_target("torch.ops.aten.lstm.input", "lstm",
                      {argument("input", tensor("x")), argument("hx", {{"as_tensors", {zeros, zeros}}}),
                       argument("params", {{"as_tensors", {{{"name", "p_fc_weight"}}, {{"name", "p_fc_bias"}}}}}),
                       argument("has_biases", {{"as_bool", false}}), argument("num_layers", {{"as_int", 1}}),
                       argument("dropout", {{"as_float", 0.0}}), argument("train", {{"as_bool", false}}),
                       argument("bidirectional", {{"as_bool", false}}), argument("batch_first", {{"as_bool", false}})},
                      {tensor("sequence"), tensor("h"), tensor("c")}),
       node_of_target(
           "torch.ops.aten.select.int", "last",
           {argument("self", tensor("h")), argument("dim", {{"as_int", 0}}), argument("index", {{"as_int", -1}})},
           Json::array({tensor("last")})),
       node_of_target("torch.ops.aten.relu.default", "relu", Json::array({argument("self", tensor("last"))}),
                      Json::array({tensor("relu")}))});
  describe({1, 1, 2, 3});
  const std::string text = text_after_reading(j);
  CHECK_MESSAGE(text.find("%last = aten.select.int(%h, dim = 0, index = -1) : f32[2, 3]") != text.npos, text);
  CHECK_MESSAGE(text.find("%relu = aten.relu.default(%last) : f32[2, 3]") != text.npos, text);
  describe({1, 2, 4});  // another error is none of torch's
  CHECK(error_of(j).code == ErrorCode::BadInput);
}

TEST_CASE("torch.export: quotients of integers that torch 2.6 describes as integers") {
  Json j = small_export();
  const Json whole = {
      {"dtype", 5}, {"sizes", meta_of(j, "x")["sizes"]}, {"strides", meta_of(j, "x")["strides"]}, {"layout", 7}};
  for (const char* name : {"x", "third", "relu"}) meta_of(j, name) = whole;
  graph_of(j)["nodes"] =
      Json::array({node_of_target("torch.ops.aten.div.Tensor", "third",
                                  {argument("self", tensor("x")), argument("other", {{"as_int", 3}})},
                                  Json::array({tensor("third")})),
                   node_of_target("torch.ops.aten.relu.default", "relu",
                                  Json::array({argument("self", tensor("third"))}), Json::array({tensor("relu")}))});
  const std::string text = text_after_reading(j);
  CHECK_MESSAGE(text.find("aten.div.Tensor(%x, other = 3) : f32[s0, 4]") != text.npos, text);
  CHECK_MESSAGE(text.find("aten.relu.default(%third) : f32[s0, 4]") != text.npos, text);
}

TEST_CASE("torch.export: what nodes assert of sizes is used like guards") {
  // x [s0, 4] in pairs: view(s0 // 2, 8) is valid where s0 == 2 * (s0 // 2), which a node asserts.
  const auto in_pairs = [](bool asserts) {
    const char* half = "FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2))";
    Json j = small_export();
    Json& graph = graph_of(j);
    const auto expr = [](std::string text) { return Json{{"as_expr", {{"expr_str", text}}}}; };
    const Json half_size = {{"as_sym_int", {{"as_name", "half"}}}};
    graph["sym_int_values"]["half"] = expr(half);
    graph["sym_bool_values"]["even"] = expr(std::string("Equality(Mul(Integer(2), ") + half + "), Symbol('s0'))");
    meta_of(j, "relu")["sizes"] = Json::array({expr(half), {{"as_int", 8}}});
    Json nodes = Json::array({node_of_target("_operator.floordiv", "half", Json::array(), Json::array({half_size})),
                              node_of_target("_operator.eq", "even", Json::array(),
                                             Json::array({Json{{"as_sym_bool", {{"as_name", "even"}}}}}))});
    if (asserts)
      nodes.push_back(node_of_target(
          "torch.ops.aten._assert_scalar.default", "_assert_scalar",
          {argument("self", {{"as_sym_bool", {{"as_name", "even"}}}}), argument("assert_msg", {{"as_string", "…"}})},
          Json::array()));
    nodes.push_back(node_of_target(
        "torch.ops.aten.view.default", "relu",
        {argument("self", tensor("x")), argument("size", {{"as_sym_ints", {{{"as_name", "half"}}, {{"as_int", 8}}}}})},
        Json::array({tensor("relu")})));
    graph["nodes"] = nodes;
    return j;
  };
  const std::string text = text_after_reading(in_pairs(true));
  CHECK_MESSAGE(text.find("graph(%x: f32[2*s0_by_2, 4])") != text.npos, text);
  CHECK(error_of(in_pairs(false)).code == ErrorCode::BadInput);
}

TEST_CASE("torch.export: older names and arguments of torchao's operators are read") {
  Json j = small_export();
  meta_of(j, "p_fc_weight") = meta_with({3, 4}, 2);
  meta_of(j, "w") = meta_with({3, 4});
  graph_of(j)["tensor_values"]["p_fc_bias"] = meta_with({3});
  const auto with = [&](const char* target, std::vector<Json> more) {
    Json inputs = {argument("input", tensor("p_fc_weight")), argument("block_size", {{"as_ints", {1, 4}}}),
                   argument("scale", tensor("p_fc_bias")), argument("zero_point", {{"as_none", true}}),
                   argument("input_dtype", {{"as_scalar_type", 2}})};
    for (Json& one : more) inputs.push_back(one);
    Json out = j;
    Json linear = node_of(out, 0);
    linear["inputs"] = {argument("input", tensor("x")), argument("weight", tensor("w"))};
    graph_of(out)["nodes"] =
        Json::array({node_of_target(target, "w", inputs, Json::array({tensor("w")})), linear, node_of(j, 1)});
    return out;
  };
  const Json whole = argument("zero_point_domain", {{"as_string", "INT"}});
  const char* older = "torch.ops.quant.dequantize_affine.default";
  CHECK(text_after_reading(with(older, {whole})).find("torchao.dequantize_affine") != std::string::npos);
  CHECK(text_after_reading(with("torch.ops.torchao.dequantize_affine.default", {whole})).find("torchao.dequantize") !=
        std::string::npos);
  const Error other = error_of(with(older, {argument("zero_point_domain", {{"as_string", "FLOAT"}})}));
  CHECK(other.code == ErrorCode::Unsupported);
  CHECK(other.message.find("zero points of the domain 'FLOAT'") != std::string::npos);
  CHECK(error_of(with(older, {argument("preserve_zero", {{"as_bool", 3}})})).code == ErrorCode::BadInput);
}

TEST_CASE("torch.export: a dequantization of 8-bit floats is a product with their scales") {
  const auto with = [](const char* target, std::vector<Json> inputs) {
    Json j = small_export();
    meta_of(j, "p_fc_weight") = meta_with({3, 4}, 29);
    meta_of(j, "p_fc_bias") = meta_with({3, 1});
    meta_of(j, "w") = meta_with({3, 4});
    Json linear = node_of(j, 0);
    linear["inputs"] = {argument("input", tensor("x")), argument("weight", tensor("w"))};
    graph_of(j)["nodes"] =
        Json::array({node_of_target(target, "w", inputs, Json::array({tensor("w")})), linear, node_of(j, 1)});
    return j;
  };
  const Json codes = tensor("p_fc_weight"), scale = argument("scale", tensor("p_fc_bias"));
  const std::string by_scale = text_after_reading(
      with("torch.ops.torchao.dequantize_affine_float8.default", {argument("tensor", codes), scale}));
  CHECK_MESSAGE(by_scale.find("aten.mul.Tensor(%w_1, @fc.bias) : f32[3, 4]") != by_scale.npos, by_scale);
  const auto blocks = [&](std::vector<int> sizes) {
    return with("torch.ops.torchao.dequantize_affine.default",
                {argument("input", codes), argument("block_size", {{"as_ints", sizes}}), scale,
                 argument("zero_point", {{"as_none", true}}), argument("input_dtype", {{"as_scalar_type", 29}}),
                 argument("zero_point_domain", {{"as_string", "NONE"}})});
  };
  const std::string by_block = text_after_reading(blocks({1, 4}));
  CHECK_MESSAGE(by_block.find("aten.reshape.default(@fc.bias, shape = [3, 1]) : f32[3, 1]") != by_block.npos, by_block);
  CHECK(error_of(blocks({1, 2})).code == ErrorCode::Unsupported);

  Json quantized = small_export();
  meta_of(quantized, "linear")["dtype"] = 29;
  meta_of(quantized, "linear")["sizes"] = meta_of(quantized, "x")["sizes"];
  meta_of(quantized, "relu") = meta_of(quantized, "x");
  meta_of(quantized, "p_fc_bias") = meta_with({1, 4});
  graph_of(quantized)["nodes"] =
      Json::array({node_of_target("torch.ops.torchao.quantize_affine_float8.default", "linear",
                                  {argument("tensor", tensor("x")), scale}, Json::array({tensor("linear")})),
                   node_of_target("torch.ops.torchao.dequantize_affine_float8.default", "relu",
                                  {argument("tensor", tensor("linear")), scale}, Json::array({tensor("relu")}))});
  const std::string steps = text_after_reading(quantized);
  for (const char* step : {"aten.div.Tensor(%x, @fc.bias) : f32[s0, 4]", "min = -448.0, max = 448.0) : f32[s0, 4]",
                           "dtype = f8e4m3) : f8e4m3[s0, 4]"})
    CHECK_MESSAGE(steps.find(step) != steps.npos, steps);
}

TEST_CASE("torch.export: parameters of symmetric quantization without a zero point") {
  Json j = small_export();
  meta_of(j, "relu") = meta_of(j, "x");
  meta_of(j, "relu")["sizes"] = Json::array({meta_of(j, "x")["sizes"][0]});
  meta_of(j, "relu")["strides"] = Json::array({Json{{"as_int", 1}}});
  const auto none = [](const char* name) { return argument(name, {{"as_none", true}}); };
  graph_of(j)["nodes"] = Json::array(
      {node_of_target("torch.ops.quant.choose_qparams_affine.default", "choose",
                      {argument("input", tensor("x")), argument("mapping_type", {{"as_string", "SYMMETRIC"}}),
                       argument("block_size", {{"as_ints", {1, 4}}}), argument("target_dtype", {{"as_scalar_type", 2}}),
                       argument("quant_min", {{"as_int", -8}}), argument("quant_max", {{"as_int", 7}}),
                       none("zero_point_dtype"), argument("preserve_zero", {{"as_bool", true}}),
                       argument("zero_point_domain", {{"as_string", "NONE"}}), none("min_val"), none("max_val")},
                      {tensor("relu"), Json{{"as_none", true}}})});
  const std::string text = text_after_reading(j);
  CHECK_MESSAGE(text.find("%relu, %zero_point = torchao.choose_qparams_affine.default(%x") != text.npos, text);
}

TEST_CASE("torch.export: results of unsupported operators that nothing reads are left out") {
  Json j = small_export();
  meta_of(j, "rand") = meta_with({});
  Json drawn =
      node_of_target("torch.ops.aten.rand.default", "rand",
                     Json::array({argument("size", {{"as_ints", Json::array()}})}), Json::array({tensor("rand")}));
  Json& nodes = graph_of(j)["nodes"];
  nodes.insert(nodes.begin(), drawn);
  const std::string text = text_after_reading(j);
  CHECK_MESSAGE(text.find("rand") == text.npos, text);
  node_of(j, 2)["inputs"][0] = argument("self", tensor("rand"));
  CHECK(error_of(j).message.find("torch.ops.aten.rand.default") != std::string::npos);
}

TEST_CASE("torch.export: parts of an axis of a run-time size have the sizes that the file says") {
  Json j = small_export();
  const auto half = [](const char* text) { return Json{{"as_expr", {{"expr_str", text}}}}; };
  const char* first = "FloorDiv(Add(Symbol('s0'), Integer(1)), Integer(2))";
  meta_of(j, "a") = meta_of(j, "x");
  meta_of(j, "b") = meta_of(j, "x");
  meta_of(j, "relu") = meta_of(j, "x");
  meta_of(j, "a")["sizes"][0] = meta_of(j, "relu")["sizes"][0] = half(first);
  meta_of(j, "b")["sizes"][0] =
      half("Add(Symbol('s0'), Mul(Integer(-1), FloorDiv(Add(Symbol('s0'), Integer(1)), Integer(2))))");
  graph_of(j)["nodes"] =
      Json::array({node_of_target("torch.ops.aten.chunk.default", "chunk",
                                  {argument("self", tensor("x")), argument("chunks", {{"as_int", 2}})},
                                  Json::array({Json{{"as_tensors", {{{"name", "a"}}, {{"name", "b"}}}}}})),
                   node_of_target("torch.ops.aten.relu.default", "relu", Json::array({argument("self", tensor("a"))}),
                                  Json::array({tensor("relu")}))});
  const std::string text = text_after_reading(j);
  CHECK_MESSAGE(text.find("aten.split_with_sizes.default(%x, split_sizes = [floordiv(s0+1,2), ") != text.npos, text);
}

TEST_CASE("torch.export: a strict export declares tied weights twice") {
  Json j = small_export();
  meta_of(j, "x") = meta_with({5, 4});
  meta_of(j, "p_fc_weight") = meta_of(j, "p_head_weight") = meta_with({4, 4});
  for (const char* name : {"linear", "relu"}) meta_of(j, name) = meta_with({5, 4});
  Json& inputs = graph_of(j)["inputs"];
  Json& specs = j["graph_module"]["signature"]["input_specs"];
  inputs[1] = tensor("p_head_weight");
  specs[1]["parameter"] = {{"arg", {{"name", "p_head_weight"}}}, {"parameter_name", "fc.weight"}};
  node_of(j, 0)["inputs"] = {argument("input", tensor("x")), argument("weight", tensor("p_head_weight"))};
  const std::string text = text_after_reading(j);
  CHECK_MESSAGE(text.find("aten.linear.default(%x, @fc.weight)") != text.npos, text);
  meta_of(j, "p_head_weight") = meta_with({4, 2});
  CHECK(error_of(j).message.find("'fc.weight' is declared twice") != std::string::npos);
}

TEST_CASE("torch.export: a stack of no tensors is refused") {
  Json j = small_export();
  node_of(j, 1)["target"] = "torch.ops.aten.stack.default";
  node_of(j, 1)["inputs"] = Json::array({argument("tensors", {{"as_tensors", Json::array()}})});
  CHECK(error_of(j).message.find("nothing to stack") != std::string::npos);
}
