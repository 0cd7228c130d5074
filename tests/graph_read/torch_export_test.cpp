#include "graph/read/torch_export.h"

#include <functional>

#include "graph/read/text.h"
#include "graph/read/torch_meta.h"
#include "graph/read/torch_operators.h"
#include "graph/read/torch_source.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Json& graph_of(Json& j) { return j["graph_module"]["graph"]; }
Json& node_of(Json& j, size_t i) { return graph_of(j)["nodes"][i]; }
Json& meta_of(Json& j, const char* name) { return graph_of(j)["tensor_values"][name]; }
Json tensor(const char* name) { return {{"as_tensor", {{"name", name}}}}; }
Json argument(const char* name, Json arg) { return {{"name", name}, {"arg", std::move(arg)}, {"kind", 1}}; }

std::string size_text(const char* expr) {
  auto dim = parse_size_expr(expr);
  return dim.ok() ? dim->str() : std::string(error_code_name(dim.error().code)) + " " + dim.error().message;
}

}  // namespace

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

TEST_CASE("torch.export: size expressions") {
  CHECK(size_text("s0") == "s0");
  CHECK(size_text("Symbol('s77', positive=True, integer=True)") == "s77");
  CHECK(size_text("Mul(Integer(2), Symbol('s0', positive=True, integer=True))") == "2*s0");
  CHECK(size_text("Add(Mul(Integer(2), Symbol('a')), Integer(-3))") == "2*a-3");
  CHECK(size_text("Pow(Symbol('s0'), Integer(2))") == "s0*s0");
  CHECK(size_text("2*s0 + 1") == "2*s0+1");
  CHECK(size_text("Integer(7)") == "7");
  CHECK(size_text("Add(FloorDiv(Add(Symbol('s0'), Integer(-1)), Integer(2)), Integer(1))") == "floordiv(s0+1,2)");
  CHECK(size_text("Max(Integer(1), Symbol('s0'))") == "-min(1,s0)+s0+1");
  CHECK(size_text("Min(Integer(4096), Symbol('s0'), Symbol('s1'))") == "min(min(4096,s0),s1)");
  CHECK(size_text("PythonMod(Symbol('s0'), Integer(8))") == "-8*floordiv(s0,8)+s0");
  CHECK(size_text("ModularIndexing(Symbol('s0'), Integer(4), Integer(2))") == "floordiv(s0,4)-2*floordiv(s0,8)");
  for (const char* bad :
       {"FloorDiv(Symbol('s0'), Integer(0))", "FloorDiv(Symbol('s0'))", "Max()", "Pow(Symbol('s0'), Integer(-1))",
        "Pow(Symbol('s0'), Integer(99))", "__import__('os').system('true')", "lambda: 0"}) {
    INFO(std::string(bad));
    CHECK_FALSE(parse_size_expr(bad).ok());
  }
  for (const char* bad : {"", "(", "Symbol(", "Symbol('s0'", "Symbol('')", "Symbol('1a')", "Add(", "Add()",
                          "Add(Integer(1)", "Integer(99999999999999999999)", "Integer()", "Symbol('s0', positive)",
                          "Mul(Integer(9223372036854775807), Integer(2))", "s0 s1", "Symbol('s\n0')"}) {
    INFO(std::string(bad));
    CHECK_FALSE(parse_size_expr(bad).ok());
  }
  std::string deep;
  for (int i = 0; i < 400; ++i) deep += "Add(";
  CHECK_FALSE(parse_size_expr(deep + "Integer(1)" + std::string(400, ')')).ok());
}

