#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/size_values.h"
#include "graph/read/torch/guards.h"
#include "graph/read/torch/meta.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::string size_text(const char* expr) {
  auto dim = parse_size_expr(expr);
  return dim.ok() ? dim->str() : std::string(error_code_name(dim.error().code)) + " " + dim.error().message;
}

}  // namespace

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
  CHECK(size_text("CeilToInt(FloatTrueDiv(Add(ToFloat(Mul(Integer(-1), Symbol('s0'))), Float('-1.0', precision=53)), "
                  "Float('-2.0', precision=53)))") == "-floordiv(s0+1,2)+s0+1");
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

TEST_CASE("torch.export: integers are inputs of one i64 whose values are symbols, and outputs") {
  Json j = small_export();
  Json& graph = j["graph_module"]["graph"];
  Json& signature = j["graph_module"]["signature"];
  const Json n = {{"as_sym_int", {{"as_name", "n"}}}};
  graph["sym_int_values"]["n"] = {{"as_expr", {{"expr_str", "Symbol('s7', integer=True)"}}}};
  graph["inputs"].push_back(n);
  signature["input_specs"].push_back({{"user_input", {{"arg", n}}}});
  graph["outputs"].push_back(n);
  signature["output_specs"].push_back({{"user_output", {{"arg", n}}}});
  j["range_constraints"]["s7"] = {{"min_val", -5}, {"max_val", 30}};
  const auto read = read_bytes(j.dump());
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  const Value& input = read->value(read->inputs.back());
  CHECK(input.name == "n");
  CHECK(input.dtype == DType::i64);
  CHECK(input.shape.empty());
  CHECK(input.symbol == "s7");
  const auto symbol = std::ranges::find(read->symbols, "s7", &Symbol::name);
  REQUIRE(symbol != read->symbols.end());
  CHECK(symbol->min == 0);  // sizes are not negative
  CHECK(symbol->max == 30);
  CHECK(read->output_names.back() == "n");
  CHECK(size_held_by(*read, read->outputs.back()) == Dim::symbol("s7"));

  for (const Json& number : {Json{{"as_int", 5}}, Json{{"as_bool", true}}, Json{{"as_float", 1.5}}}) {
    graph["outputs"].back() = number;
    signature["output_specs"].back() = {{"user_output", {{"arg", number}}}};
    const auto constant = read_bytes(j.dump());
    REQUIRE_MESSAGE(constant.ok(), constant.error().to_string());
    const Value& output = constant->value(constant->outputs.back());
    CHECK(output.shape.empty());
    CHECK(output.dtype == (number.contains("as_int")    ? DType::i64
                           : number.contains("as_bool") ? DType::boolean
                                                        : DType::f64));
    CHECK(constant->output_names.back() == "output_1");
  }
}

TEST_CASE("torch.export: a size of 2 and more may be 1, as in torch; a higher bound stays") {
  Json j = small_export();
  const auto least = [&](int min) {
    j["range_constraints"]["s0"]["min_val"] = min;
    const auto read = read_bytes(j.dump());
    REQUIRE_MESSAGE(read.ok(), read.error().to_string());
    return std::ranges::find(read->symbols, "s0", &Symbol::name)->min;
  };
  CHECK(least(0) == 0);
  CHECK(least(1) == 1);
  CHECK(least(2) == 1);
  CHECK(least(3) == 3);
}

