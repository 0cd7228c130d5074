// The names of GGUF's tensors as Hugging Face has them, by architecture.
//
// Why here: a graph that torch exported has the names of its modules.
//
//   const GgufArchitecture* llama = find_gguf_architecture("llama");
//   hugging_face_name(*llama, "blk.3.ffn_up.weight")  ->  "model.layers.3.mlp.up_proj.weight"
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace qcg {

// A module of GGUF, of the model ("output_norm") or of a layer ("attn_q"), and that of Hugging Face.
using GgufName = std::pair<std::string_view, std::string_view>;

struct GgufArchitecture {
  std::string_view name;
  bool interleaves = false;         // rows of queries and keys lie as rotary embeddings of neighbours need them
  bool adds_one = false;            // weights of norms are stored plus 1
  bool alternates = false;          // experts of Hugging Face are JoinedExperts::alternating
  std::span<const GgufName> own{};  // what it names otherwise than most do
};

// Null: its names, or what it stores otherwise than Hugging Face does, are not known.
const GgufArchitecture* find_gguf_architecture(std::string_view name);
std::string known_gguf_architectures();  // "llama, qwen2, …"

// nullopt: no part of the models that are known. "*" stands for the number of an expert, of tensors with all experts.
std::optional<std::string> hugging_face_name(const GgufArchitecture& architecture, std::string_view gguf_name);

}  // namespace qcg
