// The names of GGUF's tensors as Hugging Face has them, by architecture.
//
// Why here: a graph that torch exported has the names of its modules.
//
//   hugging_face_name("blk.3.ffn_up.weight")  ->  "model.layers.3.mlp.up_proj.weight"
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qcg {

struct GgufArchitecture {
  std::string_view name;
  bool interleaves;  // rows of queries and keys lie as rotary embeddings of neighbours need them
};

// Null: its names, or what it stores otherwise than Hugging Face does, are not known.
const GgufArchitecture* find_gguf_architecture(std::string_view name);
std::string known_gguf_architectures();  // "llama, qwen2, …"

// nullopt: no part of the models that are known. "*" stands for the number of an expert, of tensors with all experts.
std::optional<std::string> hugging_face_name(std::string_view gguf_name);

}  // namespace qcg