TEST_CASE("torch.export: sizes rounded from fractions") {
  CHECK(size_text("TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s0'))))") == "floordiv(s0,2)+s0");
  CHECK(size_text("TruncToInt(Mul(Float('2.0', precision=53), ToFloat(Symbol('s0'))))") == "2*s0");
  CHECK(size_text("CeilToInt(IntTrueDiv(Symbol('s0'), Integer(3)))") == "-floordiv(2*s0,3)+s0");
  CHECK(size_text("CeilToInt(FloatTrueDiv(Add(ToFloat(Mul(Integer(2), Symbol('s0'))), Float('-0.5', precision=53)), "
                  "Float('1.0', precision=53)))") == "2*s0");
  CHECK(size_text("FloorToInt(IntTrueDiv(Symbol('s0'), Symbol('s1')))") == "floordiv(s0,s1)");
  for (const int64_t at : {0, 1, 2, 3, 4}) {  // a truncation is up where it is below 0
    const auto dim = parse_size_expr("TruncToInt(IntTrueDiv(Add(Symbol('s0'), Integer(-3)), Integer(2)))");
    REQUIRE(dim.ok());
    CHECK(dim->evaluate({{"s0", at}}) == (at - 3) / 2);
  }
  for (const char* bad : {"TruncToInt(Mul(Float('0.7', precision=53), ToFloat(Symbol('s0'))))",  // 0.7 * 10 is 7 in f64
                          "TruncToInt(Mul(Integer(3), IntTrueDiv(Symbol('s0'), Integer(3))))",
                          "TruncToInt(IntTrueDiv(Symbol('s0'), Integer(0)))",
                          "TruncToInt(IntTrueDiv(Symbol('s0'), Add(Symbol('s1'), Integer(-9))))",
                          "ToFloat(Symbol('s0'))", "TruncToInt(Symbol('s0'), Integer(1))", "Float('nan', precision=53)",
                          "TruncToInt(Float('1.5'", "Min(ToFloat(Symbol('s0')), Integer(1))"}) {
    INFO(std::string(bad));
    CHECK_FALSE(parse_size_expr(bad).ok());
  }
  const auto ratio =
      parse_real_expr("FloatTrueDiv(ToFloat(Symbol('s0')), Mul(Float('1.5', precision=53), ToFloat(Symbol('s0'))))");
  REQUIRE(ratio.ok());
  CHECK(*ratio == 2.0 / 3.0);
  const auto open = parse_real_expr("IntTrueDiv(Symbol('s0'), Integer(9))");
  CHECK((open.ok() && !*open));
}

