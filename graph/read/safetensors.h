// safetensors files: weights in, inputs and outputs in and out. Tensors are views into the mapped file.
//
// Why here: --weights, and the files of `run` and `check`. Format: u64 LE header length, JSON header, data; every byte
// of the data belongs to exactly one tensor (https://github.com/huggingface/safetensors). A sharded checkpoint is a
// model.safetensors.index.json that names the file of each tensor.
//
//   QCG_TRY(weights, read_safetensors("model.safetensors"));       // also an index, or a folder holding either
//   weights.tensors["fc.weight"].shape
//   QCG_CHECK(write_safetensors("out.safetensors", {{"y", y}}));
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir/tensor.h"

namespace qcg {

struct Safetensors {
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> files;  // what was read
};

Result<Safetensors> read_safetensors(const std::string& path);

// The files that read_safetensors(path) reads, without reading tensors: with an index first, then its shards by name.
Result<std::vector<std::string>> safetensors_files(const std::string& path);

// One file's bytes; name is for messages, owner keeps the bytes alive.
Result<Safetensors> parse_safetensors(std::string_view bytes, std::shared_ptr<const void> owner,
                                      const std::string& name);

// Written beside path and renamed, so that a reader never sees half a file. Tensors must be bound; views are made
// dense.
Status write_safetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace qcg