TEST_CASE("torch.export: a number read out of an input of one integer is the value of its symbol") {
  Json j = small_export();
  Json& graph = j["graph_module"]["graph"];
  Json& signature = j["graph_module"]["signature"];
  graph["tensor_values"]["t"] = {{"dtype", 5}, {"sizes", Json::array()}, {"strides", Json::array()}, {"layout", 7}};
  graph["sym_int_values"]["item"] = {{"as_expr", {{"expr_str", "Symbol('u0', integer=True)"}}}};
  graph["inputs"].push_back(tensor("t"));
  signature["input_specs"].push_back({{"user_input", {{"arg", tensor("t")}}}});
  graph["nodes"].push_back({{"target", "torch.ops.aten.item.default"},
                            {"name", "item"},
                            {"inputs", Json::array({argument("self", tensor("t"))})},
                            {"outputs", Json::array({{{"as_sym_int", {{"as_name", "item"}}}}})},
                            {"metadata", Json::object()}});
  graph["outputs"].push_back({{"as_sym_int", {{"as_name", "item"}}}});
  signature["output_specs"].push_back({{"user_output", {{"arg", {{"as_sym_int", {{"as_name", "item"}}}}}}}});
  auto read = read_bytes(j.dump());
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  CHECK(read->value(read->inputs.back()).symbol == "u0");
  graph["tensor_values"]["t"]["dtype"] = 7;  // f32: its integer part is no symbol
  read = read_bytes(j.dump());
  REQUIRE(!read.ok());
  CHECK(read.error().code == ErrorCode::Unsupported);
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

TEST_CASE("torch.export: a size that a guard of torch specialized narrows the range of its symbol") {
  Json j = small_export();
  graph_of(j)["nodes"].push_back({{"target", "torch.ops.aten.slice.Tensor"},
                                  {"name", "part"},
                                  {"inputs",
                                   {argument("self", tensor("relu")), argument("dim", {{"as_int", 0}}),
                                    argument("start", {{"as_int", 0}}), argument("end", {{"as_int", 8}})}},
                                  {"outputs", Json::array({tensor("part")})},
                                  {"metadata", Json::object()}});
  graph_of(j)["outputs"][0] = tensor("part");
  j["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"] = tensor("part");
  meta_of(j, "part") = meta_of(j, "relu");  // as where torch.export saw fewer than eight rows
  ReadInfo info;
  const auto whole = read_bytes(j.dump(), {}, &info);
  REQUIRE_MESSAGE(whole.ok(), whole.error().to_string());
  CHECK(to_string(whole->value(whole->outputs[0]).shape) == "[s0, 3]");
  REQUIRE(whole->symbols.size() == 1);
  CHECK(whole->symbols[0].min == 1);
  CHECK(whole->symbols[0].max == 8);
  REQUIRE(info.notes.size() == 1);
  CHECK(contains(info.notes[0], "the size s0 lies in 1 to 8"));

  // A range without the size that was exported, 7, is none that torch found.
  meta_of(j, "part")["sizes"][0] = {{"as_int", 8}};
  CHECK(contains(error_of(j).message, "min(8,s0)"));
  meta_of(j, "x")["sizes"][0]["as_expr"]["hint"]["as_int"] = 9;
  const auto eight = read_bytes(j.dump());
  REQUIRE_MESSAGE(eight.ok(), eight.error().to_string());
  CHECK(eight->symbols[0].min == 8);
  CHECK(eight->symbols[0].max == 64);

  meta_of(j, "part")["sizes"][0] = {{"as_int", 9}};  // no size gives it
  CHECK(contains(error_of(j).message, "min(8,s0)"));
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

TEST_CASE("torch.export: operands that torch broadcasts have equal sizes, which bounds their symbol") {
  Json j = small_export();
  const char* least = "Min(Symbol('s0'), Integer(16))";
  Json& part = meta_of(j, "part") = meta_of(j, "linear");
  part["sizes"][0] = {{"as_expr", {{"expr_str", least}}}};
  graph_of(j)["nodes"].push_back({{"target", "torch.ops.aten.slice.Tensor"},
                                  {"inputs",
                                   {argument("self", tensor("linear")), argument("dim", {{"as_int", 0}}),
                                    argument("start", {{"as_int", 0}}), argument("end", {{"as_int", 16}})}},
                                  {"outputs", {tensor("part")}},
                                  {"metadata", Json::object()}});
  graph_of(j)["nodes"].push_back({{"target", "torch.ops.aten.add.Tensor"},
                                  {"inputs", {argument("self", tensor("relu")), argument("other", tensor("part"))}},
                                  {"outputs", {tensor("add")}},
                                  {"metadata", Json::object()}});
  meta_of(j, "add") = meta_of(j, "relu");
  graph_of(j)["outputs"][0] = tensor("add");
  j["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"] = tensor("add");
  ReadInfo info;
  const auto read = read_bytes(j.dump(), {}, &info);
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  CHECK(std::ranges::find(read->symbols, "s0", &Symbol::name)->max == 16);
  CHECK(std::ranges::any_of(info.notes, [](const std::string& note) { return note.starts_with("the size s0"); }));
}

TEST_CASE("torch.export: sizes that torch compares only when it runs are one symbol") {
  // linear = attention(weight [3, 4], x [s0, 4], y [s1, 4])
  Json j = small_export();
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"user_input": {"arg": {"as_tensor": {"name": "p_fc_bias"}}}})");
  meta_of(j, "p_fc_bias") = meta_of(j, "x");
  meta_of(j, "p_fc_bias")["sizes"][0] = Json::parse(R"({"as_expr": {"expr_str": "s1"}})");
  j["range_constraints"]["s1"] = Json::parse(R"({"min_val": 2, "max_val": 100})");
  node_of(j, 0)["target"] = "torch.ops.aten.scaled_dot_product_attention.default";
  node_of(j, 0)["inputs"] = {argument("query", tensor("p_fc_weight")), argument("key", tensor("x")),
                             argument("value", tensor("p_fc_bias"))};
  meta_of(j, "linear") = meta_of(j, "relu") = meta_of(j, "p_fc_weight");
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  REQUIRE(graph->symbols.size() == 1);
  CHECK(graph->symbols[0].max == 64);
  for (const ValueId input : graph->inputs) CHECK(graph->value(input).shape == Shape{Dim::symbol("s0"), Dim(4)});

  // Indices of a batch of their own; along the axis that they index they may be more.
  node_of(j, 0)["target"] = "torch.ops.aten.gather.default";
  node_of(j, 0)["inputs"] = {argument("self", tensor("x")), argument("dim", {{"as_int", 1}}),
                             argument("index", tensor("p_fc_bias"))};
  meta_of(j, "p_fc_bias")["dtype"] = 5;
  meta_of(j, "linear") = meta_of(j, "relu") = meta_of(j, "x");
  meta_of(j, "linear")["sizes"] = meta_of(j, "relu")["sizes"] = meta_of(j, "p_fc_bias")["sizes"];
  graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->symbols.size() == 1);
  j["range_constraints"]["s0"]["min_val"] = 8;  // no more than there are of them
  j["range_constraints"]["s1"]["max_val"] = 8;
  graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->symbols.size() == 2);
  j["range_constraints"]["s1"]["max_val"] = 100;
  node_of(j, 0)["inputs"][1] = argument("dim", {{"as_int", -2}});
  graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->symbols.size() == 2);
}

