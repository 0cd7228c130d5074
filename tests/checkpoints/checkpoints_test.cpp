// Quantized checkpoints, written by the libraries that users have (make_*.py), against what these libraries dequantize
// them to; and what becomes of checkpoints that lie.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <span>

#include "dense_graph.h"
#include "graph/checkpoints/checkpoint.h"
#include "graph/checkpoints/gguf_names.h"
#include "graph/passes/pass_list.h"
#include "tests/paths.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::string fixture(const std::string& name) { return test::source_dir() + "/tests/checkpoints/fixtures/" + name; }

void check_numbers(const std::vector<double>& got, const Tensor& expected, double tolerance, const std::string& name) {
  const auto want = *read_elements<double>(expected);
  REQUIRE(got.size() == want.size());
  size_t wrong = 0;
  for (size_t i = 0; i < want.size(); ++i) wrong += std::abs(got[i] - want[i]) > tolerance * std::abs(want[i]);
  CHECK_MESSAGE(wrong == 0, name << ": " << wrong << " of " << want.size() << " numbers differ");
}

std::vector<const Node*> linears_of(const Graph& graph) {
  std::vector<const Node*> out;
  for (const Node& node : graph.nodes)
    if (node.op->name == "qcg.linear") out.push_back(&node);
  return out;
}

Graph lowered(Graph graph) {
  PassCheckpoint none;
  const auto passes = run_passes(graph, {}, none);
  REQUIRE_MESSAGE(passes.ok(), passes.error().to_string());
  return graph;
}

struct Case {
  const char* name;
  int64_t n;
  const char* scheme;
  int64_t group;
  double tolerance = 0;
};

constexpr const char* kUpProj = "model.layers.0.mlp.up_proj.weight";

}  // namespace

TEST_CASE("folders: every number is that of the library, in the scheme that keeps it") {
  for (const Case& c : {Case{"gptq4", 32, "w4", 32},
                        {"gptq4_v2", 32, "w4", 32},
                        {"gptq4_order", 32, "w4", 32},
                        {"gptq8", 32, "w8", 32},
                        {"gptq2", 32, "w4", 32},
                        {"gptq3", 32, "w4", 32},
                        {"gptq3_order", 32, "w4", 32},
                        {"awq", 32, "w4", 32},
                        {"ct_pack4_group", 16, "w4", 32},
                        {"ct_pack4_zeros", 16, "w4", 32},
                        {"ct_pack8_channel", 16, "w8", 0},
                        {"ct_int8_channel", 16, "w8", 0},
                        {"ct_int8_tensor", 16, "w8", 0},
                        {"ct_float8_channel", 16, "f8", 0},
                        {"ct_float8_block", 16, "f8", 32},
                        // The library rounds these to bf16.
                        {"ct_nvfp4", 16, "f4", 16, 0x1p-8},
                        {"ct_mxfp4", 16, "f4", 32, 0x1p-8},
                        {"bnb_nf4", 16, "nf4", 64},
                        {"bnb_nf4_nested", 16, "nf4", 64}}) {
    INFO(std::string(c.name));
    ReadInfo info;
    auto graph = read_dense({{kUpProj, c.n, 128}}, {.weights = {fixture(c.name)}}, &info);
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    CHECK(info.files.size() == 3);  // graph, tensors, config.json
    const auto expected = read_safetensors(fixture(c.name) + ".expected.safetensors");
    REQUIRE(expected.ok());
    check_numbers(weights_of(*graph)[0], expected->tensors.at(kUpProj), c.tolerance, c.name);
    const Graph after = lowered(*graph);
    REQUIRE(linears_of(after).size() == 1);
    CHECK(*linears_of(after)[0]->arg("scheme").get<std::string>() == c.scheme);
    CHECK(as_integer(linears_of(after)[0]->arg("group")) == c.group);
    check_numbers(weights_of(after)[0], expected->tensors.at(kUpProj), c.tolerance + 1e-6, c.name);
  }
}

namespace {

// The rows of an identity matrix for each expert, and where they end: y lies as a weight [experts, K, N] does.
std::vector<Tensor> identities(int64_t experts, int64_t k, DType dtype) {
  Tensor x = identity(k, dtype);
  x.shape = {experts, k, k}, x.strides = {0, k, 1};
  std::vector<int32_t> ends;
  for (int64_t e = 1; e <= experts; ++e) ends.push_back(static_cast<int32_t>(e * k));
  const auto bytes = std::as_bytes(std::span(ends));
  return {x.reshape({experts * k, k}), Tensor::from_bytes(DType::i32, {experts}, {bytes.begin(), bytes.end()})};
}

// A graph as it is exported from a dense mixture of experts: rows of x, sorted by expert, times the expert's matrix.
std::string experts_graph(const std::string& weight, const std::string& shape) {
  return R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 4096]},
  "inputs": [{"name": "x", "dtype": "bf16", "shape": ["m", 64]}, {"name": "ends", "dtype": "i32", "shape": [3]}],
  "parameters": [{"name": ")" +
         weight + R"(", "dtype": "bf16", "shape": )" + shape + R"(}],
  "nodes": [{"op": "_grouped_mm", "inputs": {"self": "x", "mat2": ")" +
         weight + R"(", "offs": "ends"}, "outputs": ["y"]}],
  "outputs": ["y"]})";
}

}  // namespace

TEST_CASE("experts in mxfp4: every number is that of transformers, and the matrices of groups stay f4") {
  const std::string weight = "model.layers.0.mlp.experts.gate_up_proj";
  const TempDir dir;
  spit(dir / "graph.json", experts_graph(weight, "[3, 64, 48]"));
  const auto graph = read_model(dir / "graph.json", {.weights = {fixture("mxfp4_experts")}});
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const Graph after = lowered(*graph);
  REQUIRE(after.nodes.size() == 1);
  CHECK(after.nodes[0].op->name == "qcg.grouped_linear");
  CHECK(*after.nodes[0].arg("scheme").get<std::string>() == "f4");
  CHECK(as_integer(after.nodes[0].arg("group")) == 32);
  const auto expected = read_safetensors(fixture("mxfp4_experts") + ".expected.safetensors");
  REQUIRE(expected.ok());
  const std::vector<Tensor> inputs = identities(3, 64, DType::bf16);
  for (const Graph& g : {*graph, after}) {
    const auto y = evaluate_graph(g, inputs);
    REQUIRE_MESSAGE(y.ok(), y.error().to_string());
    check_numbers(*read_elements<double>((*y)[0]), expected->tensors.at(weight), 0, weight);
  }
  spit(dir / "other.json", experts_graph(weight, "[3, 64, 24]"));
  const auto other = read_model(dir / "other.json", {.weights = {fixture("mxfp4_experts")}});
  REQUIRE(!other.ok());
  CHECK_MESSAGE(other.error().to_string().find("another shape") != std::string::npos, other.error().to_string());
}