TEST_CASE(
    "torch.export: a number read out of a tensor that sizes determine is a size; of data it feeds assertions alone") {
  const auto node = [](const char* target, const char* name, Json inputs, Json output) {
    return Json{{"target", target},
                {"name", name},
                {"inputs", inputs},
                {"outputs", Json::array({output})},
                {"metadata", Json::object()}};
  };
  const auto size = [](const char* name) { return Json{{"as_sym_int", {{"as_name", name}}}}; };
  const auto expr = [](const char* text) { return Json{{"as_expr", {{"expr_str", text}}}}; };
  Json j = small_export();
  Json& graph = j["graph_module"]["graph"];
  const Json number = {{"dtype", 5}, {"sizes", Json::array()}, {"strides", Json::array()}, {"layout", 7}};
  graph["sym_int_values"]["rows"] = expr("Symbol('s0')");
  graph["sym_int_values"]["item"] = expr("Symbol('u0', integer=True)");
  for (const char* name : {"held", "less"}) graph["tensor_values"][name] = number;
  graph["tensor_values"]["part"] = graph["tensor_values"]["x"];
  graph["tensor_values"]["part"]["sizes"][0] = expr("Symbol('u1', integer=True)");
  Json nodes = Json::array();
  nodes.push_back(node("torch.ops.aten.sym_size.int", "rows",
                       {argument("self", tensor("x")), argument("dim", {{"as_int", 0}})}, size("rows")));
  nodes.push_back(node("torch.ops.aten.scalar_tensor.default", "held",
                       {argument("s", size("rows")), argument("dtype", {{"as_scalar_type", 5}})}, tensor("held")));
  nodes.push_back(node("torch.ops.aten.sub.Tensor", "less",
                       {argument("self", tensor("held")), argument("other", {{"as_int", 1}})}, tensor("less")));
  nodes.push_back(
      node("torch.ops.aten.item.default", "item", Json::array({argument("self", tensor("less"))}), size("item")));
  nodes.push_back(node("torch.ops.aten.slice.Tensor", "part",
                       {argument("self", tensor("x")), argument("dim", {{"as_int", 0}}),
                        argument("start", {{"as_int", 0}}), argument("end", size("item"))},
                       tensor("part")));
  for (const Json& old : graph["nodes"]) nodes.push_back(old);
  Json by_size = j;
  by_size["graph_module"]["graph"]["nodes"] = nodes;
  const auto read = read_bytes(by_size.dump());
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  CHECK(to_string(read->value(value_named(*read, "part")).shape).starts_with("[s0-1"));

  graph["tensor_values"]["sum"] = number;  // of what the input holds
  nodes[1] = node("torch.ops.aten.sum.default", "sum",
                  {argument("self", tensor("x")), argument("dtype", {{"as_scalar_type", 5}})}, tensor("sum"));
  nodes[2] = node("torch.ops.aten.sub.Tensor", "less",
                  {argument("self", tensor("sum")), argument("other", {{"as_int", 1}})}, tensor("less"));
  graph["nodes"] = nodes;
  const auto of_data = read_bytes(j.dump());
  REQUIRE(!of_data.ok());
  CHECK(of_data.error().code == ErrorCode::Unsupported);
  CHECK_MESSAGE(of_data.error().message.find("'item' is read out of a tensor") != std::string::npos,
                of_data.error().to_string());
  nodes[4] = node("_operator.ge", "ge", {argument("a", size("item")), argument("b", {{"as_int", 0}})},
                  Json{{"as_sym_bool", {{"as_name", "ge"}}}});
  graph["nodes"] = nodes;
  CHECK(read_bytes(j.dump()).ok());
}

TEST_CASE("torch.export: sizes computed by nodes become dims") {
  Json j = small_export();
  Json nodes = Json::array();
  nodes.push_back({{"target", "torch.ops.aten.sym_size.int"},
                   {"name", "sym_size_int"},
                   {"inputs", {argument("self", tensor("x")), argument("dim", {{"as_int", 0}})}},
                   {"outputs", {{{"as_sym_int", {{"as_name", "sym_size_int"}}}}}},
                   {"metadata", Json::object()}});
  nodes.push_back(
      {{"target", "_operator.mul"},
       {"inputs", {argument("a", {{"as_sym_int", {{"as_name", "sym_size_int"}}}}), argument("b", {{"as_int", 4}})}},
       {"outputs", {{{"as_sym_int", {{"as_name", "mul"}}}}}},
       {"metadata", Json::object()}});
  nodes.push_back({{"target", "_operator.ge"},
                   {"inputs", Json::array()},
                   {"outputs", {{{"as_sym_bool", {{"as_name", "ge"}}}}}},
                   {"metadata", Json::object()}});
  nodes.push_back({{"target", "torch.ops.aten._assert_scalar.default"},
                   {"inputs", Json::array()},
                   {"outputs", Json::array()},
                   {"metadata", Json::object()}});
  nodes.push_back(
      {{"target", "torch.ops.aten.reshape.default"},
       {"name", "flat"},
       {"inputs", {argument("self", tensor("x")), argument("shape", {{"as_sym_ints", {{{"as_name", "mul"}}}}})}},
       {"outputs", {tensor("flat")}},
       {"metadata", Json::object()}});
  nodes.push_back(
      {{"target", "torch.ops.aten.add.Tensor"},
       {"name", "add"},
       {"inputs",
        {argument("self", tensor("flat")), argument("other", {{"as_sym_int", {{"as_name", "sym_size_int"}}}})}},
       {"outputs", {tensor("relu")}},
       {"metadata", Json::object()}});
  graph_of(j)["nodes"] = nodes;
  graph_of(j)["sym_int_values"] = {{"sym_size_int", {{"as_expr", {{"expr_str", "s0"}}}}},
                                   {"mul", {{"as_expr", {{"expr_str", "Mul(Integer(4), Symbol('s0'))"}}}}}};
  Json flat = meta_of(j, "x");
  flat["sizes"] = {{{"as_expr", {{"expr_str", "4*s0"}}}}};
  flat["strides"] = {{{"as_int", 1}}};
  meta_of(j, "flat") = flat;
  meta_of(j, "relu") = flat;
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  REQUIRE(graph->nodes.size() == 2);
  CHECK(graph->nodes[0].arg("shape") == Arg(std::vector<Dim>{Dim(4) * Dim::symbol("s0")}));
  CHECK(graph->nodes[1].arg("other") == Arg(Dim::symbol("s0")));

  SUBCASE("sym_size that contradicts the tensor") {
    node_of(j, 0)["inputs"][1]["arg"]["as_int"] = 1;
    Error e = error_of(j);
    CHECK(e.code == ErrorCode::BadInput);
    CHECK(contains(e.where, "nodes[0].inputs"));
  }
  SUBCASE("a size used before it is computed") {
    std::swap(node_of(j, 0), node_of(j, 4));
    CHECK(contains(error_of(j).message, "'mul' is not defined above"));
  }
  SUBCASE("an axis out of range") {
    node_of(j, 0)["inputs"][1]["arg"]["as_int"] = 2;
    CHECK(contains(error_of(j).message, "out of range"));
  }
}