TEST_CASE("torch.export: sizes that guards say are equal, one after the other, are one symbol") {
  Json j = small_export();
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"user_input": {"arg": {"as_tensor": {"name": "p_fc_bias"}}}})");
  meta_of(j, "p_fc_bias") = meta_of(j, "x");
  meta_of(j, "p_fc_bias")["sizes"] =
      Json::parse(R"([{"as_expr": {"expr_str": "s1"}}, {"as_expr": {"expr_str": "s2"}}])");
  for (const char* symbol : {"s1", "s2"})
    j["range_constraints"][symbol] = Json::parse(R"({"min_val": 2, "max_val": 100})");
  node_of(j, 0)["target"] = "torch.ops.aten.abs.default";
  node_of(j, 0)["inputs"] = Json::array({argument("self", tensor("x"))});
  meta_of(j, "linear") = meta_of(j, "relu") = meta_of(j, "x");
  j["guards_code"] = {"L['x'].size()[0] == L['p_fc_bias'].size()[0]",
                      "L['p_fc_bias'].size()[0] == L['p_fc_bias'].size()[1]"};
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Shape x = graph->value(value_named(*graph, "x")).shape,
              b = graph->value(value_named(*graph, "p_fc_bias")).shape;
  CHECK(b == Shape{x[0], x[0]});
}

