#include "graph/read/native.h"

#include <functional>

#include "tests/graph_read/read_test_util.h"
#include "tests/paths.h"

using namespace qcg;
using namespace qcg::test;

namespace {

Json small_native() {
  return Json::parse(R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 64]},
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", 4]}],
    "parameters": [{"name": "w", "dtype": "f32", "shape": [2, 4], "data": [[1, 2, 3, 4], [0.5, -1, "Infinity", 1e-3]]}, {"name": "b", "dtype": "f32", "shape": [2]}],
    "nodes": [{"op": "linear", "inputs": {"input": "x", "weight": "w", "bias": "b"}, "outputs": ["l"]},
              {"op": "add", "inputs": {"self": "l", "other": 2}, "outputs": ["a"]},
              {"op": "aten.gelu.default", "inputs": {"self": "a", "approximate": "tanh"}, "outputs": ["g"]},
              {"op": "reshape", "inputs": {"self": "g", "shape": ["2*m"]}, "outputs": ["y"]}],
    "outputs": ["y"]})");
}

}  // namespace

TEST_CASE("native: an operator in place is refused where something reads the old value, itself or through a view") {
  for (const char* view : {"relu", "movedim", "ravel", "positive", "transpose"}) {
    INFO(std::string(view));
    Json j = Json::parse(R"({"format": "qcodegen", "version": 1,
      "inputs": [{"name": "x", "dtype": "f32", "shape": [3, 4]}],
      "nodes": [{"op": "add", "inputs": {"self": "x", "other": 2}, "outputs": ["a"]},
                {"op": "relu", "inputs": {"self": "a"}, "outputs": ["v"]},
                {"op": "aten.relu_.default", "inputs": {"self": "v"}, "outputs": ["r"]},
                {"op": "neg", "inputs": {"self": "a"}, "outputs": ["n"]}],
      "outputs": ["r", "n"]})");
    Json& node = j["nodes"][1];
    node["op"] = view;
    if (view == std::string("movedim")) node["inputs"]["source"] = 0, node["inputs"]["destination"] = 1;
    if (view == std::string("transpose")) node["inputs"]["dim0"] = 0, node["inputs"]["dim1"] = 1;
    if (view == std::string("relu")) CHECK(read_bytes(j.dump()).ok());  // memory of its own
    else CHECK(contains(error_of(j).message, "reads 'a', which was overwritten in place before"));
  }
}

TEST_CASE("native: types are inferred, short op names are found, data is bound") {
  ReadInfo info;
  auto graph = read_bytes(small_native().dump(), {}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(info.format == "native");
  REQUIRE(graph->nodes.size() == 4);
  CHECK(graph->nodes[0].op->name == "aten.linear.default");
  CHECK(graph->nodes[1].op->name == "aten.add.Tensor");
  CHECK(graph->nodes[2].arg("approximate") == Arg(std::string("tanh")));
  CHECK(to_string(graph->value(value_named(*graph, "y")).shape) == "[2*m]");
  CHECK(graph->nodes[3].where == "$.nodes[3]");
  const Tensor& w = graph->value(value_named(*graph, "w")).data;
  REQUIRE(w.bound());
  CHECK(elements(w)[3] == 4);
  CHECK(elements(w)[6] == INFINITY);
  CHECK_FALSE(graph->value(value_named(*graph, "b")).data.bound());
}

TEST_CASE("native: states are inputs that the program keeps, with the value that follows") {
  Json j = small_native();
  j["states"] = Json::parse(R"([{"name": "last", "dtype": "f32", "shape": [4], "next": "b2", "data": [1, 2, 3, 4]},
                                {"name": "zero", "dtype": "i64", "shape": [], "next": "zero"}])");
  j["nodes"].push_back(Json::parse(R"({"op": "mul", "inputs": {"self": "last", "other": 2}, "outputs": ["b2"]})"));
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->states == std::vector<std::string>{"last", "zero"});
  CHECK(graph->value(graph->state_output(0)).name == "b2");
  CHECK(graph->state_output(1) == graph->state_input(1));
  CHECK(elements(graph->value(graph->state_input(0)).data)[3] == 4);
  CHECK(elements(graph->value(graph->state_input(1)).data)[0] == 0);

  const auto where = [&](const std::function<void(Json&)>& damage) {
    Json bad = j;
    damage(bad);
    auto read = read_bytes(bad.dump());
    return read.ok() ? std::string("ok") : read.error().where + " " + read.error().message;
  };
  CHECK(where([](Json& d) { d["states"][0].erase("next"); }).find("$.states[0] the field 'next' is missing") !=
        std::string::npos);
  CHECK(where([](Json& d) { d["states"][0]["next"] = "ghost"; }).find("$.states[0].next the value 'ghost'") !=
        std::string::npos);
  CHECK(where([](Json& d) { d["states"][0]["next"] = "y"; }).find("the next value is f32[2*m], the state f32[4]") !=
        std::string::npos);
  CHECK(where([](Json& d) { d["states"][0]["shape"] = {"m"}; }).find("is symbolic") != std::string::npos);
  CHECK(where([](Json& d) { d["states"][0]["shape"] = {-4}; }).find("negative") != std::string::npos);
  CHECK(where([](Json& d) {
          d["states"][0]["shape"] = {1 << 30, 1 << 30, 1 << 30};
        }).find("too large") != std::string::npos);
  CHECK(where([](Json& d) { d["states"][0]["data"] = {1, 2}; }).find("2 elements, the shape 4") != std::string::npos);
  CHECK(where([](Json& d) { d["states"][0]["name"] = "x"; }).find("'x' is defined twice") != std::string::npos);
  CHECK(where([](Json& d) { d["states"] = 3; }).find("$.states") != std::string::npos);
}