TEST_CASE("torch.export: all unsupported operators at once, with count, place and source") {
  Json j = small_export();
  Json sampler = node_of(j, 0), pool = node_of(j, 1);
  sampler["target"] = "torch.ops.aten.grid_sampler_3d.default";
  sampler["name"] = "grid_sampler";
  pool["target"] = "torch.ops.higher_order.cond";
  graph_of(j)["nodes"] = {node_of(j, 0), pool, sampler, sampler, sampler};
  Error e = error_of(j);
  CHECK(e.code == ErrorCode::Unsupported);
  CHECK(contains(e.message, "2 operators of this graph have no lowering"));
  CHECK(contains(e.message, "torch.ops.aten.grid_sampler_3d.default"));
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
  graph_of_region(j)["nodes"][0]["target"] = "torch.ops.aten.grid_sampler_3d.default";
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

TEST_CASE("torch.export: a write to what the graph made is its next value") {
  Json j = small_export();
  node_of(j, 1)["target"] = "torch.ops.aten.copy_.default";
  node_of(j, 1)["inputs"] = {argument("self", tensor("linear")), argument("src", tensor("linear"))};
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(print_graph(*graph).find("aten.copy.default(%linear, %linear)") != std::string::npos);
  CHECK(graph->value(graph->outputs[0]).name == "relu");
}

namespace {

// The small graph with its bias as a buffer, and one more node that reads it.
Json with_buffer(const char* target, std::vector<Json> inputs) {
  Json j = small_export();
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"buffer": {"arg": {"name": "p_fc_bias"}, "buffer_name": "fc.bias", "persistent": true}})");
  Json node = node_of(j, 1);
  node["target"] = target;
  node["name"] = "next";
  node["inputs"] = inputs;
  node["outputs"][0] = tensor("next");
  meta_of(j, "next") = meta_of(j, "p_fc_bias");
  graph_of(j)["nodes"].push_back(node);
  return j;
}

Json as_int(int value) { return {{"as_int", value}}; }

}  // namespace