TEST_CASE("torch.export: guards say which size is a multiple of another one") {
  const auto size_of = [](std::string_view input, int64_t axis) -> std::optional<Dim> {
    if (axis != 0) return std::nullopt;
    return input == "x"   ? std::optional(Dim::symbol("s0"))
           : input == "y" ? std::optional(Dim::symbol("s1"))
                          : std::nullopt;
  };
  const auto text_of = [&](const char* guard) {
    const auto read = read_guard(guard, size_of);
    return read && read->says == SizeCondition::Says::zero ? read->difference.str() : std::string("none");
  };
  CHECK(text_of("(8*L['x'].size()[0]) == (4*L['y'].size()[0])") == "8*s0-4*s1");
  CHECK(text_of("(L['x'].size()[0] % 4) == 0") == "-4*floordiv(s0,4)+s0");
  CHECK(text_of("L['y'].size()[0] + (-1)*(L['x'].size()[0] // 4) == 2") == "-floordiv(s0,4)+s1-2");
  CHECK(text_of("torch.sym_max(L['x'].size()[0], 3) == torch.sym_min(4, 5)") == "-min(3,s0)+s0-1");
  for (const char* other :
       {"", "==", "L['x'].size()[0] != 4", "L['x'].size()[0] >= 4", "L['z'].size()[0] == 1", "L['x'].size()[1] == 1",
        "L['x'].size()[-1] == 1", "L['x'].size() == 1", "L['x == 1", "L['x'].size()[0] % 0 == 1", "1 == 1 or 2 == 2",
        "torch.sym_max(1) == 2", "99999999999999999999 == 1", "(1 == 1", "1 == 1)"})
    CHECK_MESSAGE(text_of(other) == "none", other);
  CHECK(text_of((std::string(500, '(') + "1" + std::string(500, ')') + " == 1").c_str()) == "none");

  const Dim a = Dim::symbol("a"), b = Dim::symbol("b");
  const auto multiples = find_multiples({a - Dim::floor_divide(b, 4), b - Dim(4) * Dim::floor_divide(b, 4), a - b});
  REQUIRE(multiples.size() == 2);
  CHECK((multiples[1].symbol == "b" && multiples[1].factor == 4 && multiples[1].of == "a"));
  CHECK(multiples[0].factor == 1);
  const auto shared = find_multiples({Dim(16) * a * b * b - Dim(16) * Dim::symbol("c") * a * b});
  REQUIRE(shared.size() == 1);
  CHECK((shared[0].symbol == "b" && shared[0].factor == 1 && shared[0].of == "c"));
  CHECK(find_multiples({a + b, a - Dim(2), a * b - a, Dim(2) * a - Dim(3) * b, Dim(0)}).empty());

  // Half of what is rounded up is half of what is rounded down: an even number, which a multiple of 3 says, too.
  const Dim up = Dim::floor_divide(a + Dim(1), 2), third = Dim::floor_divide(b, 3);
  const auto divisors =
      find_divisors({a - Dim(2) * up, a * b - Dim(3) * a * third, b - Dim(2) * Dim::floor_divide(b, 2)}, {});
  CHECK(divisors == std::map<std::string, int64_t>{{"a", 2}, {"b", 6}});
  CHECK(find_divisors({up - Dim(2), a - Dim(3), up - Dim::floor_divide(a, 2) - Dim(1), a - Dim::floor_divide(a, 1000)},
                      {})
            .empty());

  // Two inputs of the same form, whose sizes meet in a product or a quotient.
  const Dim c = Dim::symbol("c"), d = Dim::symbol("d");
  const ExportedSizes exported = {{"a", {0, 2}}, {"b", {1, 3}}, {"c", {1, 3}}, {"d", {0, 2}}};
  const auto equal = find_equal_sizes(Dim(4) * a * b - Dim(4) * c * d, exported);
  REQUIRE(equal.size() == 2);
  CHECK((equal[0].symbol == "d" && equal[0].of == "a" && equal[1].symbol == "c" && equal[1].of == "b"));
  CHECK(find_equal_sizes(Dim::floor_divide(b - Dim(1), 2) - Dim::floor_divide(c - Dim(1), 2), exported).size() == 1);
  for (const Dim& other : {a * b - c, a * b - c * Dim::symbol("e"), Dim::floor_divide(a, 2) - Dim::floor_divide(b, 2),
                           Dim::floor_divide(b, 2) - Dim::floor_divide(c, 3), a - Dim(2)})
    CHECK_MESSAGE(find_equal_sizes(other, exported).empty(), other.str());

  // x [s0, 4] is a view [3, s1, 4], s1 being the size of another input.
  Json j = small_export();
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"user_input": {"arg": {"as_tensor": {"name": "p_fc_bias"}}}})");
  meta_of(j, "p_fc_bias")["sizes"][0] = Json::parse(R"({"as_expr": {"expr_str": "s1"}})");
  j["range_constraints"]["s1"] = Json::parse(R"({"min_val": 2, "max_val": 100})");
  node_of(j, 0)["target"] = "torch.ops.aten.view.default";
  node_of(j, 0)["inputs"] = {argument("self", tensor("x")), argument("size", {{"as_ints", {3, -1, 4}}})};
  for (const char* name : {"linear", "relu"})
    meta_of(j, name)["sizes"] = Json::parse(
        R"json([{"as_int": 3}, {"as_expr": {"expr_str": "FloorDiv(Symbol('s0'), Integer(3))"}}, {"as_int": 4}])json");
  CHECK_FALSE(read_bytes(j.dump()).ok());
  j["guards_code"] = {"(L['x'].size()[0] % 3) == 0", "L['p_fc_bias'].size()[0] == (L['x'].size()[0] // 3)", 7};
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->value(graph->outputs[0]).shape == Shape{Dim(3), Dim::symbol("s1"), Dim(4)});
  REQUIRE(graph->symbols.size() == 1);
  CHECK(graph->symbols[0].max == 21);  // s0 is at most 64
}

