#include "graph/ir/elements.h"
#include "graph/read/text.h"
#include "graph/read/torch/export.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Json real_name(const char* name) { return {{"as_sym_float", {{"as_name", name}}}}; }
Json size_name(const char* name) { return {{"as_sym_int", {{"as_name", name}}}}; }
Json expr(const char* text) { return {{"as_expr", {{"expr_str", text}}}}; }

Json number_node(const char* target, const char* name, Json inputs, Json output) {
  return {{"target", target},
          {"name", name},
          {"inputs", inputs},
          {"outputs", Json::array({output})},
          {"metadata", Json::object()}};
}

// small_export with share = 1 / x.shape[0]. The node `last` replaces relu.
Json with_share(Json last) {
  Json j = small_export();
  Json& graph = graph_of(j);
  graph["sym_int_values"]["rows"] = expr("Symbol('s0')");
  graph["sym_float_values"]["share"] = expr("IntTrueDiv(Integer(1), Symbol('s0'))");
  const Json linear = node_of(j, 0);
  graph["nodes"] =
      Json::array({linear,
                   number_node("torch.ops.aten.sym_size.int", "rows",
                               {argument("self", tensor("x")), argument("dim", {{"as_int", 0}})}, size_name("rows")),
                   number_node("_operator.truediv", "share",
                               {argument("a", {{"as_int", 1}}), argument("b", size_name("rows"))}, real_name("share")),
                   std::move(last)});
  return j;
}

std::string text_of(const Json& j) {
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  return print_graph(*graph);
}

