#include "graph/read/text.h"
#include "graph/read/torch/export.h"
#include "graph/read/torch/meta.h"
#include "graph/read/torch/operators.h"
#include "graph/read/torch/source.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("torch.export: the small graph") {
  ReadInfo info;
  auto graph = read_bytes(small_export().dump(), {}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(info.format == "torch.export");
  CHECK(info.torch_version == "2.13.0");
  CHECK(info.node_count == 2);
  CHECK(info.weight_bytes == 60);
  REQUIRE(graph->nodes.size() == 2);
  CHECK(graph->symbols.size() == 1);
  CHECK(graph->symbols[0].max == 64);
  CHECK(graph->value(graph->inputs[0]).name == "x");
  CHECK(to_string(graph->value(graph->inputs[0]).shape) == "[s0, 4]");
  CHECK(value_named(*graph, "fc.weight") != kNoValue);
  CHECK_FALSE(graph->value(value_named(*graph, "fc.weight")).data.bound());
  CHECK(graph->output_names == std::vector<std::string>{"relu"});
  CHECK(graph->nodes[0].where == "$.graph_module.graph.nodes[0]");
  CHECK(graph->nodes[0].source == "model.py:41");
  CHECK(graph->nodes[0].origins == std::vector<std::string>{"linear"});
  CHECK(graph->nodes[1].source.empty());
}

TEST_CASE("torch.export: unknown fields are tolerated") {
  Json j = small_export();
  j["new_field"] = {1, 2, 3};
  node_of(j, 0)["new_field"] = "x";
  meta_of(j, "x")["new_field"] = nullptr;
  graph_of(j)["new_field"] = Json::object();
  CHECK(read_bytes(j.dump()).ok());
}