TEST_CASE("torch.export: a buffer that the signature says is changed is state") {
  Json j =
      with_buffer("torch.ops.aten.add.Tensor", {argument("self", tensor("p_fc_bias")), argument("other", as_int(1))});
  graph_of(j)["outputs"].insert(graph_of(j)["outputs"].begin(), tensor("next"));
  Json& specs = j["graph_module"]["signature"]["output_specs"];
  specs.insert(specs.begin(),
               Json::parse(R"({"buffer_mutation": {"arg": {"name": "next"}, "buffer_name": "fc.bias"}})"));
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->states == std::vector<std::string>{"fc.bias"});
  CHECK(graph->user_outputs() == 1);
  CHECK(graph->output_names[0] == "relu");
  CHECK(graph->value(graph->state_output(0)).name == "next");
  CHECK_FALSE(graph->value(graph->state_input(0)).data.bound());  // the file alone has no weights

  specs[0]["buffer_mutation"]["arg"]["name"] = "ghost";
  CHECK(contains(error_of(j).message, "there is no tensor 'ghost'"));
  specs[0]["buffer_mutation"]["arg"]["name"] = "linear";
  CHECK(contains(error_of(j).message, "its next value is f32[s0, 3]"));
  specs[0] = Json::parse(R"({"loss_output": {"arg": {"name": "next"}}})");
  CHECK(contains(error_of(j).message, "'loss_output'"));
}

TEST_CASE("torch.export: a write to a buffer, itself or through views, is the state's next value") {
  Json j =
      with_buffer("torch.ops.aten.add_.Tensor", {argument("self", tensor("p_fc_bias")), argument("other", as_int(1))});
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(print_graph(*graph).find("next %fc.bias = %next") != std::string::npos);

  // Through a slice: the slice is taken, written, and put back.
  j = with_buffer("torch.ops.aten.slice.Tensor", {argument("self", tensor("p_fc_bias")), argument("dim", as_int(0)),
                                                  argument("start", as_int(1)), argument("end", as_int(3))});
  meta_of(j, "next")["sizes"][0]["as_int"] = 2;
  Json write = graph_of(j)["nodes"].back();
  write["target"] = "torch.ops.aten.mul_.Tensor";
  write["name"] = "mul_";
  write["inputs"] = {argument("self", tensor("next")), argument("other", as_int(2))};
  write["outputs"][0] = tensor("mul_");
  meta_of(j, "mul_") = meta_of(j, "next");
  graph_of(j)["nodes"].push_back(write);
  graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const std::string text = print_graph(*graph);
  CHECK(text.find("%mul_ = aten.mul.Tensor(%next, other = 2) : f32[2]") != std::string::npos);
  CHECK(text.find("aten.slice_scatter.default(%fc.bias, %mul_, start = 1, end = 3) : f32[3]") != std::string::npos);

  // Through a permute, which is turned back.
  Json turned = j;
  node_of(turned, 2)["target"] = "torch.ops.aten.permute.default";
  node_of(turned, 2)["inputs"] = {argument("self", tensor("p_fc_bias")), argument("dims", {{"as_ints", {-1}}})};
  meta_of(turned, "next") = meta_of(turned, "mul_") = meta_of(turned, "p_fc_bias");
  graph = read_bytes(turned.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(print_graph(*graph).find("aten.permute.default(%mul_, dims = [0]) : f32[3]") != std::string::npos);

  // Through one of several parts.
  Json parts = j;
  node_of(parts, 2)["target"] = "torch.ops.aten.split.Tensor";
  node_of(parts, 2)["inputs"] = {argument("self", tensor("p_fc_bias")), argument("split_size", as_int(1))};
  node_of(parts, 2)["outputs"] =
      Json::parse(R"([{"as_tensors": [{"name": "first"}, {"name": "next"}, {"name": "last"}]}])");
  meta_of(parts, "next")["sizes"][0]["as_int"] = 1;
  meta_of(parts, "first") = meta_of(parts, "last") = meta_of(parts, "mul_") = meta_of(parts, "next");
  graph = read_bytes(parts.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(print_graph(*graph).find("aten.slice_scatter.default(%fc.bias, %mul_, start = 1, end = 2) : f32[3]") !=
        std::string::npos);

  // Whose elements are the same memory more than once, nothing is written through.
  Json repeated = j;
  node_of(repeated, 2)["target"] = "torch.ops.aten.expand.default";
  node_of(repeated, 2)["inputs"] = {argument("self", tensor("p_fc_bias")), argument("size", {{"as_ints", {2, 3}}})};
  meta_of(repeated, "next")["sizes"] = Json::parse(R"([{"as_int": 2}, {"as_int": 3}])");
  meta_of(repeated, "next")["strides"] = Json::parse(R"([{"as_int": 0}, {"as_int": 1}])");
  meta_of(repeated, "mul_") = meta_of(repeated, "next");
  const Error e = error_of(repeated);
  CHECK(e.code == ErrorCode::Unsupported);
  CHECK(contains(e.message, "something is written through this view"));

  node_of(j, 3)["target"] = "torch.ops.aten.zzz_.Tensor";
  CHECK(contains(error_of(j).message, "torch.ops.aten.zzz_.Tensor"));
}

TEST_CASE("torch.export: a write to a parameter is refused, with what to do") {
  Json j =
      with_buffer("torch.ops.aten.add_.Tensor", {argument("self", tensor("p_fc_bias")), argument("other", as_int(1))});
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"tensor_constant": {"arg": {"name": "p_fc_bias"}, "tensor_constant_name": "lifted"}})");
  const Error e = error_of(j);
  CHECK(e.code == ErrorCode::Unsupported);
  CHECK(contains(e.message, "writes to 'lifted', which is a parameter or a constant"));
  CHECK(contains(e.help, "register_buffer"));
}