TEST_CASE("torch.export: guards say in which range a size lies") {
  const Dim a = Dim::symbol("a"), b = Dim::symbol("b"), eighth = Dim::floor_divide(a, 8);
  const auto range = find_range(eighth * eighth - Dim(16));
  REQUIRE(range.has_value());
  CHECK((range->name == "a" && range->min == 32 && range->max == 39));
  for (const Dim& other : {a - Dim(3), eighth - Dim::floor_divide(b, 8), eighth - Dim::floor_divide(a, 9),
                           a - Dim(8) * eighth, eighth - Dim(1'000'000), Dim::floor_divide(Dim(4), a)})
    CHECK_MESSAGE(!find_range(other), other.str());

  Json j = small_export();
  j["guards_code"] = Json::array({"((L['x'].size()[0] // 8)*(L['x'].size()[0] // 8)) == 16"});
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK((graph->symbols[0].min == 32 && graph->symbols[0].max == 39));
}

TEST_CASE("torch.export: a slice to the size of another input, which a guard says is no larger") {
  CHECK(read_guard("L['x'][0]['k'].size()[1] + 3 < 2*L['y'].size()[0]", [](std::string_view input, int64_t axis) {
          return std::optional(Dim::symbol(fmt::format("{}_{}", input, axis)));
        })->difference.str() == "-x_0_k_1+2*y_0-4");

  // linear = x[:n], n being the size of p_fc_bias
  Json j = small_export();
  j["graph_module"]["signature"]["input_specs"][1] =
      Json::parse(R"({"user_input": {"arg": {"as_tensor": {"name": "p_fc_bias"}}}})");
  meta_of(j, "p_fc_bias") = meta_of(j, "linear") = meta_of(j, "relu") = meta_of(j, "x");
  for (const char* name : {"p_fc_bias", "linear", "relu"})
    meta_of(j, name)["sizes"][0] = Json::parse(R"({"as_expr": {"expr_str": "s1"}})");
  for (const char* symbol : {"s0", "s1"})
    j["range_constraints"][symbol] = Json::parse(R"({"min_val": 2, "max_val": null})");
  Json size = node_of(j, 0);
  size["target"] = "torch.ops.aten.sym_size.int";
  size["inputs"] = {argument("self", tensor("p_fc_bias")), argument("dim", {{"as_int", 0}})};
  size["outputs"] = Json::array({Json{{"as_sym_int", {{"as_name", "n"}}}}});
  graph_of(j)["sym_int_values"]["n"] = {{"as_expr", {{"expr_str", "Symbol('s1', integer=True)"}}}};
  node_of(j, 0)["target"] = "torch.ops.aten.slice.Tensor";
  node_of(j, 0)["inputs"] = {argument("self", tensor("x")), argument("dim", {{"as_int", 0}}),
                             argument("start", {{"as_none", true}}),
                             argument("end", {{"as_sym_int", {{"as_name", "n"}}}})};
  Json& nodes = graph_of(j)["nodes"];
  nodes.insert(nodes.begin(), size);
  const auto has_op = [](const Graph& graph, Op op) {
    return std::ranges::any_of(graph.nodes, [&](const Node& node) { return Op(node.op) == op; });
  };

  // Without the guard the slice is read at positions, which a run checks.
  ReadInfo info;
  auto graph = read_bytes(j.dump(), {}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(has_op(*graph, "aten.index_select.default"));
  REQUIRE(info.notes.size() == 1);
  CHECK(contains(info.notes[0], "reads elements 0 to s1-1 of s0"));

  j["guards_code"] = Json::array({"L['p_fc_bias'].size()[0] <= L['x'].size()[0]"});
  graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK_FALSE(has_op(*graph, "aten.index_select.default"));
  CHECK(graph->value(value_named(*graph, "x")).shape == Shape{Dim::symbol("s0_rest") + Dim::symbol("s1"), Dim(4)});
  CHECK(graph->value(graph->outputs[0]).shape == Shape{Dim::symbol("s1"), Dim(4)});

  // A size with a bound of its own stays a symbol. Each run checks the condition.
  j["range_constraints"]["s0"]["max_val"] = 64;
  info = {};
  graph = read_bytes(j.dump(), {}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK_FALSE(has_op(*graph, "aten.index_select.default"));
  REQUIRE(graph->conditions.size() == 1);
  CHECK(graph->conditions[0].difference == Dim::symbol("s0") - Dim::symbol("s1"));
  CHECK(info.notes.size() == 1);
  node_of(j, 1)["target"] = "torch.ops.aten.narrow.default";
  node_of(j, 1)["inputs"] = {argument("self", tensor("x")), argument("dim", {{"as_int", 0}}),
                             argument("start", {{"as_int", 1}}),
                             argument("length", {{"as_sym_int", {{"as_name", "n"}}}})};
  graph = read_bytes(j.dump(), {}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(has_op(*graph, "aten.index_select.default"));
}

TEST_CASE("torch.export: guards say which number divides a size, and shapes that it then has") {
  Json j = small_export();
  node_of(j, 0)["target"] = "torch.ops.aten.view.default";
  node_of(j, 0)["inputs"] = {argument("self", tensor("x")), argument("size", {{"as_ints", {2, -1, 4}}})};
  for (const char* name : {"linear", "relu"})
    meta_of(j, name)["sizes"] = Json::parse(
        R"json([{"as_int": 2}, {"as_expr": {"expr_str": "FloorDiv(Symbol('s0'), Integer(2))"}}, {"as_int": 4}])json");
  CHECK_FALSE(read_bytes(j.dump()).ok());
  j["guards_code"] = {"(L['x'].size()[0] % 2) == 0", "L['x'].size()[0] != 2"};
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Dim half = Dim::symbol("s0_by_2");
  CHECK(graph->value(graph->inputs[0]).shape == Shape{Dim(2) * half, Dim(4)});
  CHECK(graph->value(graph->outputs[0]).shape == Shape{Dim(2), half, Dim(4)});
  REQUIRE(graph->symbols.size() == 1);
  CHECK((graph->symbols[0].min == 1 && graph->symbols[0].max == 32));  // s0 is at most 64
  j["guards_code"] = {"L['x'].size()[0] <= 2*(L['x'].size()[0] // 2)", "L['x'].size()[0] != 2"};
  graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->value(graph->inputs[0]).shape == Shape{Dim(2) * half, Dim(4)});

  // A number that is an input stays s0, which a run checks against the size.
  Json with_number = j;
  const Json n = {{"as_sym_int", {{"as_name", "n"}}}};
  graph_of(with_number)["sym_int_values"]["n"] = {{"as_expr", {{"expr_str", "Symbol('s0', integer=True)"}}}};
  graph_of(with_number)["inputs"].push_back(n);
  with_number["graph_module"]["signature"]["input_specs"].push_back({{"user_input", {{"arg", n}}}});
  CHECK(contains(error_of(with_number).message, "s0"));

  // A graph of one part alone.
  for (const char* name : {"linear", "relu"}) meta_of(j, name)["sizes"][1] = {{"as_int", 3}};
  graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->value(graph->inputs[0]).shape == Shape{Dim(6), Dim(4)});
  CHECK(graph->symbols.empty());
}

TEST_CASE("torch.export: what is reflected is longer than the pad, though torch takes any size of 2 and more") {
  Json j = small_export();
  j["range_constraints"]["s0"] = Json::parse(R"({"min_val": 2, "max_val": 64})");
  node_of(j, 0)["target"] = "torch.ops.aten.pad.default";
  node_of(j, 0)["inputs"] = {argument("self", tensor("x")), argument("pad", {{"as_ints", {0, 0, 3, 1}}}),
                             argument("mode", {{"as_string", "reflect"}})};
  meta_of(j, "linear") = meta_of(j, "relu") = meta_of(j, "x");
  for (const char* name : {"linear", "relu"})
    meta_of(j, name)["sizes"][0] = Json::parse(R"({"as_expr": {"expr_str": "s0 + 4"}})");
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->symbols[0].min == 4);
  node_of(j, 0)["inputs"][2]["arg"]["as_string"] = "circular";
  graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->symbols[0].min == 3);
}

