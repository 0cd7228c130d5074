// GGUF files that the library gguf wrote (make_gguf.py), against what it dequantizes them to; and files that lie.
#include <doctest/doctest.h>

#include "dense_graph.h"
#include "experts_graph.h"
#include "graph/checkpoints/gguf_names.h"

using namespace qcg;
using namespace qcg::test;

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