TEST_CASE("torch.export: an input that is changed is an output, too") {
  Json j = small_export();
  Json node = node_of(j, 1);
  node["target"] = "torch.ops.aten.add_.Tensor";
  node["name"] = "add_";
  node["inputs"] = {argument("self", tensor("x")), argument("other", as_int(1))};
  node["outputs"][0] = tensor("add_");
  meta_of(j, "add_") = meta_of(j, "x");
  graph_of(j)["nodes"].push_back(node);
  ReadInfo info;
  auto graph = read_bytes(j.dump(), {}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->states.empty());
  CHECK(graph->output_names == std::vector<std::string>{"relu", "x"});
  CHECK(graph->value(graph->outputs[1]).name == "add_");
  REQUIRE(info.notes.size() == 1);
  CHECK(contains(info.notes[0], "changes its input 'x' in place"));
}

namespace {

Json complex_meta(std::initializer_list<int> sizes) {
  Json list = Json::array();
  for (int size : sizes) list.push_back({{"as_int", size}});
  return {{"dtype", 10}, {"sizes", list}, {"strides", list}, {"storage_offset", {{"as_int", 0}}}, {"layout", 7}};
}
Json real_meta(std::initializer_list<int> sizes) {
  Json meta = complex_meta(sizes);
  meta["dtype"] = 7;
  return meta;
}
Json node_named(const char* name, const char* op, std::initializer_list<Json> inputs) {
  return {{"target", std::string("torch.ops.aten.") + op},
          {"name", name},
          {"inputs", Json(std::vector<Json>(inputs))},
          {"outputs", {tensor(name)}},
          {"metadata", Json::object()}};
}

// A rotary embedding: view_as_real(view_as_complex(x) * unsqueeze(polar(ones, angle), 0)), x [3, 2, 2], angle [2].
Json rotary_export() {
  Json j = small_export();
  Json& graph = graph_of(j);
  graph["inputs"] = {tensor("x"), tensor("ones"), tensor("angle")};
  graph["outputs"] = Json::array({tensor("y")});
  graph["tensor_values"] = {{"x", real_meta({3, 2, 2})},       {"ones", real_meta({2})},
                            {"angle", real_meta({2})},         {"z", complex_meta({3, 2})},
                            {"turn", complex_meta({2})},       {"row", complex_meta({1, 2})},
                            {"product", complex_meta({3, 2})}, {"y", real_meta({3, 2, 2})}};
  graph["nodes"] = {
      node_named("z", "view_as_complex.default", {argument("self", tensor("x"))}),
      node_named("turn", "polar.default", {argument("abs", tensor("ones")), argument("angle", tensor("angle"))}),
      node_named("row", "unsqueeze.default", {argument("self", tensor("turn")), argument("dim", {{"as_int", -2}})}),
      node_named("product", "mul.Tensor", {argument("self", tensor("z")), argument("other", tensor("row"))}),
      node_named("y", "view_as_real.default", {argument("self", tensor("product"))})};
  Json inputs = Json::array();
  for (const char* name : {"x", "ones", "angle"}) inputs.push_back({{"user_input", {{"arg", tensor(name)}}}});
  j["graph_module"]["signature"] = {{"input_specs", inputs},
                                    {"output_specs", {{{"user_output", {{"arg", tensor("y")}}}}}}};
  return j;
}

}  // namespace