TEST_CASE("torch.export: a parameter may have the name of an input") {
  Json j = small_export();
  j["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] = "x";
  auto graph = read_bytes(j.dump());
  REQUIRE(graph.ok());
  CHECK(graph->value(graph->inputs[0]).name == "x");
  CHECK(value_named(*graph, "p_fc_weight") != kNoValue);
}

TEST_CASE("torch.export: all unsupported operators at once, with count, place and source") {
  Json j = small_export();
  Json sampler = node_of(j, 0), pool = node_of(j, 1);
  sampler["target"] = "torch.ops.aten.linalg_svd.default";
  sampler["name"] = "grid_sampler";
  pool["target"] = "torch.ops.higher_order.cond";
  graph_of(j)["nodes"] = {node_of(j, 0), pool, sampler, sampler, sampler};
  Error e = error_of(j);
  CHECK(e.code == ErrorCode::Unsupported);
  CHECK(contains(e.message, "2 operators of this graph have no lowering"));
  CHECK(contains(e.message, "torch.ops.aten.linalg_svd.default"));
  CHECK(contains(e.message, "3 nodes   first: $.graph_module.graph.nodes[2] (grid_sampler), model.py:41"));
  CHECK(contains(e.message, "1 node    first: $.graph_module.graph.nodes[1] (relu)"));
  CHECK(contains(e.help, "export the branch that is taken"));
  CHECK(contains(e.help, "qcodegen list ops"));
}

namespace {

// The small graph whose relu stands in a region, where the tensors have other names.
Json with_region(const char* target) {
  Json j = small_export(), inner;
  Json relu = node_of(j, 1);
  relu["inputs"] = Json::array({argument("self", tensor("fc_of_x"))});
  relu["outputs"][0] = tensor("x");  // a name that stands for something else outside
  inner["inputs"] = {tensor("fc_of_x"), tensor("unread")};
  inner["outputs"] = {tensor("x"), tensor("fc_of_x")};
  inner["nodes"] = Json::array({relu});
  inner["tensor_values"]["x"] = meta_of(j, "relu");
  Json& region = node_of(j, 1);
  region["target"] = target;
  region["inputs"] = {argument("", {{"as_bool", false}}),
                      argument("", {{"as_graph", {{"name", "submod_1"}, {"graph", inner}}}}),
                      argument("", tensor("linear")), argument("", tensor("x"))};
  region["outputs"] = {{{"as_tensors", {tensor("relu")["as_tensor"], tensor("same")["as_tensor"]}}}};
  return j;
}
Json& graph_of_region(Json& j) { return node_of(j, 1)["inputs"][1]["arg"]["as_graph"]["graph"]; }

}  // namespace

TEST_CASE("torch.export: a region under no_grad, or without autocast, is read in its place") {
  for (const char* target :
       {"torch.ops.higher_order.wrap_with_set_grad_enabled", "torch.ops.higher_order.wrap_with_autocast"}) {
    Json j = with_region(target);
    auto graph = read_bytes(j.dump());
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    CHECK(graph->nodes.size() == 2);
    CHECK(print_graph(*graph).find("= aten.relu.default(%linear)") != std::string::npos);
    CHECK(graph->outputs[0] == graph->nodes[1].outputs[0]);
    graph_of(j)["outputs"] = Json::array({tensor("same")});
    j["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"] = tensor("same");
    graph = read_bytes(j.dump());
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    CHECK(graph->outputs[0] == graph->nodes[0].outputs[0]);
  }
}

TEST_CASE("torch.export: a size that a region computes is known behind it") {
  Json j = with_region("torch.ops.higher_order.wrap_with_autocast");
  const Json size = {{"as_sym_int", {{"as_name", "rows"}}}};
  Json& inner = graph_of_region(j);
  inner["nodes"].push_back({{"target", "torch.ops.aten.sym_size.int"},
                            {"name", "rows"},
                            {"inputs", {argument("self", tensor("fc_of_x")), argument("dim", {{"as_int", 0}})}},
                            {"outputs", Json::array({size})},
                            {"metadata", Json::object()}});
  inner["sym_int_values"]["rows"] = Json::parse(R"({"as_expr": {"expr_str": "s0"}})");
  inner["outputs"] = {tensor("x"), size};
  node_of(j, 1)["outputs"] = {tensor("relu"), size};
  Json view = node_of(j, 0);
  view["target"] = "torch.ops.aten.view.default";
  view["name"] = "view";
  view["inputs"] = {argument("self", tensor("relu")),
                    argument("size", {{"as_sym_ints", {{{"as_int", 3}}, {{"as_name", "rows"}}}}})};
  view["outputs"][0] = tensor("view");
  meta_of(j, "view") = meta_of(j, "relu");
  std::swap(meta_of(j, "view")["sizes"][0], meta_of(j, "view")["sizes"][1]);
  graph_of(j)["nodes"].push_back(view);
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(print_graph(*graph).find("size = [3, s0]) : f32[3, s0]") != std::string::npos);
}

TEST_CASE("torch.export: a region that converts, writes or does not fit is refused") {
  const char *grad = "torch.ops.higher_order.wrap_with_set_grad_enabled",
             *autocast = "torch.ops.higher_order.wrap_with_autocast";
  Json j = with_region(autocast);
  node_of(j, 1)["inputs"][0]["arg"]["as_bool"] = true;
  CHECK(contains(error_of(j).help, "export without autocast"));
  j = with_region(grad);
  graph_of_region(j)["nodes"][0]["target"] = "torch.ops.aten.relu_.default";
  CHECK(contains(error_of(j).message, "writes to a tensor"));
  j = with_region(grad);
  graph_of_region(j)["nodes"][0]["target"] = "torch.ops.aten.linalg_svd.default";
  CHECK(contains(error_of(j).message, "as_graph.graph.nodes[0] (relu)"));
  j = with_region(grad);
  node_of(j, 1)["inputs"].erase(3);
  CHECK(contains(error_of(j).message, "takes more operands"));
  j = with_region(grad);
  graph_of_region(j)["inputs"].erase(1);
  CHECK(contains(error_of(j).message, "takes fewer operands"));
  j = with_region(grad);
  graph_of_region(j)["outputs"].push_back(tensor("x"));
  CHECK(contains(error_of(j).message, "gives more results"));
  j = with_region(grad);
  graph_of_region(j)["outputs"][0] = tensor("linear");  // which the region does not take
  CHECK(error_of(j).code == ErrorCode::BadInput);
  j = with_region(grad);
  node_of(j, 1)["inputs"].erase(1);
  CHECK(contains(error_of(j).message, "has no graph"));
  j = with_region(grad);
  Json write = node_of(j, 1);
  write["target"] = "torch.ops.aten.copy_.default";
  write["inputs"] = {argument("self", tensor("relu")), argument("src", tensor("linear"))};
  write["outputs"] = Json::array({tensor("after")});
  meta_of(j, "after") = meta_of(j, "relu");
  graph_of(j)["nodes"].push_back(write);
  CHECK(contains(error_of(j).message, "which a region"));
}

TEST_CASE("torch.export: operators that may not come from a file") {
  CHECK(find_torch_op("torch.ops.qcg.linear") == nullptr);
  CHECK(classify_target("torch.ops.qcg.linear") == TorchTarget::unsupported);
  CHECK(classify_target("aten.linear.default") == TorchTarget::unsupported);
  CHECK(classify_target("torch.ops.aten.linear.default") == TorchTarget::op);
}

TEST_CASE("torch.export: other names of an operator are that operator") {
  const std::pair<const char*, const char*> kNames[] = {
      {"clip.default", "clamp.default"},         {"multiply.Tensor", "mul.Tensor"},
      {"divide.Tensor_mode", "div.Tensor_mode"}, {"max.other", "maximum.default"},
      {"greater.Scalar", "gt.Scalar"},           {"greater_equal.Tensor", "ge.Tensor"},
      {"concatenate.default", "cat.default"}};
  for (const auto& [other, name] : kNames) {
    const OpSchema* op = find_torch_op(std::string("torch.ops.aten.") + other);
    REQUIRE_MESSAGE(op, other);
    CHECK(op->name == std::string("aten.") + name);
  }
  CHECK(find_torch_op("torch.ops.aten.divide") == nullptr);
}

TEST_CASE("torch.export: out_dtype of an integer mm is _int_mm") {
  Json j = small_export();
  auto argument = [](const char* kind, Json value) {
    return Json{{"name", ""}, {"arg", {{kind, value}}}, {"kind", 1}};
  };
  Json hop = node_of(j, 1);
  hop["target"] = "torch.ops.higher_order.out_dtype";
  const Json x = {{"name", "x"}};
  hop["inputs"] = {argument("as_operator", "torch.ops.aten.bmm.default"), argument("as_scalar_type", 4),
                   argument("as_tensor", x), argument("as_tensor", x)};
  graph_of(j)["nodes"] = Json::array({hop});
  SUBCASE("another operator") {
    Error e = error_of(j);
    CHECK(e.code == ErrorCode::Unsupported);
    CHECK(contains(e.message, "out_dtype of 'torch.ops.aten.bmm.default'"));
  }
  SUBCASE("no dtype") {
    graph_of(j)["nodes"][0]["inputs"].erase(1);
    CHECK(contains(error_of(j).message, "lacks its operator or its dtype"));
  }
  SUBCASE("one operand") {
    graph_of(j)["nodes"][0]["inputs"][0]["arg"]["as_operator"] = "torch.ops.aten.mm.default";
    graph_of(j)["nodes"][0]["inputs"].erase(3);
    CHECK(contains(error_of(j).message, "two tensors"));
  }
  SUBCASE("operands that are not i8") {  // they are read, and are those of _int_mm
    graph_of(j)["nodes"][0]["inputs"][0]["arg"]["as_operator"] = "torch.ops.aten.mm.default";
    CHECK(contains(error_of(j).message, "_int_mm"));
  }
}

TEST_CASE("torch.export: an encoder layer that is one operator is read as what it computes") {
  Json j = small_export();
  const auto meta_of_sizes = [&](std::vector<int64_t> sizes) {
    Json meta = meta_of(j, "p_fc_bias");
    meta["sizes"] = Json::array(), meta["strides"] = Json::array();
    int64_t stride = 1;
    for (const int64_t size : sizes) meta["sizes"].push_back({{"as_int", size}});
    for (auto size = sizes.rbegin(); size != sizes.rend(); stride *= *size++)
      meta["strides"].insert(meta["strides"].begin(), Json{{"as_int", stride}});
    return meta;
  };
  Json nodes = Json::array();
  const auto add_full = [&](const char* name, std::vector<int64_t> sizes) {
    Json full = node_of(j, 1);
    full["target"] = "torch.ops.aten.full.default";
    full["name"] = name;
    full["inputs"] = {argument("size", {{"as_ints", sizes}}), argument("fill_value", {{"as_float", 0.5}})};
    full["outputs"][0] = tensor(name);
    meta_of(j, name) = meta_of_sizes(sizes);
    nodes.push_back(full);
  };
  Json layer = node_of(j, 1);
  layer["target"] = "torch.ops.aten._transformer_encoder_layer_fwd.default";
  layer["inputs"] = {argument("embed_dim", {{"as_int", 4}}),    argument("num_heads", {{"as_int", 2}}),
                     argument("use_gelu", {{"as_bool", true}}), argument("norm_first", {{"as_bool", true}}),
                     argument("eps", {{"as_float", 1e-5}}),     argument("mask_type", {{"as_int", 1}})};
  const std::pair<const char*, std::vector<int64_t>> tensors[] = {
      {"src", {3, 5, 4}},   {"qkv_weight", {12, 4}},  {"qkv_bias", {12}},   {"proj_weight", {4, 4}},
      {"proj_bias", {4}},   {"norm_weight_1", {4}},   {"norm_bias_1", {4}}, {"norm_weight_2", {4}},
      {"norm_bias_2", {4}}, {"ffn_weight_1", {8, 4}}, {"ffn_bias_1", {8}},  {"ffn_weight_2", {4, 8}},
      {"ffn_bias_2", {4}},  {"mask", {3, 5}}};
  for (const auto& [name, sizes] : tensors) {
    add_full(name, sizes);
    layer["inputs"].push_back(argument(name, tensor(name)));
  }
  meta_of(j, "relu") = meta_of_sizes({3, 5, 4});
  nodes.push_back(layer);
  graph_of(j)["nodes"] = nodes;
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const std::string text = print_graph(*graph);
  for (const char* line : {"aten.layer_norm.default(%src, normalized_shape = [4], weight = %norm_weight_1",
                           "shape = [3, 5, 3, 2, 2]", "aten.ne.Scalar(%mask, other = 0) : bool[3, 5]",
                           "shape = [3, 1, 1, 5]", "value = -inf", "aten.gelu.default(", "%ffn_weight_2"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, line, " in\n", text);

  const size_t last = nodes.size() - 1;
  Json missing = j;
  node_of(missing, last)["inputs"].erase(6);  // src
  CHECK(contains(error_of(missing).message, "the layer lacks its tensor 'src'"));
  Json uneven = j;
  node_of(uneven, last)["inputs"][1] = argument("num_heads", {{"as_int", 3}});
  CHECK(contains(error_of(uneven).message, "an encoder layer of [3, 5, 4] in 3 heads"));
}

TEST_CASE("torch.export: source lines") {
  CHECK(source_from_stack_trace("File \"a/b/model.py\", line 7, in forward") == "model.py:7");
  CHECK(source_from_stack_trace("File \"site-packages/torch/x.py\", line 1, in f") == "x.py:1");
  CHECK(source_from_stack_trace("File \"functional_export.py\", line 1, in f\nFile \"m.py\", line 2, in g") ==
        "m.py:2");
  CHECK(module_from_stack("L__self__,,my.MLP;L__self___gate,layers.0.gate,torch.nn.modules.linear.Linear") ==
        "layers.0.gate");
  CHECK(module_from_stack("L__self__,,my.MLP") == "");
  CHECK(module_from_stack("L__self__norm@1,norm@1,torch.nn.LayerNorm") == "norm");  // called twice
  CHECK(module_from_stack("_empty_nn_module_stack_from_metadata_hook,_empty_nn_module_stack_from_metadata_hook,x") ==
        "");
  CHECK(module_from_stack("a;") == "");
  CHECK(module_from_stack("") == "");
  CHECK(module_from_stack("a,b\nc,d") == "b\\x0ac");
  CHECK(source_from_stack_trace("File \"site-packages/torch/x.py\", line 1, in f\nFile \"m.py\", line 2, in g") ==
        "m.py:2");
  CHECK(source_from_stack_trace("File \"evil\n\x01.py\", line 3") == "evil\\x0a\\x01.py:3");
  for (const char* odd : {"", "File \"", "File \"x", "File \"x\", line", "File \"x\", line z"})
    CHECK(source_from_stack_trace(odd).empty());
}

// ---- every way in which the file can lie, one row each

TEST_CASE("torch.export: a Python number in front of a tensor") {
  auto read = [](const char* target, Json self) {
    Json j = small_export();
    Json& node = graph_of(j)["nodes"][1];
    node["target"] = target;
    node["inputs"] = Json::array({argument("self", std::move(self)), argument("other", tensor("linear"))});
    return read_bytes(j.dump());
  };
  auto sub = read("torch.ops.aten.sub.Tensor", {{"as_int", -128}});
  REQUIRE_MESSAGE(sub.ok(), sub.error().to_string());
  CHECK(print_graph(*sub).find("aten.rsub.Scalar(%linear, other = -128)") != std::string::npos);
  Json sized = small_export();
  Json& nodes = graph_of(sized)["nodes"];
  nodes[1]["target"] = "torch.ops.aten.sub.Tensor";
  nodes[1]["inputs"] = Json::array(
      {argument("self", {{"as_sym_int", {{"as_name", "sym_size_int"}}}}), argument("other", tensor("linear"))});
  nodes.insert(nodes.begin(), Json{{"target", "torch.ops.aten.sym_size.int"},
                                   {"name", "sym_size_int"},
                                   {"inputs", {argument("self", tensor("x")), argument("dim", {{"as_int", 0}})}},
                                   {"outputs", {{{"as_sym_int", {{"as_name", "sym_size_int"}}}}}},
                                   {"metadata", Json::object()}});
  graph_of(sized)["sym_int_values"]["sym_size_int"] = {{"as_expr", {{"expr_str", "Symbol('s0')"}}}};
  const auto size = read_bytes(sized.dump());
  REQUIRE_MESSAGE(size.ok(), size.error().to_string());
  CHECK(print_graph(*size).find("aten.rsub.Scalar(%linear, other = s0)") != std::string::npos);
  auto mul = read("torch.ops.aten.mul.Tensor", {{"as_float", 0.5}});
  REQUIRE_MESSAGE(mul.ok(), mul.error().to_string());
  CHECK(print_graph(*mul).find("aten.mul.Tensor(%linear, other = 0.5)") != std::string::npos);
  CHECK(read("torch.ops.aten.sub.Tensor", tensor("linear")).ok());
  for (const char* target : {"torch.ops.aten.div.Tensor", "torch.ops.aten.add.Tensor"})
    CHECK_FALSE(read(target, {{"as_bool", true}}).ok());
  CHECK_FALSE(read("torch.ops.aten.sub.Tensor", Json::array()).ok());
}

TEST_CASE("torch.export: strings of a file stay data") {
  for (const char* name : {"a\"b", "x\n#include </etc/passwd>", "\\", "${HOME}", "*/ int main() {", "%s%n", "../../etc",
                           "\xd7\xa9", "\x7f"}) {
    INFO(std::string(name));
    Json j = small_export();
    j["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] = name;
    node_of(j, 0)["name"] = name;
    auto graph = read_bytes(j.dump());
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    CHECK(value_named(*graph, name) != kNoValue);
    auto again = parse_graph(print_graph(*graph));
    REQUIRE_MESSAGE(again.ok(), again.error().to_string());
    CHECK(print_graph(*again) == print_graph(*graph));
  }
}
