#include "graph/checkpoints/gguf_names.h"

#include <algorithm>
#include <utility>

namespace qcg {

namespace {

constexpr GgufArchitecture kArchitectures[] = {
    {"llama", true}, {"qwen2", false}, {"qwen3", false}, {"qwen2moe", false}, {"qwen3moe", false}};

using Pair = std::pair<std::string_view, std::string_view>;
constexpr Pair kOfModel[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Pair kOfLayer[] = {
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

std::optional<std::string_view> look_up(std::string_view name, const auto& table) {
  for (const auto& [gguf, hugging_face] : table)
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

std::optional<std::string> hugging_face_name(std::string_view gguf_name) {
  const size_t dot = gguf_name.rfind('.');
  if (dot == gguf_name.npos) return std::nullopt;
  std::string_view module = gguf_name.substr(0, dot);
  const std::string end(gguf_name.substr(dot));  // ".weight", ".bias"
  if (const auto found = look_up(module, kOfModel)) return std::string(*found) + end;
  constexpr std::string_view kLayer = "blk.";
  if (!module.starts_with(kLayer)) return std::nullopt;
  module.remove_prefix(kLayer.size());
  const std::string number(module.substr(0, module.find('.')));
  if (number.empty() || number.size() > 6 || number.size() == module.size() ||
      !std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  const auto found = look_up(module.substr(number.size() + 1), kOfLayer);
  if (!found) return std::nullopt;
  return "model.layers." + number + "." + std::string(*found) + end;
}

}  // namespace qcg
