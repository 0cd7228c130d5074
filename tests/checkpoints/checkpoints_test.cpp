// Quantized checkpoints, written by the libraries that users have (make_*.py), against what these libraries dequantize
// them to; and what becomes of checkpoints that lie.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <span>

#include "dense_graph.h"
#include "experts_graph.h"
#include "graph/checkpoints/checkpoint.h"
#include "graph/passes/pass_list.h"
#include "tests/paths.h"

using namespace qcg;
using namespace qcg::test;

namespace {

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