TEST_CASE("native: an input may be the value of a symbol") {
  Json j = small_native();
  j["inputs"].push_back(Json::parse(R"({"name": "n", "dtype": "i64", "shape": [], "symbol": "m"})"));
  auto graph = read_bytes(j.dump());
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  CHECK(graph->value(graph->inputs[1]).symbol == "m");
  const auto error = [&](const char* field, Json value) {
    Json bad = j;
    bad["inputs"][1][field] = std::move(value);
    const auto read = read_bytes(bad.dump());
    REQUIRE(!read.ok());
    CHECK(read.error().where.starts_with("$.inputs[1].symbol"));
    return read.error().message;
  };
  CHECK(error("symbol", "k") == "the symbol 'k' is not declared");
  CHECK(error("symbol", 3).find("expected") != std::string::npos);
  CHECK(error("dtype", "f32") == "the value of a symbol is one integer");
  CHECK(error("shape", {2}) == "the value of a symbol is one integer");
  CHECK(error("shape", {"m"}) == "the value of a symbol is one integer");
}

TEST_CASE("native: short names") {
  CHECK(find_op_by_short_name("mul")->name == "aten.mul.Tensor");
  CHECK(find_op_by_short_name("to")->name == "aten.to.dtype");
  CHECK(find_op_by_short_name("transpose")->name == "aten.transpose.int");
  CHECK(find_op_by_short_name("dequantize_affine")->name == "torchao.dequantize_affine.default");
  CHECK(find_op_by_short_name("torch.ops.aten.relu.default")->name == "aten.relu.default");
  CHECK(find_op_by_short_name("nope") == nullptr);
  CHECK(find_op_by_short_name("qcg.linear") == nullptr);
  CHECK(find_op_by_short_name("") == nullptr);
}