TEST_CASE("torch.export: complex numbers are pairs of real ones") {
  auto graph = read_bytes(rotary_export().dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(to_string(graph->value(graph->outputs[0]).shape) == "[3, 2, 2]");
  for (const Node& node : graph->nodes) CHECK(node.where.starts_with("$.graph_module.graph.nodes["));
  const std::string text = print_graph(*graph);
  CHECK_MESSAGE(text.find("dim = -3) : f32[1, 2, 2]") != std::string::npos, text);
  CHECK_MESSAGE(text.find("aten.cos.default(%angle) : f32[2]") != std::string::npos, text);
}

namespace {

// y = irfft(fft(x)) and the spectra of stft(x, 4), x [1, 8].
Json fourier_export() {
  Json j = small_export();
  Json& graph = graph_of(j);
  graph["inputs"] = Json::array({tensor("x")});
  graph["outputs"] = {tensor("y"), tensor("s")};
  graph["tensor_values"] = {{"x", real_meta({1, 8})},
                            {"z", complex_meta({1, 8})},
                            {"frames", complex_meta({1, 3, 5})},
                            {"y", real_meta({1, 6})},
                            {"s", real_meta({1, 3, 5, 2})}};
  graph["nodes"] = {node_named("z", "fft_fft.default", {argument("self", tensor("x"))}),
                    node_named("y", "fft_irfft.default",
                               {argument("self", tensor("z")), argument("n", {{"as_int", 6}}),
                                argument("norm", {{"as_string", "ortho"}})}),
                    node_named("frames", "stft.default",
                               {argument("self", tensor("x")), argument("n_fft", {{"as_int", 4}}),
                                argument("win_length", {{"as_int", 3}})}),
                    node_named("s", "view_as_real.default", {argument("self", tensor("frames"))})};
  j["graph_module"]["signature"] = {
      {"input_specs", {{{"user_input", {{"arg", tensor("x")}}}}}},
      {"output_specs", {{{"user_output", {{"arg", tensor("y")}}}}, {{"user_output", {{"arg", tensor("s")}}}}}}};
  return j;
}

}  // namespace

TEST_CASE("torch.export: Fourier transforms are those of pairs") {
  auto graph = read_bytes(fourier_export().dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const std::string text = print_graph(*graph);
  const auto has = [&](const char* part) { CHECK_MESSAGE(text.find(part) != std::string::npos, text); };
  has("aten._fft_r2c.default(%x, dim = [1], normalization = 0, onesided = false) : f32[1, 8, 2]");
  has("end = 4) : f32[1, 4, 2]");  // half of 6, and the middle
  has("dim = [1], normalization = 1, last_dim_size = 6) : f32[1, 6]");
  has("step = 1) : f32[1, 5, 4]");
  has("dim = [2], normalization = 0, onesided = true) : f32[1, 5, 3, 2]");
}

TEST_CASE("torch.export: complex numbers that have no real form are refused") {
  const auto error_of = [](const Json& j) {
    auto graph = read_bytes(j.dump());
    return graph.ok() ? std::string() : graph.error().to_string();
  };
  Json j = rotary_export();
  graph_of(j)["outputs"] = Json::array({tensor("product")});
  j["graph_module"]["signature"]["output_specs"] = {{{"user_output", {{"arg", tensor("product")}}}}};
  CHECK(error_of(j).find("a graph output has complex numbers") != std::string::npos);
  j = rotary_export();
  meta_of(j, "x") = complex_meta({3, 2, 2});
  CHECK_MESSAGE(error_of(j).find("has complex numbers") != std::string::npos, error_of(j));
  j = rotary_export();
  node_of(j, 3)["target"] = "torch.ops.aten.maximum.default";
  CHECK(error_of(j).find("aten.maximum.default of complex numbers has no lowering") != std::string::npos);
  j = rotary_export();
  meta_of(j, "product")["sizes"][0]["as_int"] = 4;
  CHECK(error_of(j).find("the tensor is f32[3, 2, 2] by its operands") != std::string::npos);
  j = rotary_export();
  node_of(j, 1)["inputs"].erase(1);
  CHECK_MESSAGE(error_of(j).find("is missing") != std::string::npos, error_of(j));
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

TEST_CASE("torch.export: a fraction of a size says what it is") {
  Json j = small_export();
  Json scale = node_of(j, 1);
  scale["target"] = "torch.ops.aten.mul.Tensor";
  scale["inputs"].push_back({{"name", "other"}, {"arg", {{"as_sym_float", {{"as_name", "pow_1"}}}}}, {"kind", 1}});
  graph_of(j)["nodes"][1] = scale;
  Error e = error_of(j);
  CHECK(e.code == ErrorCode::Unsupported);
  CHECK(contains(e.message, "known only at run time"));
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

struct Hostile {
  const char* what;
  std::function<void(Json&)> damage;
  ErrorCode code;
  const char* where;    // part of Error::where
  const char* message;  // part of Error::message
};

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
       ErrorCode::Unsupported, "graph.inputs[2]", "not a tensor"},
      {"mutation",
       [](Json& j) {
         j["graph_module"]["signature"]["output_specs"][0] = {
             {"buffer_mutation", {{"arg", {{"name", "relu"}}}, {"buffer_name", "b"}}}};
       },
       ErrorCode::BadInput, "output_specs[0]", "changes the buffer 'b', which the graph does not have"},
      {"undefined output", [](Json& j) { graph_of(j)["outputs"][0] = tensor("ghost"); }, ErrorCode::BadInput,
       "graph.outputs[0]", "'ghost' is not defined"},
      {"integer output",
       [](Json& j) {
         graph_of(j)["outputs"][0] = {{"as_int", 3}};
       },
       ErrorCode::Unsupported, "graph.outputs[0]", "not a tensor"},
      {"nodes is an object", [](Json& j) { graph_of(j)["nodes"] = Json::object(); }, ErrorCode::BadInput, "graph.nodes",
       "expected a list"},
      {"node is text", [](Json& j) { graph_of(j)["nodes"][0] = "x"; }, ErrorCode::BadInput, "graph.nodes[0]",
       "expected an object"},
      {"inputs missing", [](Json& j) { node_of(j, 0).erase("inputs"); }, ErrorCode::BadInput, "nodes[0]",
       "'inputs' is missing"},
      {"reads overwritten",
       [](Json& j) {
         Json extra = node_of(j, 1);
         node_of(j, 1)["target"] = "torch.ops.aten.relu_.default";
         extra["name"] = "again";
         extra["outputs"][0] = tensor("again");
         graph_of(j)["nodes"].push_back(extra);
         meta_of(j, "again") = meta_of(j, "relu");
       },
       ErrorCode::Unsupported, "nodes[2]", "overwritten in place"},
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

TEST_CASE("torch.export: in-place operators on fresh values are plain ones") {
  Json j = small_export();
  node_of(j, 1)["target"] = "torch.ops.aten.relu_.default";
  CHECK(read_bytes(j.dump()).ok());
}

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
    CHECK_FALSE(read(target, {{"as_int", 2}}).ok());
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