TEST_CASE("torch.export: a window of 2 needs a size of 2, though a size traced as 2 and more may be 1") {
  Json j = small_export();
  j["range_constraints"]["s0"] = Json::parse(R"({"min_val": 2, "max_val": 64})");
  node_of(j, 0)["target"] = "torch.ops.aten.unfold.default";
  const auto window = [&](int size) {
    node_of(j, 0)["inputs"] = {argument("self", tensor("x")), argument("dimension", {{"as_int", 0}}),
                               argument("size", {{"as_int", size}}), argument("step", {{"as_int", 1}})};
    meta_of(j, "linear") = meta_of(j, "relu") = meta_of(j, "x");
    for (const char* name : {"linear", "relu"}) {
      Json& sizes = meta_of(j, name)["sizes"];
      sizes[0] = {{"as_expr", {{"expr_str", fmt::format("s0 - {}", size - 1)}}}};
      sizes.push_back({{"as_int", size}});
    }
    return read_bytes(j.dump());
  };
  const auto graph = window(2);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->symbols[0].min == 2);
  const auto larger = window(3);  // torch would have said a minimum of 3
  REQUIRE(!larger.ok());
  CHECK(larger.error().message.find("a window of 3 may be larger than the axis of s0") != std::string::npos);
}

TEST_CASE("torch.export: the largest of a product of sizes need sizes that are large enough") {
  // linear = topk(x [s0, s1].flatten(), 100)
  Json j = small_export();
  meta_of(j, "x")["sizes"][1] = Json::parse(R"({"as_expr": {"expr_str": "s1"}})");
  j["range_constraints"]["s1"] = Json::parse(R"({"min_val": 2, "max_val": null})");
  Json flat = node_of(j, 0), topk = node_of(j, 0);
  flat["target"] = "torch.ops.aten.reshape.default";
  flat["inputs"] = {argument("self", tensor("x")), argument("shape", {{"as_ints", {-1}}})};
  flat["outputs"] = Json::array({tensor("flat")});
  meta_of(j, "flat") = meta_of(j, "x");
  meta_of(j, "flat")["sizes"] =
      Json::parse(R"json([{"as_expr": {"expr_str": "Mul(Symbol('s0'), Symbol('s1'))"}}])json");
  topk["target"] = "torch.ops.aten.topk.default";
  topk["inputs"] = {argument("self", tensor("flat")), argument("k", {{"as_int", 100}})};
  topk["outputs"] = {tensor("linear"), tensor("positions")};
  meta_of(j, "linear")["sizes"] = Json::parse(R"([{"as_int": 100}])");
  meta_of(j, "relu") = meta_of(j, "positions") = meta_of(j, "linear");
  meta_of(j, "positions")["dtype"] = 5;
  graph_of(j)["nodes"] = {flat, topk, node_of(j, 1)};
  const auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  REQUIRE(graph->symbols.size() == 2);
  CHECK(graph->symbols[0].min * graph->symbols[1].min >= 100);
  CHECK((graph->symbols[0].min - 1) * graph->symbols[1].min < 100);
  CHECK(graph->symbols[0].min * (graph->symbols[1].min - 1) < 100);
}

