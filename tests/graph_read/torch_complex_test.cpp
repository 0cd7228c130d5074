#include "graph/read/text.h"
#include "tests/graph_read/read_test_util.h"

using namespace qcg;
using namespace qcg::test;

namespace {

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

TEST_CASE("torch.export: zeros and numbers everywhere of complex numbers are pairs") {
  const auto text_of = [](const char* op, Json given) {
    Json j = rotary_export();
    given.push_back(argument("size", {{"as_ints", {1, 2}}}));
    given.push_back(argument("dtype", {{"as_scalar_type", 10}}));
    node_of(j, 2) = node_named("row", op, {});
    node_of(j, 2)["inputs"] = given;
    auto graph = read_bytes(j.dump());
    return graph.ok() ? print_graph(*graph) : graph.error().to_string();
  };
  const std::string zeros = text_of("zeros.default", Json::array());
  CHECK_MESSAGE(zeros.find("aten.scalar_tensor.default(s = 0.0, dtype = f64)") != std::string::npos, zeros);
  CHECK_MESSAGE(zeros.find("[1, 2, 2]) : f32[1, 2, 2]") != std::string::npos, zeros);
  const std::string number =
      text_of("full.default", Json::array({argument("fill_value", {{"as_complex", {{"real", 1.0}, {"imag", 2.5}}}})}));
  for (const char* part : {"aten.scalar_tensor.default(s = 1.0, ", "aten.scalar_tensor.default(s = 2.5, "})
    CHECK_MESSAGE(number.find(part) != std::string::npos, number);
  const std::string real = text_of("full.default", Json::array({argument("fill_value", {{"as_float", 3.5}})}));
  for (const char* part : {"aten.scalar_tensor.default(s = 3.5, ", "aten.scalar_tensor.default(s = 0.0, "})
    CHECK_MESSAGE(real.find(part) != std::string::npos, real);
}

TEST_CASE("torch.export: complex memory is written through its parts and its views as real numbers") {
  const auto written = [](const char* view, Json given, Json meta, const char* write, Json source) {
    Json j = rotary_export();
    Json& graph = graph_of(j);
    graph["tensor_values"]["m"] = complex_meta({3, 2});
    graph["tensor_values"]["part"] = graph["tensor_values"]["w"] = meta;
    Json nodes = {graph["nodes"][1],
                  graph["nodes"][2],
                  node_named("m", "zeros.default",
                             {argument("size", {{"as_ints", {3, 2}}}), argument("dtype", {{"as_scalar_type", 10}})}),
                  node_named("part", view, {argument("self", tensor("m"))}),
                  node_named("w", write, {argument("self", tensor("part"))}),
                  graph["nodes"][4]};
    for (const Json& input : given) nodes[3]["inputs"].push_back(input);
    nodes[4]["inputs"].push_back(source);
    nodes[5]["inputs"] = Json::array({argument("self", tensor("m"))});
    graph["nodes"] = nodes;
    auto read = read_bytes(j.dump());
    return read.ok() ? print_graph(*read) : read.error().to_string();
  };
  const Json first_row = {argument("dim", {{"as_int", 0}}), argument("end", {{"as_int", 1}})};
  const std::string row =
      written("slice.Tensor", first_row, complex_meta({1, 2}), "copy_.default", argument("src", tensor("row")));
  CHECK_MESSAGE(row.find("aten.slice_scatter.default(") != std::string::npos, row);
  CHECK_MESSAGE(row.find("%w, end = 1) : f32[3, 2, 2]") != std::string::npos, row);
  const std::string real =
      written("real.default", Json::array(), real_meta({3, 2}), "fill_.Scalar", argument("value", {{"as_float", 5.0}}));
  CHECK_MESSAGE(real.find("aten.fill.Scalar(") != std::string::npos, real);
  CHECK_MESSAGE(real.find("dim = -1, start = 0, end = 1) : f32[3, 2, 2]") != std::string::npos, real);
  const std::string pairs = written("view_as_real.default", Json::array(), real_meta({3, 2, 2}), "add_.Scalar",
                                    argument("other", {{"as_float", 1.0}}));
  CHECK_MESSAGE(pairs.find("aten.add.Scalar(") != std::string::npos, pairs);
  const std::string conjugate = written("conj.default", Json::array(), complex_meta({3, 2}), "mul_.Scalar",
                                        argument("other", {{"as_float", 2.0}}));
  CHECK_MESSAGE(conjugate.find("views of a tensor that the model writes to") != std::string::npos, conjugate);
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