bool holds(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("torch.export: a fraction of sizes is a tensor without axes that takes the dtype of what it meets") {
  const Json self = argument("self", tensor("linear")), share = argument("other", real_name("share"));
  const std::string product =
      text_of(with_share(number_node("torch.ops.aten.mul.Tensor", "relu", Json::array({self, share}), tensor("relu"))));
  CHECK_MESSAGE(holds(product, "aten.div.Tensor(%share, %share_1) : f64[]"), product);
  CHECK_MESSAGE(holds(product, "dtype = f32) : f32[]"), product);
  CHECK_MESSAGE(holds(product, "aten.mul.Tensor(%linear, %"), product);

  Json halves =
      with_share(number_node("torch.ops.aten.mul.Tensor", "relu", Json::array({self, share}), tensor("relu")));
  for (const char* name : {"linear", "relu", "x", "p_fc_weight", "p_fc_bias"}) meta_of(halves, name)["dtype"] = 13;
  CHECK_MESSAGE(holds(text_of(halves), "dtype = f32) : f32[]"), text_of(halves));  // not rounded to bf16

  // The operator for numbers becomes the one for tensors, also with the number in front.
  const auto reads_as = [&](const char* target, std::vector<Json> inputs, const char* text) {
    const std::string read = text_of(with_share(number_node(target, "relu", inputs, tensor("relu"))));
    CHECK_MESSAGE(holds(read, text), read);
  };
  reads_as("torch.ops.aten.sub.Tensor", {argument("self", real_name("share")), argument("other", tensor("linear"))},
           "aten.rsub.Tensor(%linear, %");
  reads_as("torch.ops.aten.pow.Tensor_Scalar", {self, argument("exponent", real_name("share"))},
           "aten.pow.Tensor_Tensor(%linear, %");
  reads_as("torch.ops.aten.clamp.default", {self, argument("max", real_name("share"))},
           "aten.clamp.Tensor(%linear, max = %");
  reads_as("torch.ops.aten.full_like.default", {self, argument("fill_value", real_name("share"))},
           ", size = [s0, 3]) : f32[s0, 3]");

  // Elsewhere it must be a constant.
  const Error refused = error_of(with_share(
      number_node("torch.ops.aten.add.Tensor", "relu",
                  {self, argument("other", tensor("linear")), argument("alpha", real_name("share"))}, tensor("relu"))));
  CHECK(refused.code == ErrorCode::Unsupported);
  CHECK(holds(refused.message, "a fraction or a power of a size"));
}

TEST_CASE(
    "torch.export: a Python number in front of a tensor is a tensor without axes where no op takes numbers there") {
  const auto first = [](const char* target, Json number, int dtype) {
    Json j = small_export();
    node_of(j, 1)["target"] = target;
    node_of(j, 1)["inputs"] = Json::array({argument("self", std::move(number)), argument("other", tensor("x"))});
    meta_of(j, "relu") = meta_of(j, "x");
    meta_of(j, "x")["dtype"] = meta_of(j, "relu")["dtype"] = dtype;
    node_of(j, 0)["inputs"][0] = argument("input", tensor("p_fc_weight"));
    meta_of(j, "linear")["sizes"][0] = {{"as_int", 3}};
    const auto graph = read_bytes(j.dump());
    return graph.ok() ? print_graph(*graph) : graph.error().to_string();
  };
  const std::string sum = first("torch.ops.aten.add.Tensor", {{"as_float", 1e-6}}, 13);
  CHECK_MESSAGE(holds(sum, "aten.scalar_tensor.default(s = 1e-06, dtype = f64) : f64[]"), sum);
  CHECK_MESSAGE(holds(sum, "dtype = f32) : f32[]"), sum);
  CHECK_MESSAGE(holds(sum, "aten.add.Tensor(%relu_1, %x) : bf16[s0, 4]"), sum);
  const std::string shift = first("torch.ops.aten.bitwise_left_shift.Scalar_Tensor", {{"as_int", 1}}, 1);
  CHECK_MESSAGE(holds(shift, "dtype = u8) : u8[]"), shift);
  CHECK_MESSAGE(holds(shift, "aten.bitwise_left_shift.Tensor(%"), shift);
  CHECK(holds(first("torch.ops.aten.div.Tensor", {{"as_bool", true}}, 7), "must be a tensor"));
}

TEST_CASE("torch.export: a number that is read out of a tensor is a tensor without axes") {
  const auto with_item = [](int dtype, Json output, Json last) {
    Json j = small_export();
    Json& graph = graph_of(j);
    graph["tensor_values"]["sum"] = Json{
        {"dtype", dtype}, {"sizes", Json::array({{{"as_int", 1}}})}, {"strides", {{{"as_int", 1}}}}, {"layout", 7}};
    graph["sym_int_values"]["item"] = expr("Symbol('u0', integer=True)");
    graph["sym_float_values"]["item"] = expr("Symbol('zuf0')");
    graph["nodes"] = Json::array(
        {node_of(j, 0),
         number_node("torch.ops.aten.sum.dim_IntList", "sum",
                     {argument("self", tensor("linear")), argument("dim", {{"as_ints", {0}}}),
                      argument("dtype", {{"as_scalar_type", dtype}})},
                     tensor("sum")),
         number_node("torch.ops.aten.item.default", "item", Json::array({argument("self", tensor("sum"))}), output),
         last});
    // one column
    meta_of(j, "linear")["sizes"][1] = meta_of(j, "relu")["sizes"][1] = {{"as_int", 1}};
    meta_of(j, "p_fc_weight")["sizes"][0] = meta_of(j, "p_fc_bias")["sizes"][0] = {{"as_int", 1}};
    return j;
  };
  const Json self = argument("self", tensor("linear"));
  const std::string reals =
      text_of(with_item(7, real_name("item"),
                        number_node("torch.ops.aten.mul.Tensor", "relu",
                                    Json::array({self, argument("other", real_name("item"))}), tensor("relu"))));
  CHECK_MESSAGE(holds(reals, "aten.reshape.default(%sum, shape = []) : f32[]"), reals);
  CHECK_MESSAGE(holds(reals, "aten.mul.Tensor(%linear, %"), reals);

  const Json whole = number_node("torch.ops.aten.mul.Tensor", "relu",
                                 Json::array({self, argument("other", size_name("item"))}), tensor("relu"));
  const std::string integers = text_of(with_item(5, size_name("item"), whole));
  CHECK_MESSAGE(holds(integers, "aten.mul.Tensor(%linear, %"), integers);

  // It is no size.
  const Error refused =
      error_of(with_item(5, size_name("item"),
                         number_node("torch.ops.aten.slice.Tensor", "relu",
                                     {self, argument("dim", {{"as_int", 0}}), argument("start", {{"as_int", 0}}),
                                      argument("end", size_name("item"))},
                                     tensor("relu"))));
  CHECK(holds(refused.message, "'item' is read out of a tensor"));

  Json returned = with_item(7, real_name("item"),
                            number_node("torch.ops.aten.relu.default", "relu", Json::array({self}), tensor("relu")));
  graph_of(returned)["outputs"].push_back(real_name("item"));
  returned["graph_module"]["signature"]["output_specs"].push_back({{"user_output", {{"arg", real_name("item")}}}});
  const auto graph = read_bytes(returned.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->value(graph->outputs.back()).dtype == DType::f64);
  CHECK(graph->output_names.back() == "item");
}

TEST_CASE("torch.export: a constant integer that is read out of a buffer is a size") {
  Json j = small_export();
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"buffer": {"arg": {"name": "p_fc_bias"}, "buffer_name": "padding", "persistent": false}})");
  meta_of(j, "p_fc_bias") = {{"dtype", 5}, {"sizes", Json::array()}, {"strides", Json::array()}, {"layout", 7}};
  graph_of(j)["sym_int_values"]["item"] = expr("Symbol('u0', integer=True)");
  meta_of(j, "relu") = meta_of(j, "x");
  meta_of(j, "relu")["sizes"][1] = expr("Add(Integer(4), Symbol('u0', integer=True))");
  graph_of(j)["outputs"] = Json::array({tensor("relu")});
  graph_of(j)["nodes"] = Json::array(
      {number_node("torch.ops.aten.item.default", "item", Json::array({argument("self", tensor("p_fc_bias"))}),
                   size_name("item")),
       number_node("torch.ops.aten.constant_pad_nd.default", "relu",
                   Json::array({argument("self", tensor("x")),
                                argument("pad", {{"as_sym_ints", {{{"as_name", "item"}}, {{"as_int", 0}}}}})}),
                   tensor("relu"))});
  const std::string text = j.dump();
  auto document = JsonDocument::parse(text, "");
  REQUIRE(document.ok());
  CHECK_FALSE(read_torch_export(*document).ok());
  const auto with = [&](DType dtype) {
    return read_torch_export(*document,
                             {{"padding", make_tensor(dtype, {}, Elements<int64_t>(std::in_place, {int64_t{3}}))}});
  };
  const auto read = with(DType::i64);
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  CHECK(to_string(read->graph.value(read->graph.outputs[0]).shape) == "[s0, 7]");
  CHECK_FALSE(with(DType::i32).ok());  // the file declares another tensor
}