namespace {

// The linear of a fixture as three experts of other numbers: expert e has its rows turned by e + 1 places, and up_proj by
// one place more than gate_proj.
std::map<std::string, Tensor> experts_of(const std::string& name, const std::string& base) {
  const auto file = read_safetensors(fixture(name));
  REQUIRE(file.ok());
  const std::string linear = "model.layers.0.mlp.up_proj";
  std::map<std::string, Tensor> out;
  for (const auto& [stored, tensor] : file->tensors) {
    if (!stored.starts_with(linear)) continue;
    for (int e = 0; e < 3; ++e)
      for (int part = 0; part < 2; ++part) {
        Tensor moved = tensor.contiguous();
        std::vector<std::byte> bytes(moved.bytes().begin(), moved.bytes().end());
        // Whole rows of codes and scales, which have one for each output channel: the rest is the same for all.
        const auto row_bytes =
            bytes.size() / static_cast<size_t>(std::max<int64_t>(1, moved.shape.empty() ? 1 : moved.shape[0]));
        if (!moved.shape.empty() && moved.shape[0] == 16)
          std::rotate(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(row_bytes) * (e + 1 + part), bytes.end());
        out.emplace(base + std::to_string(e) + (part ? ".up_proj" : ".gate_proj") + stored.substr(linear.size()),
                    Tensor::from_bytes(moved.dtype, moved.shape, std::move(bytes)));
      }
  }
  return out;
}

// All experts, a parameter [experts, n, k], as one product of groups.
std::string joined_graph(const std::string& weight, int64_t experts, int64_t n, int64_t k) {
  const std::string count = std::to_string(experts), size = std::to_string(k);
  return R"({"format": "qcodegen", "version": 1, "symbols": {"m": [1, 4096]},
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["m", )" +
         size + R"(]},
             {"name": "ends", "dtype": "i32", "shape": [)" +
         count + R"(]}],
  "parameters": [{"name": ")" +
         weight + R"(", "dtype": "f32", "shape": [)" + count + ", " + std::to_string(n) + ", " + size + R"(]}],
  "nodes": [{"op": "permute", "inputs": {"self": ")" +
         weight + R"(", "dims": [0, 2, 1]}, "outputs": ["w"]},
            {"op": "_grouped_mm", "inputs": {"self": "x", "mat2": "w", "offs": "ends"}, "outputs": ["y"]}],
  "outputs": ["y"]})";
}

}  // namespace

