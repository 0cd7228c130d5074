#include "graph/checkpoints/gguf_names.h"

#include <algorithm>

namespace qcg {

namespace {

constexpr GgufName kNames[] = {
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj"},
    {"ffn_up_exps", "mlp.experts.*.up_proj"},
    {"ffn_down_exps", "mlp.experts.*.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};

constexpr GgufName kGemma2[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr GgufName kNormsBehind[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr GgufName kGlm4[] = {
    {"post_attention_norm", "post_self_attn_layernorm"},
    {"post_ffw_norm", "post_mlp_layernorm"},
    {"ffn_up", "mlp.gate_up_proj"},
};
constexpr GgufName kGlm4Moe[] = {
    {"post_attention_norm", "post_attention_layernorm"}, {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},  {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
};
constexpr GgufName kGptOss[] = {
    {"attn_sinks.weight", "self_attn.sinks"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.router"},
    {"ffn_gate_exps.bias", "mlp.experts.gate_proj_bias"},
    {"ffn_up_exps.bias", "mlp.experts.up_proj_bias"},
    {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
};
constexpr GgufName kGraniteMoe[] = {
    {"ffn_gate_inp", "block_sparse_moe.router"},
    {"ffn_gate_exps", "block_sparse_moe.experts.*.gate_proj"},
    {"ffn_up_exps", "block_sparse_moe.experts.*.up_proj"},
    {"ffn_down_exps", "block_sparse_moe.experts.*.down_proj"},
};
constexpr GgufName kHunyuan[] = {
    {"attn_q_norm", "self_attn.query_layernorm"},
    {"attn_k_norm", "self_attn.key_layernorm"},
};
constexpr GgufName kPhi2[] = {
    {"output_norm", "final_layernorm"},
    {"attn_output", "self_attn.dense"},
    {"ffn_up", "mlp.fc1"},
    {"ffn_down", "mlp.fc2"},
};
constexpr GgufName kPhi3[] = {{"attn_qkv", "self_attn.qkv_proj"}, {"ffn_up", "mlp.gate_up_proj"}};
constexpr GgufName kStarcoder2[] = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};

constexpr GgufArchitecture kArchitectures[] = {
    {.name = "llama", .interleaves = true},
    {.name = "qwen2"},
    {.name = "qwen3"},
    {.name = "qwen2moe"},
    {.name = "qwen3moe"},
    {.name = "arcee", .interleaves = true},
    {.name = "command-r"},
    {.name = "ernie4_5"},
    {.name = "exaone4", .own = kNormsBehind},
    {.name = "gemma", .adds_one = true},
    {.name = "gemma2", .adds_one = true, .own = kGemma2},
    {.name = "gemma3", .adds_one = true, .own = kGemma2},
    {.name = "glm4", .own = kGlm4},
    {.name = "glm4moe", .own = kGlm4Moe},
    {.name = "gpt-oss", .alternates = true, .own = kGptOss},
    {.name = "granite", .interleaves = true},
    {.name = "granitemoe", .interleaves = true, .own = kGraniteMoe},
    {.name = "hunyuan-dense", .own = kHunyuan},
    {.name = "nemotron", .adds_one = true},
    {.name = "olmo", .interleaves = true},
    {.name = "olmo2", .own = kNormsBehind},
    {.name = "olmoe"},
    {.name = "phi2", .own = kPhi2},
    {.name = "phi3", .own = kPhi3},
    {.name = "seed_oss", .own = kNormsBehind},
    {.name = "smollm3", .interleaves = true},
    {.name = "stablelm"},
    {.name = "starcoder2", .own = kStarcoder2},
};

std::optional<std::string_view> look_up(std::string_view name, std::span<const GgufName> names) {
  for (const auto& [gguf, hugging_face] : names)
    if (gguf == name) return hugging_face;
  return std::nullopt;
}

}  // namespace

const GgufArchitecture* find_gguf_architecture(std::string_view name) {
  for (const GgufArchitecture& a : kArchitectures)
    if (a.name == name) return &a;
  return nullptr;
}

std::string known_gguf_architectures() {
  std::string out;
  for (const GgufArchitecture& a : kArchitectures) out += (out.empty() ? "" : ", ") + std::string(a.name);
  return out;
}

std::optional<std::string> hugging_face_name(const GgufArchitecture& architecture, std::string_view gguf_name) {
  constexpr std::string_view kLayer = "blk.", kHead = "output.";
  if (gguf_name.starts_with(kHead)) return "lm_head." + std::string(gguf_name.substr(kHead.size()));
  std::string in = "model.";
  std::string_view rest = gguf_name;
  if (rest.starts_with(kLayer)) {
    rest.remove_prefix(kLayer.size());
    const std::string number(rest.substr(0, rest.find('.')));
    if (number.empty() || number.size() > 6 || number.size() == rest.size() ||
        !std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return std::nullopt;
    rest.remove_prefix(number.size() + 1);
    in += "layers." + number + ".";
  }
  if (const auto whole = look_up(rest, architecture.own)) return in + std::string(*whole);
  const size_t dot = rest.rfind('.');
  if (dot == rest.npos) return std::nullopt;
  const std::string_view module = rest.substr(0, dot);
  auto found = look_up(module, architecture.own);
  if (!found) found = look_up(module, kNames);
  if (!found) return std::nullopt;
  return in + std::string(*found) + std::string(rest.substr(dot));  // ".weight", ".bias"
}

}  // namespace qcg