TEST_CASE("torch.export: a pad to the next multiple bounds no symbol, though its result is longer than its tensor") {
  Json j = small_export();
  const char* whole = "Mul(Integer(16), FloorDiv(Add(Symbol('s0'), Integer(15)), Integer(16)))";
  Json& meta = meta_of(j, "pad") = meta_of(j, "relu");
  meta["sizes"][0] = {{"as_expr", {{"expr_str", whole}}}};
  const std::string behind = std::string("Add(") + whole + ", Mul(Integer(-1), Symbol('s0')))";
  graph_of(j)["sym_int_values"]["behind"] = {{"as_expr", {{"expr_str", behind}}}};
  graph_of(j)["nodes"].push_back({{"target", "_operator.sub"},
                                  {"inputs", Json::array()},
                                  {"outputs", {{{"as_sym_int", {{"as_name", "behind"}}}}}},
                                  {"metadata", Json::object()}});
  const Json none = {{"as_int", 0}}, pad = {none, none, none, {{"as_name", "behind"}}};
  graph_of(j)["nodes"].push_back(
      {{"target", "torch.ops.aten.pad.default"},
       {"inputs", {argument("self", tensor("relu")), argument("pad", {{"as_sym_ints", pad}})}},
       {"outputs", {tensor("pad")}},
       {"metadata", Json::object()}});
  graph_of(j)["outputs"][0] = tensor("pad");
  j["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"] = tensor("pad");
  const auto read = read_bytes(j.dump());
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  const auto symbol = std::ranges::find(read->symbols, "s0", &Symbol::name);
  CHECK(symbol->min == 1);
  CHECK(symbol->max == 64);
}