TEST_CASE("native: hostile files are refused by path and reason") {
  struct Row {
    const char* what;
    std::function<void(Json&)> damage;
    ErrorCode code;
    const char* where;
    const char* message;
  };
  const Row rows[] = {
      {"version", [](Json& j) { j["version"] = 2; }, ErrorCode::Unsupported, "$.version", "version 2"},
      {"no version", [](Json& j) { j.erase("version"); }, ErrorCode::BadInput, "$", "'version' is missing"},
      {"op", [](Json& j) { j["nodes"][0]["op"] = "conv_transpose4d"; }, ErrorCode::Unsupported, "$.nodes[0].op",
       "no operator 'conv_transpose4d'"},
      {"argument", [](Json& j) { j["nodes"][0]["inputs"]["wait"] = 1; }, ErrorCode::BadInput, "$.nodes[0].inputs.wait",
       "no argument 'wait'"},
      {"missing argument", [](Json& j) { j["nodes"][0]["inputs"].erase("weight"); }, ErrorCode::BadInput,
       "$.nodes[0].inputs", "lacks its argument 'weight'"},
      {"undefined", [](Json& j) { j["nodes"][0]["inputs"]["input"] = "ghost"; }, ErrorCode::BadInput,
       "$.nodes[0].inputs.input", "'ghost' is not defined"},
      {"order", [](Json& j) { j["nodes"][0]["inputs"]["input"] = "g"; }, ErrorCode::BadInput, "$.nodes[0].inputs.input",
       "'g' is not defined above"},
      {"shapes", [](Json& j) { j["inputs"][0]["shape"][1] = 5; }, ErrorCode::BadInput, "$.nodes[0]", ""},
      {"twice", [](Json& j) { j["nodes"][1]["outputs"][0] = "l"; }, ErrorCode::BadInput, "$.nodes[1].outputs[0]",
       "defined twice"},
      {"input twice", [](Json& j) { j["parameters"][0]["name"] = "x"; }, ErrorCode::BadInput, "$.parameters[0].name",
       "defined twice"},
      {"two outputs", [](Json& j) { j["nodes"][0]["outputs"].push_back("l2"); }, ErrorCode::BadInput, "$.nodes[0]",
       "1 outputs, the node names 2"},
      {"dtype", [](Json& j) { j["inputs"][0]["dtype"] = "f12"; }, ErrorCode::Unsupported, "$.inputs[0].dtype", "'f12'"},
      {"symbol", [](Json& j) { j["inputs"][0]["shape"][0] = "n"; }, ErrorCode::BadInput, "$.inputs[0].shape[0]",
       "'n' is not declared"},
      {"symbol name",
       [](Json& j) {
         j["symbols"]["a b"] = {1, 2};
       },
       ErrorCode::BadInput, "$.symbols['a b']", "letters"},
      {"range",
       [](Json& j) {
         j["symbols"]["m"] = {5, 2};
       },
       ErrorCode::BadInput, "$.symbols.m", "min <= max"},
      {"negative", [](Json& j) { j["inputs"][0]["shape"][1] = -4; }, ErrorCode::BadInput, "$.inputs[0].shape",
       "negative"},
      {"symbolic parameter", [](Json& j) { j["parameters"][1]["shape"][0] = "m"; }, ErrorCode::BadInput,
       "$.parameters[1]", "symbolic"},
      {"huge parameter",
       [](Json& j) {
         j["parameters"][1]["shape"] = {INT64_MAX / 2, INT64_MAX / 2};
       },
       ErrorCode::BadInput, "$.parameters[1]", "too large"},
      {"data short",
       [](Json& j) {
         j["parameters"][0]["data"] = {1, 2};
       },
       ErrorCode::BadInput, "$.parameters[0].data", "2 elements, the shape 8"},
      {"data long",
       [](Json& j) {
         j["parameters"][0]["data"].push_back({1, 2});
       },
       ErrorCode::BadInput, "$.parameters[0].data[2]", "more elements"},
      {"data text", [](Json& j) { j["parameters"][0]["data"][0][1] = "x"; }, ErrorCode::BadInput,
       "$.parameters[0].data[0][1]", "expected a number"},
      {"data range",
       [](Json& j) {
         j["parameters"][0]["dtype"] = "i8";
         j["parameters"][0]["data"] = {1, 2, 3, 4, 5, 6, 7, 128};
       },
       ErrorCode::BadInput, "$.parameters[0].data[7]", "128 does not fit i8"},
      {"output", [](Json& j) { j["outputs"][0] = "ghost"; }, ErrorCode::BadInput, "$.outputs[0]", "'ghost'"},
      {"nodes", [](Json& j) { j["nodes"] = 3; }, ErrorCode::BadInput, "$.nodes", "expected a list"},
      {"inputs", [](Json& j) { j["inputs"] = 3; }, ErrorCode::BadInput, "$.inputs", "expected a list"},
  };
  for (const Row& row : rows) {
    INFO(std::string(row.what));
    Json j = small_native();
    row.damage(j);
    Error e = error_of(j);
    CHECK(std::string(error_code_name(e.code)) == error_code_name(row.code));
    CHECK(contains(e.where, row.where));
    CHECK(contains(e.message, row.message));
  }
}

TEST_CASE("native: the examples of this project are read") {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/examples/native")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().string());
    auto graph = read_graph(entry.path().string(), {{"random:1"}});
    CHECK_MESSAGE(graph.ok(), graph.error().to_string());
    ++count;
  }
  CHECK(count >= 2);
}