TEST_CASE("experts that are stored one by one are joined, plain and quantized") {
  const std::string base = "model.layers.0.mlp.experts.";
  for (const auto& [name, scheme] : {std::pair{"ct_pack4_group", "w4"},
                                     {"ct_int8_channel", "w8"},
                                     {"ct_float8_channel", "f8"},
                                     {"ct_pack4_zeros", "w4"}}) {
    INFO(std::string(name));
    const TempDir dir;
    const auto tensors = experts_of(name, base);
    REQUIRE(write_safetensors(dir / "model.safetensors", {tensors.begin(), tensors.end()}).ok());
    spit(dir / "config.json", slurp(fixture(name) + "/config.json"));
    // Each expert as a linear of its own.
    std::vector<DenseLinear> linears;
    for (int e = 0; e < 3; ++e)
      for (const char* part : {".gate_proj.weight", ".up_proj.weight"})
        linears.push_back({base + std::to_string(e) + part, 16, 128});
    const auto apart = read_dense(linears, {.weights = {dir.path()}});
    REQUIRE_MESSAGE(apart.ok(), apart.error().to_string());
    spit(dir / "graph.json", joined_graph(base + "gate_up_proj", 3, 32, 128));
    ReadInfo info;
    const auto joined = read_model(dir / "graph.json", {.weights = {dir.path()}}, &info);
    REQUIRE_MESSAGE(joined.ok(), joined.error().to_string());
    for (const std::string& note : info.notes) CHECK_MESSAGE(note.find("not in the graph") == note.npos, note);
    const Graph after = lowered(*joined);
    REQUIRE_MESSAGE(after.nodes.size() == 1, print_graph(after));
    CHECK(*after.nodes[0].arg("scheme").get<std::string>() == scheme);
    std::vector<double> want;
    const auto each = weights_of(*apart);
    const std::vector<Tensor> inputs = identities(3, 128, DType::f32);
    for (size_t e = 0; e < 3; ++e)
      for (size_t k = 0; k < 128; ++k)
        for (size_t n = 0; n < 32; ++n) want.push_back(each[2 * e + n / 16][n % 16 * 128 + k]);
    for (const Graph& g : {*joined, after}) {
      const auto y = evaluate_graph(g, inputs);
      REQUIRE_MESSAGE(y.ok(), y.error().to_string());
      const auto got = *read_elements<double>((*y)[0]);
      REQUIRE(got.size() == want.size());
      size_t wrong = 0;
      for (size_t i = 0; i < want.size(); ++i) wrong += std::abs(got[i] - want[i]) > 1e-6 * std::abs(want[i]);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("experts that cannot be joined are errors that name the one that differs") {
  const std::string base = "model.layers.0.mlp.experts.";
  const auto error_of = [&](const std::string& name,
                            const std::function<void(std::map<std::string, Tensor>&)>& change) {
    const TempDir dir;
    auto tensors = experts_of(name, base);
    change(tensors);
    REQUIRE(write_safetensors(dir / "model.safetensors", {tensors.begin(), tensors.end()}).ok());
    spit(dir / "config.json", slurp(fixture(name) + "/config.json"));
    spit(dir / "graph.json", joined_graph(base + "gate_up_proj", 3, 32, 128));
    const auto graph = read_model(dir / "graph.json", {.weights = {dir.path()}});
    REQUIRE(!graph.ok());
    return graph.error().to_string();
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  has(error_of("ct_int8_channel", [&](auto& all) { all.erase(base + "1.up_proj.weight_scale"); }), "1.up_proj");
  has(error_of("ct_int8_channel",
               [&](auto& all) {
                 Tensor& weight = all.at(base + "2.gate_proj.weight");
                 weight = weight.slice(0, 0, 15).contiguous();
                 Tensor& scale = all.at(base + "2.gate_proj.weight_scale");
                 scale = scale.slice(0, 0, 15).contiguous();
               }),
      "2.gate_proj.weight': has other rows");
}

TEST_CASE("activations are rounded as the library rounds them, and multiplied as integers") {
  for (const std::string name : {"ct_int8_token", "ct_int8_token_zeros", "ct_int8_static"}) {
    INFO(name);
    ReadInfo info;
    const auto graph = read_dense({{kUpProj, 16, 128}}, {.weights = {fixture(name)}}, &info);
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    const auto expected = read_safetensors(fixture(name) + ".expected.safetensors");
    REQUIRE(expected.ok());
    const Tensor& x = expected->tensors.at("x");
    const auto in = *read_elements<double>(x), want = *read_elements<double>(expected->tensors.at("y"));
    const Graph after = lowered(*graph);
    REQUIRE(linears_of(after).size() == 1);
    CHECK(*linears_of(after)[0]->arg("scheme").get<std::string>() == "da8w8");
    for (const Graph& g : {*graph, after}) {
      const auto y = evaluate_graph(g, {x});
      REQUIRE_MESSAGE(y.ok(), y.error().to_string());
      const auto got = *read_elements<double>((*y)[0]);
      REQUIRE(got.size() == want.size());
      // A code may differ by one where a quotient lies in the middle of two: 1/127 of the largest x, times a weight.
      int differ = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        const auto row = std::span(in).subspan(i / 16 * 128, 128), all = std::span(in);
        double largest = 0;
        for (double v : name == "ct_int8_static" ? all : row) largest = std::max(largest, std::abs(v));
        CHECK(std::abs(got[i] - want[i]) <= largest / 127 * 0.5);
        differ += std::abs(got[i] - want[i]) > 1e-5 * largest;
      }
      CHECK(differ <= 16);  // of 80: of one row
    }
  }
}

TEST_CASE("GGUF: every number is that of the library, under the names of Hugging Face") {
  struct Row {
    const char* name;
    int64_t n;
    const char* scheme;
    int64_t group;
  };
  const std::string layers = "model.layers.";
  const std::vector<Row> rows = {
      {"0.self_attn.q_proj.weight", 16, "w4", 32}, {"0.self_attn.k_proj.weight", 8, "w4", 32},
      {"0.self_attn.v_proj.weight", 8, "w8", 32},  {"0.self_attn.o_proj.weight", 12, "w4", 32},
      {"0.mlp.gate_proj.weight", 12, "w4", 32},    {"0.mlp.down_proj.weight", 12, "w8", 16},
      {"0.mlp.up_proj.weight", 12, "dense", 0},    {"2.self_attn.q_proj.weight", 16, "w8", 32},
      {"2.self_attn.k_proj.weight", 8, "w8", 32},  {"2.self_attn.v_proj.weight", 8, "w4", 16},
      {"2.self_attn.o_proj.weight", 12, "w4", 16}, {"2.mlp.gate_proj.weight", 12, "w8", 32},
      {"2.mlp.up_proj.weight", 12, "w8", 32},      {"2.mlp.down_proj.weight", 12, "w8", 32},
      {"6.mlp.gate_proj.weight", 12, "w4", 0},     {"6.mlp.up_proj.weight", 12, "w4", 0},
      {"8.mlp.gate_proj.weight", 12, "f4", 32},    {"8.mlp.up_proj.weight", 12, "f4", 16},
      {"8.mlp.down_proj.weight", 12, "f4", 16}};
  std::vector<DenseLinear> linears;
  for (const Row& row : rows) linears.push_back({layers + row.name, row.n, 256});
  linears.push_back({"lm_head.weight", 8, 256});  // tied to the input embedding
  ReadInfo info;
  auto graph = read_dense(linears, {.weights = {fixture("gguf.gguf")}}, &info);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto expected = read_safetensors(fixture("gguf.expected.safetensors"));
  REQUIRE(expected.ok());
  const auto got = weights_of(*graph);
  for (size_t i = 0; i < rows.size(); ++i)
    check_numbers(got[i], expected->tensors.at(layers + rows[i].name), 0, rows[i].name);
  check_numbers(got.back(), expected->tensors.at("model.embed_tokens.weight"), 0, "lm_head");
  const Graph after = lowered(*graph);
  const auto nodes = linears_of(after);
  REQUIRE(nodes.size() == linears.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO(std::string(rows[i].name));
    CHECK(*nodes[i]->arg("scheme").get<std::string>() == rows[i].scheme);
    CHECK(as_integer(nodes[i]->arg("group")) == rows[i].group);
  }
}

TEST_CASE("GGUF: matrices of all experts are those of the library") {
  const auto expected = read_safetensors(fixture("gguf.expected.safetensors"));
  REQUIRE(expected.ok());
  struct Row {
    const char* weight;
    int64_t n;
    const char* scheme;
  };
  for (const Row& row : {Row{"model.layers.3.mlp.experts.gate_up_proj", 12, "w4"},
                         {"model.layers.3.mlp.experts.down_proj", 4, "w4"},
                         {"model.layers.4.mlp.experts.gate_up_proj", 4, "dense"}}) {
    INFO(std::string(row.weight));
    const TempDir dir;
    spit(dir / "graph.json", joined_graph(row.weight, 2, row.n, 256));
    const auto graph = read_model(dir / "graph.json", {.weights = {fixture("gguf.gguf")}});
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    const Graph after = lowered(*graph);
    REQUIRE_MESSAGE(after.nodes.size() == 1, print_graph(after));
    REQUIRE_MESSAGE(after.nodes[0].op->name == "qcg.grouped_linear", print_graph(after));
    CHECK(*after.nodes[0].arg("scheme").get<std::string>() == row.scheme);
    for (const Graph& g : {*graph, after}) {
      const auto y = evaluate_graph(g, identities(2, 256, DType::f32));
      REQUIRE_MESSAGE(y.ok(), y.error().to_string());
      const Tensor turned = (*y)[0].reshape({2, 256, row.n}).transpose(1, 2);
      check_numbers(*read_elements<double>(turned), expected->tensors.at(row.weight), 1e-6, row.weight);
    }
  }
  const TempDir dir;
  spit(dir / "graph.json", joined_graph("model.layers.5.mlp.experts.gate_up_proj", 2, 4, 256));
  const auto mixed = read_model(dir / "graph.json", {.weights = {fixture("gguf.gguf")}});
  REQUIRE(!mixed.ok());
  CHECK_MESSAGE(mixed.error().to_string().find("0.up_proj.weight': is quantized otherwise") != std::string::npos,
                mixed.error().to_string());
}

TEST_CASE("a GGUF type that no scheme holds is an error only for who asks for it") {
  const std::string weight = "model.layers.1.mlp.down_proj.weight";
  const auto graph = read_dense({{weight, 2, 256}}, {.weights = {fixture("gguf.gguf")}});
  REQUIRE(!graph.ok());
  CHECK(graph.error().code == ErrorCode::Unsupported);
  CHECK(graph.error().message.find("IQ3_XXS") != std::string::npos);
}

TEST_CASE("numbers are cast where the graph's dtype holds each of them, and nowhere else") {
  const std::string f32 = "model.layers.1.mlp.up_proj.weight", bf16 = "model.layers.0.mlp.up_proj.weight";
  CHECK(read_dense({{bf16, 12, 256, "bf16"}}, {.weights = {fixture("gguf.gguf")}}).ok());
  CHECK(read_dense({{bf16, 12, 256, "f32"}}, {.weights = {fixture("gguf.gguf")}}).ok());
  const auto rounded = read_dense({{f32, 4, 256, "bf16"}}, {.weights = {fixture("gguf.gguf")}});
  REQUIRE(!rounded.ok());
  CHECK(rounded.error().message.find("does not hold every number") != std::string::npos);
}

TEST_CASE("names: a prefix is given or found, and parts are renamed") {
  const std::string checkpoint = fixture("gptq4");
  ReadInfo info;
  CHECK(read_dense({{"up_proj.weight", 32, 128}}, {.weights = {checkpoint}}, &info).ok());
  CHECK(std::any_of(info.notes.begin(), info.notes.end(),
                    [](const std::string& note) { return note.find("model.layers.0.mlp.") != std::string::npos; }));
  CHECK(read_dense({{"up_proj.weight", 32, 128}},
                   {.weights = {checkpoint}, .naming = {.prefix = "model.layers.0.mlp.", .renames = {}}})
            .ok());
  CHECK(!read_dense({{"up_proj.weight", 32, 128}},
                    {.weights = {checkpoint}, .naming = {.prefix = "model.layers.1.mlp.", .renames = {}}})
             .ok());
  CHECK(read_dense({{"block.wide.weight", 32, 128}},
                   {.weights = {checkpoint},
                    .naming = {.prefix = {}, .renames = {{"model.layers.0.mlp", "block"}, {"up_proj", "wide"}}}})
            .ok());
  CHECK(read_dense({{std::string("wrapped.inner.") + kUpProj, 32, 128}}, {.weights = {checkpoint}}).ok());
  const auto several = read_dense({{"weight", 12, 256}}, {.weights = {fixture("gguf.gguf")}});
  REQUIRE(!several.ok());
  CHECK_MESSAGE(several.error().to_string().find("--prefix") != std::string::npos, several.error().to_string());
}

namespace {

using Plain = std::vector<std::pair<std::string, Tensor>>;

// A folder of tensors that are not quantized.
Result<Graph> read_plain(const std::vector<DenseLinear>& linears, const Plain& tensors, const std::string& config = "",
                         const WeightNaming& naming = {}, ReadInfo* info = nullptr) {
  const TempDir dir;
  REQUIRE(write_safetensors(dir / "model.safetensors", tensors).ok());
  if (!config.empty()) spit(dir / "config.json", config);
  return read_dense(linears, {.weights = {dir.path()}, .naming = naming}, info);
}

Tensor ramp(DType dtype, std::vector<int64_t> shape) {
  Tensor out = Tensor::zeros(dtype, shape);
  std::vector<std::byte> bytes(static_cast<size_t>(out.numel()) * dtype_bytes(dtype));
  for (int64_t i = 0; i < out.numel(); ++i)
    double_to_element(dtype, static_cast<double>(i), bytes.data() + static_cast<size_t>(i) * dtype_bytes(dtype));
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

void check_ramp(const Result<Graph>& graph) {
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  for (const auto& weight : weights_of(*graph))
    for (size_t i = 0; i < weight.size(); ++i) CHECK(weight[i] == static_cast<double>(i));
}

void check_named(const Result<Graph>& graph, std::initializer_list<const char*> texts) {
  REQUIRE(!graph.ok());
  for (const char* text : texts)
    CHECK_MESSAGE(graph.error().to_string().find(text) != std::string::npos, graph.error().to_string());
}

}  // namespace

TEST_CASE("names, casts and tied heads of folders that are not quantized are those of quantized ones") {
  const Plain table = {{"model.embed_tokens.weight", ramp(DType::f32, {4, 8})}};
  check_ramp(read_plain({{"lm_head.weight", 4, 8}}, table, R"({"tie_word_embeddings": true})"));
  check_named(read_plain({{"lm_head.weight", 4, 8}}, table, R"({"tie_word_embeddings": false})"), {"lm_head.weight"});
  check_ramp(read_plain({{"fc.weight", 4, 8}}, {{"fc.weight", ramp(DType::bf16, {4, 8})}}));
  check_named(read_plain({{"fc.weight", 40, 8, "bf16"}}, {{"fc.weight", ramp(DType::f32, {40, 8})}}),
              {"does not hold every number"});
  ReadInfo info;
  check_ramp(read_plain({{"a.weight", 4, 8}, {"b.weight", 4, 8}},
                        {{"model.a.weight", ramp(DType::f32, {4, 8})}, {"model.b.weight", ramp(DType::f32, {4, 8})}},
                        "", {}, &info));
  CHECK(std::ranges::any_of(info.notes, [](const std::string& note) { return note.find("'model.'") != note.npos; }));
  check_ramp(read_plain({{"wrapped.fc.weight", 4, 8}}, {{"fc.weight", ramp(DType::f32, {4, 8})}}));
}

TEST_CASE("names: several prefixes of the graph, and two tensors of one name, are errors that list them") {
  const Tensor weight = ramp(DType::f32, {8, 8});
  const std::vector<DenseLinear> linears = {{"a.weight", 8, 8}, {"b.weight", 8, 8}};
  check_named(read_plain(linears, {{"weight", weight}}), {"several prefixes", "a.", "b.", "--rename"});
  check_named(read_plain({linears[0]}, {{"old.weight", weight}, {"new.weight", weight}}, "",
                         {.prefix = {}, .renames = {{"old", "a"}, {"new", "a"}}}),
              {"'a.weight' of two tensors", "'old.weight'", "'new.weight'"});
  check_ramp(read_plain({linears[0]}, {{"old.weight", weight}, {"new.weight", weight}}, "",
                        {.prefix = {}, .renames = {{"old", "a"}, {"new", "b"}}}));
}

TEST_CASE("names: a prefix of many weights is found in a moment") {
  constexpr int kMany = 20'000;
  std::string graph;
  Plain tensors;
  for (int i = 0; i < kMany; ++i) {
    const std::string name = "model.layers." + std::to_string(i / 400) + ".experts." + std::to_string(i % 400) + ".up";
    graph += "param @wrap." + name + ": f32[1]\n";
    tensors.emplace_back(name, Tensor::zeros(DType::f32, {1}));
  }
  graph += "graph(%x: f32[1]) {\n  %y = aten.add.Tensor(%x, @wrap." + tensors[0].first + ") : f32[1]\n  return %y\n}\n";
  const TempDir dir;
  spit(dir / "graph.qir", graph);
  REQUIRE(write_safetensors(dir / "model.safetensors", tensors).ok());
  const auto began = std::chrono::steady_clock::now();
  const auto read = read_model(dir / "graph.qir", {.weights = {dir / "model.safetensors"}});
  REQUIRE_MESSAGE(read.ok(), read.error().to_string());
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(10));
}

TEST_CASE("what is missing, of another shape and left over is listed at once") {
  const auto graph = read_dense({{"model.layers.0.mlp.gate_proj.weight", 12, 255},
                                 {"model.layers.0.mlp.up_proj.weight", 11, 256},
                                 {"model.layers.7.mlp.up_proj.weight", 12, 256}},
                                {.weights = {fixture("gguf.gguf")}});
  REQUIRE(!graph.ok());
  const std::string text = graph.error().to_string();
  for (const char* part : {"1 tensor of the graph missing", "layers.7", "2 tensors of another shape", "gate_proj",
                           "i8[12, 256]", "not in the graph", "self_attn.v_proj"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

TEST_CASE("weights of an export on the meta device are not there until a checkpoint gives them") {
  const auto none = read_model(fixture("dense.pt2"));
  REQUIRE_MESSAGE(none.ok(), none.error().to_string());
  const auto is_bound = [](const Graph& graph) {
    return std::all_of(graph.values.begin(), graph.values.end(),
                       [](const Value& v) { return v.kind != ValueKind::parameter || v.data.bound(); });
  };
  CHECK(!is_bound(*none));
  const auto given = read_model(fixture("dense.pt2"), {.weights = {fixture("gptq4")}});
  REQUIRE_MESSAGE(given.ok(), given.error().to_string());
  CHECK(is_bound(*given));
}

TEST_CASE("random numbers fill what a checkpoint does not have") {
  const auto graph =
      read_dense({{kUpProj, 32, 128}, {"other.weight", 8, 128}}, {.weights = {fixture("gptq4"), "random:1"}});
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
}

TEST_CASE("a column order is refused where it is not a linear that reads the weight") {
  const TempDir dir;
  std::string text = dense_graph({{kUpProj, 32, 128}});
  text.replace(text.find("\"op\": \"linear\""), 14, "\"op\": \"add\"");
  text.replace(text.find("\"input\": \"x0\""), 13, "\"self\": \"x0\"");
  text.replace(text.find("\"weight\": \"model"), 9, "\"other\":");
  text.replace(text.find("\"m\", 128"), 8, "32, 128");
  text.replace(text.find("{\"m\": [1, 4096]}"), 16, "{}");
  spit(dir / "graph.json", text);
  CHECK(read_model(dir / "graph.json", {.weights = {fixture("gptq4")}}).ok());
  const auto ordered = read_model(dir / "graph.json", {.weights = {fixture("gptq4_order")}});
  REQUIRE(!ordered.ok());
  CHECK(ordered.error().code == ErrorCode::Unsupported);
}

namespace {

// A fixture with changed tensors or another configuration.
struct Forged {
  TempDir dir;

  Forged(
      const std::string& name, const std::function<void(std::map<std::string, Tensor>&)>& change,
      const std::function<void(std::string&)>& configure = [](std::string&) {}) {
    auto file = read_safetensors(fixture(name));
    REQUIRE(file.ok());
    std::map<std::string, Tensor> tensors(file->tensors.begin(), file->tensors.end());
    change(tensors);
    REQUIRE(write_safetensors(dir / "model.safetensors", {tensors.begin(), tensors.end()}).ok());
    std::string config = slurp(fixture(name) + "/config.json");
    configure(config);
    spit(dir / "config.json", config);
  }
  Result<Graph> read(int64_t n = 32) const { return read_dense({{kUpProj, n, 128}}, {.weights = {dir.path()}}); }
};

std::string part(const std::string& name) { return "model.layers.0.mlp.up_proj." + name; }

void replace_text(std::string& text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  text.replace(text.find(from), from.size(), to);
}

void refused(const Result<Graph>& graph, const std::string& why) {
  REQUIRE(!graph.ok());
  CHECK_MESSAGE(graph.error().code != ErrorCode::Internal, graph.error().to_string());
  CHECK_MESSAGE(graph.error().to_string().find(why) != std::string::npos, graph.error().to_string());
}

Tensor integers(DType dtype, std::vector<int64_t> shape, int64_t value) {
  Tensor out = Tensor::zeros(dtype, shape);
  std::vector<std::byte> bytes(static_cast<size_t>(out.numel()) * dtype_bytes(dtype));
  for (int64_t i = 0; i < out.numel(); ++i)
    int_to_element(dtype, value, bytes.data() + static_cast<size_t>(i) * dtype_bytes(dtype));
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

}  // namespace

TEST_CASE("a graph that was exported quantized has the tensors of the checkpoint themselves") {
  const TempDir dir;
  spit(dir / "graph.json", R"({"format": "qcodegen", "version": 1,
    "inputs": [{"name": "x", "dtype": "i32", "shape": [16, 32]}],
    "parameters": [{"name": "up_proj.qweight", "dtype": "i32", "shape": [16, 32]}],
    "nodes": [{"op": "add", "inputs": {"self": "x", "other": "up_proj.qweight"}, "outputs": ["y"]}], "outputs": ["y"]})");
  const WeightNaming naming{.prefix = "model.layers.0.mlp.", .renames = {}};
  CHECK(read_model(dir / "graph.json", {.weights = {fixture("gptq4")}, .naming = naming}).ok());
  // Of a kind that is not known, too: nothing of it has to be understood.
  const Forged unknown(
      "gptq4", [](std::map<std::string, Tensor>&) {},
      [](std::string& config) { replace_text(config, "\"gptq\"", "\"quip\""); });
  CHECK(read_model(dir / "graph.json", {.weights = {unknown.dir.path()}, .naming = naming}).ok());
}

TEST_CASE("fp8 in blocks: the scales of blocks of rows are those of their rows") {
  const Forged forged(
      "ct_float8_block",
      [](std::map<std::string, Tensor>& t) {
        t[part("weight_scale_inv")] = t.at(part("weight_scale"));
        t.erase(part("weight_scale"));
      },
      [](std::string& config) {
        config = R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [8, 32]}})";
      });
  const auto graph = forged.read(16);
  REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
  const auto expected = read_safetensors(fixture("ct_float8_block.expected.safetensors"));
  REQUIRE(expected.ok());
  check_numbers(weights_of(*graph)[0], expected->tensors.at(kUpProj), 0, "fp8");
}

TEST_CASE("the format of a checkpoint is found under the names that versions of its library have for it") {
  const auto same = [](std::map<std::string, Tensor>&) {};
  const auto rename = [](const char* from, const char* to) {
    return [from, to](std::string& config) { replace_text(config, from, to); };
  };
  const auto expected = read_safetensors(fixture("gptq4_v2") + ".expected.safetensors");
  REQUIRE(expected.ok());
  for (const char* field :
       {"\"format\"", "\"format\": null, \"checkpoint_format\"", "\"checkpoint_format\": \"gptq\", \"format\""}) {
    INFO(std::string(field));
    const auto graph = Forged("gptq4_v2", same, rename("\"checkpoint_format\"", field)).read();
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    check_numbers(weights_of(*graph)[0], expected->tensors.at(kUpProj), 0, field);
  }
  refused(Forged("gptq4", same, rename("\"checkpoint_format\": \"gptq\"", "\"format\": \"marlin\"")).read(), "marlin");
  refused(Forged("awq", same, rename("\"version\": \"gemm\"", "\"format\": \"gemv\"")).read(), "gemv");
  CHECK(Forged("awq", same, rename("\"version\": \"gemm\"", "\"format\": \"gemm\"")).read().ok());
}

TEST_CASE("checkpoints that lie are refused with the tensor and the reason") {
  using Tensors = std::map<std::string, Tensor>;
  const auto same = [](Tensors&) {};
  const auto drop = [](const std::string& name) { return [name](Tensors& t) { REQUIRE(t.erase(part(name)) == 1); }; };
  const auto put = [](const std::string& name, Tensor tensor) {
    return [name, tensor](Tensors& t) { t[part(name)] = tensor; };
  };
  refused(Forged("gptq4", drop("scales")).read(), "scales is missing");
  refused(Forged("gptq4", drop("qzeros")).read(), "qzeros is missing");
  refused(Forged("gptq4", put("scales", Tensor::zeros(DType::f16, {4, 31}))).read(), "scales is f16[4, 31]");
  refused(Forged("gptq4", put("scales", Tensor::zeros(DType::f16, {5, 32}))).read(), "5 groups");
  refused(Forged("gptq4", put("qzeros", Tensor::zeros(DType::i32, {4, 5}))).read(), "qzeros is i32[4, 5]");
  refused(Forged("gptq4", put("qweight", Tensor::zeros(DType::i8, {16, 32}))).read(), "not i32");
  refused(Forged("gptq4", put("qweight", Tensor::zeros(DType::i32, {0, 32}))).read(), "no elements");
  refused(Forged("gptq4", put("g_idx", integers(DType::i32, {128}, 4))).read(), "group 4 for column 0, of 4");
  refused(Forged("gptq4", put("g_idx", integers(DType::i32, {128}, -1))).read(), "group -1");
  refused(Forged("gptq4", put("g_idx", integers(DType::i32, {128}, 3))).read(), "not all of 32 columns");
  refused(Forged("gptq4", put("g_idx", integers(DType::i32, {127}, 0))).read(), "g_idx is i32[127]");
  for (const char* group : {"0", "48", "-2", "999999999999", "\"32\"", "null"}) {
    INFO(std::string(group));
    const Forged forged("gptq4", same, [&](std::string& c) {
      replace_text(c, "\"group_size\": 32", std::string("\"group_size\": ") + group);
    });
    CHECK(!forged.read().ok());
  }
  refused(Forged("gptq4", same, [](std::string& c) { replace_text(c, "\"bits\": 4", "\"bits\": 5"); }).read(),
          "5 bits");
  refused(Forged("gptq3", put("qweight", Tensor::zeros(DType::i32, {13, 32}))).read(), "no whole codes");
  refused(Forged("gptq3", put("qweight", Tensor::zeros(DType::i32, {12, 31}))).read(), "scales is f16[4, 32]");
  refused(Forged("gptq3", put("qzeros", Tensor::zeros(DType::i32, {4, 4}))).read(), "qzeros is i32[4, 4]");
  refused(Forged("gptq4", same, [](std::string& c) { replace_text(c, "\"bits\": 4", "\"bits\": 0"); }).read(), "bits");
  refused(Forged("gptq4", same, [](std::string& c) { replace_text(c, "\"gptq\"", "\"hqq\""); }).read(),
          "the kinds that are read");
  refused(Forged("awq", put("qzeros", Tensor::zeros(DType::i32, {3, 4}))).read(), "qzeros");
  refused(Forged("awq", same, [](std::string& c) { replace_text(c, "\"gemm\"", "\"gemv\""); }).read(), "gemv");
  for (const int64_t size : {0, -1, 129, 120, 1 << 30})
    refused(Forged("ct_pack4_group", put("weight_shape", integers(DType::i64, {2}, size))).read(16), "weight_shape");
  refused(Forged("ct_pack4_zeros", put("weight_zero_point", Tensor::zeros(DType::i32, {3, 4}))).read(16),
          "weight_zero_point");
  refused(Forged("ct_int8_channel", put("weight_scale", Tensor::zeros(DType::f32, {7, 1}))).read(16), "weight_scale");
  refused(Forged("ct_float8_block", put("weight_scale", Tensor::zeros(DType::f32, {2, 3}))).read(16), "groups");
  const auto put_nf4 = [](const std::string& name, Tensor tensor) {
    return [name, tensor](Tensors& t) { t[kUpProj + name] = tensor; };
  };
  refused(Forged("bnb_nf4", put_nf4("", Tensor::zeros(DType::u8, {1023, 1}))).read(16), "1023 bytes");
  refused(Forged("bnb_nf4", put_nf4(".absmax", Tensor::zeros(DType::f32, {31}))).read(16), "absmax");
  refused(Forged("bnb_nf4", put_nf4(".quant_map", Tensor::zeros(DType::f32, {16}))).read(16), "NormalFloat4");
  refused(Forged("bnb_nf4", put_nf4(".quant_state.bitsandbytes__nf4", Tensor::zeros(DType::u8, {8}))).read(16),
          "quant_state");
  refused(Forged("bnb_nf4_nested", put_nf4(".nested_absmax", Tensor::zeros(DType::f32, {2}))).read(16),
          "nested_absmax");
  refused(Forged("ct_nvfp4", put("weight_global_scale", Tensor::zeros(DType::f32, {1}))).read(16), "not positive");
  refused(Forged("ct_nvfp4", put("weight_scale", Tensor::zeros(DType::f8e4m3, {16, 7}))).read(16), "groups");
}

namespace {

// A GGUF file of one tensor of f32: these numbers, then zeros. `sizes`: the fastest one first.
void write_gguf(const std::string& path, const std::string& architecture, const std::string& name,
                const std::vector<uint64_t>& sizes, const std::vector<float>& numbers = {}) {
  std::string out = "GGUF";
  const auto put = [&](auto number) { out.append(reinterpret_cast<const char*>(&number), sizeof number); };
  const auto text = [&](const std::string& t) { put(uint64_t{t.size()}), out += t; };
  constexpr uint32_t kString = 8, kF32 = 0;
  put(uint32_t{3}), put(uint64_t{1}), put(uint64_t{1});
  text("general.architecture"), put(kString), text(architecture);
  text(name), put(static_cast<uint32_t>(sizes.size()));
  uint64_t bytes = 4;
  for (const uint64_t size : sizes) put(size), bytes *= size;
  put(kF32), put(uint64_t{0});
  out.resize((out.size() + 31) / 32 * 32);
  const size_t data = out.size();
  for (const float number : numbers) put(number);
  spit(path, out);
  fs::resize_file(path, data + bytes);
}

}  // namespace

TEST_CASE("GGUF: experts are not made without number, and a gate of one row is a matrix") {
  const TempDir dir;
  write_gguf(dir / "many.gguf", "qwen3moe", "blk.0.ffn_up_exps.weight", {1, 1, 2'000'000});
  const auto many = open_checkpoint(dir / "many.gguf");
  REQUIRE(!many.ok());
  CHECK(many.error().message == "claims 2000000 experts");
  write_gguf(dir / "gate.gguf", "qwen2moe", "blk.0.ffn_gate_inp_shexp.weight", {64});
  CHECK(read_dense({{"model.layers.0.mlp.shared_expert_gate.weight", 1, 64}}, {.weights = {dir / "gate.gguf"}}).ok());
}

TEST_CASE("GGUF: names are those of each architecture in Hugging Face") {
  struct Row {
    const char *architecture, *gguf, *hugging_face;
  };
  for (const Row& row :
       {Row{"llama", "blk.12.attn_q.weight", "model.layers.12.self_attn.q_proj.weight"},
        {"llama", "output.weight", "lm_head.weight"},
        {"llama", "output_norm.weight", "model.norm.weight"},
        {"qwen2", "blk.0.attn_k.bias", "model.layers.0.self_attn.k_proj.bias"},
        {"gemma2", "blk.0.ffn_norm.weight", "model.layers.0.pre_feedforward_layernorm.weight"},
        {"gemma3", "blk.0.post_ffw_norm.weight", "model.layers.0.post_feedforward_layernorm.weight"},
        {"olmo2", "blk.0.post_attention_norm.weight", "model.layers.0.post_attention_layernorm.weight"},
        {"glm4", "blk.0.ffn_up.weight", "model.layers.0.mlp.gate_up_proj.weight"},
        {"glm4moe", "blk.1.exp_probs_b.bias", "model.layers.1.mlp.gate.e_score_correction_bias"},
        {"granitemoe", "blk.0.ffn_up_exps.weight", "model.layers.0.block_sparse_moe.experts.*.up_proj.weight"},
        {"gpt-oss", "blk.0.attn_sinks.weight", "model.layers.0.self_attn.sinks"},
        {"hunyuan-dense", "blk.0.attn_q_norm.weight", "model.layers.0.self_attn.query_layernorm.weight"},
        {"phi2", "output_norm.bias", "model.final_layernorm.bias"},
        {"phi3", "blk.0.attn_qkv.weight", "model.layers.0.self_attn.qkv_proj.weight"},
        {"starcoder2", "blk.0.ffn_down.bias", "model.layers.0.mlp.c_proj.bias"}}) {
    const GgufArchitecture* architecture = find_gguf_architecture(row.architecture);
    REQUIRE_MESSAGE(architecture, row.architecture);
    CHECK(hugging_face_name(*architecture, row.gguf) == row.hugging_face);
  }
  const GgufArchitecture* llama = find_gguf_architecture("llama");
  for (const char* name : {"", ".", "rope_freqs.weight", "blk.", "blk.x.attn_q.weight", "blk.1.", "blk.1.attn_q"})
    CHECK_MESSAGE(!hugging_face_name(*llama, name), name);
  CHECK(!find_gguf_architecture("clip"));
}

TEST_CASE("GGUF: any part of a model that was split stands for all, and a missing or foreign part is an error") {
  const std::string first = "gguf_split-00001-of-00002.gguf", second = "gguf_split-00002-of-00002.gguf";
  for (const std::string& part : {first, second}) {
    const auto checkpoint = open_checkpoint(fixture(part));
    REQUIRE_MESSAGE(checkpoint.ok(), checkpoint.error().to_string());
    CHECK(checkpoint->files == std::vector<std::string>{fixture(first), fixture(second)});
    CHECK(checkpoint_files(fixture(part)).value() == checkpoint->files);
    for (int layer = 0; layer < 3; ++layer) {
      const Tensor& up = checkpoint->tensors.at("model.layers." + std::to_string(layer) + ".mlp.up_proj.weight");
      CHECK(*read_elements<float>(up) == std::vector<float>(64, static_cast<float>(layer + 1)));
    }
  }
  const TempDir dir;
  spit(dir / first, slurp(fixture(first)));
  CHECK(!open_checkpoint(dir / first).ok());
  spit(dir / second, slurp(fixture(first)));
  const auto twice = open_checkpoint(dir / first);
  REQUIRE(!twice.ok());
  CHECK(twice.error().message.find("is not part 2 of") != std::string::npos);
  spit(dir / "renamed.gguf", slurp(fixture(first)));
  const auto renamed = open_checkpoint(dir / "renamed.gguf");
  REQUIRE(!renamed.ok());
  CHECK(renamed.error().help.find("-00001-of-00002.gguf") != std::string::npos);
}

TEST_CASE("GGUF: gpt-oss has columns of gates and ups in turn") {
  const auto expected = read_safetensors(fixture("gguf_gpt_oss.expected.safetensors"));
  REQUIRE(expected.ok());
  const TempDir dir;
  for (const auto& [layer, scheme] : {std::pair{"0", "f4"}, {"1", "dense"}}) {
    const std::string weight = std::string("model.layers.") + layer + ".mlp.experts.gate_up_proj";
    std::string text = experts_graph(weight, "[3, 64, 48]");
    for (size_t at; (at = text.find("bf16")) != text.npos;) text.replace(at, 4, "f32");
    spit(dir / "graph.json", text);
    const auto graph = read_model(dir / "graph.json", {.weights = {fixture("gguf_gpt_oss.gguf")}});
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    const Graph after = lowered(*graph);
    CHECK(*after.nodes[0].arg("scheme").get<std::string>() == scheme);
    for (const Graph& g : {*graph, after}) {
      const auto y = evaluate_graph(g, identities(3, 64, DType::f32));
      REQUIRE_MESSAGE(y.ok(), y.error().to_string());
      check_numbers(*read_elements<double>((*y)[0]), expected->tensors.at(weight), 0, weight);
    }
  }
  const std::string bias = "model.layers.0.mlp.experts.gate_up_proj_bias";
  const auto checkpoint = open_checkpoint(fixture("gguf_gpt_oss.gguf"));
  REQUIRE(checkpoint.ok());
  const auto joined = checkpoint->joined.at(bias)();
  REQUIRE(joined.ok());
  CHECK(joined->shape == std::vector<int64_t>{3, 48});
  check_numbers(*read_elements<double>(*joined), expected->tensors.at(bias), 0, bias);
}

TEST_CASE("GGUF: weights of norms that were stored plus 1 are those of the model") {
  const TempDir dir;
  const float tiny = 0x1.ap-19f;
  const std::vector<float> plus_one = {1, 1.5f, 1 + tiny, 0.1f + 1};
  for (const auto& [architecture, want] :
       {std::pair<std::string, std::vector<float>>{"llama", plus_one}, {"gemma", {0, 0.5f, tiny, (0.1f + 1) - 1}}}) {
    write_gguf(dir / "a.gguf", architecture, "blk.0.attn_norm.weight", {4}, plus_one);
    const auto checkpoint = open_checkpoint(dir / "a.gguf");
    REQUIRE_MESSAGE(checkpoint.ok(), checkpoint.error().to_string());
    CHECK(*read_elements<float>(checkpoint->tensors.at("model.layers.0.input_layernorm.weight")) == want);
  }
}

TEST_CASE("a GGUF file that was cut off or changed anywhere is an error or a checkpoint, never more") {
  const std::string whole = slurp(fixture("gguf.gguf"));
  const TempDir dir;
  const auto open = [&](const std::string& bytes) {
    spit(dir / "a.gguf", bytes);
    const auto checkpoint = open_checkpoint(dir / "a.gguf");
    if (!checkpoint.ok()) return CHECK(checkpoint.error().code != ErrorCode::Internal), false;
    for (const auto& [name, reader] : checkpoint->weights) (void)reader();
    return true;
  };
  REQUIRE(open(whole));
  for (size_t size = 0; size < 1200; size += 7) CHECK(!open(whole.substr(0, size)));
  for (size_t size = 1200; size < whole.size(); size += 1777) CHECK(!open(whole.substr(0, size)));
  for (size_t at = 4; at < 1200; ++at)
    for (const char byte : {'\xff', '\0'}) {
      std::string changed = whole;
      changed[at] = byte;
      (void)open(changed);
    }
}
