// Checkpoint: the tensors of a model as a library stored them, quantized weights of linears as what they mean.
//
// Why here: GPTQ, AWQ, compressed-tensors and GGUF pack the same few things in their own order. Each of them has a file
// of this folder and a row of kCheckpointKinds (kinds.h). What comes out is the same for all: codes, scales, zero
// points.
//
//   QCG_TRY(checkpoint, open_checkpoint("Llama-3-8B-GPTQ"));
//   QCG_TRY(weight, checkpoint.weights.at("model.layers.0.mlp.gate_proj.weight")());
//
// A weight is taken apart only when somebody asks for it: a graph may need one layer of a large model.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/ir/tensor.h"

namespace qcg {

// How the activation of a linear becomes i8 codes: q = round(x / scale) + zero. The scale, and the zero point unless it
// is symmetric, are chosen for each row at run time, or given for all.
struct ActivationCodes {
  bool symmetric = true;
  std::optional<double> scale;
  int64_t zero = 0;
};

// A weight [N, K], G = K / group:
//
//   w[n, columns[k]] = (codes[n, k] - zero[n, k / group]) * scale[n, k / group] + offset[n, k / group]
//
// or, with a format of ops/four_bit.h, the numbers of packed codes times their scales times the global scale.
struct QuantizedWeight {
  Tensor codes;                  // [N, K] i8 or u8, or e4m3; with a format u8 [N, K / 2]
  Tensor scale;                  // [N, G], floating point
  Tensor zero, offset, global;   // [N, G] i32, [N, G] f32, [1] f32; without storage: none
  int64_t group = 0;             // divides K
  int low = 0, high = 0;         // of integer codes
  std::vector<int64_t> columns;  // a permutation of K; empty: in order
  std::string format;            // "mxfp4", "nvfp4", "nf4"; empty: none of them
  // Above 0: the dense weight is [matrices, N / matrices, K], or [matrices, K, N / matrices] if `turned`.
  int64_t matrices = 0;
  bool turned = false;
  std::optional<ActivationCodes> activation;  // none: it stays floating

  std::vector<int64_t> shape() const;  // of the dense weight
};

using WeightReader = std::function<Result<QuantizedWeight>()>;

struct Checkpoint {
  std::string kind;  // "gptq", "gguf"; empty: no weight is quantized
  // What is stored as it is, by name; then what is quantized, by the name of the dense weight.
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, WeightReader, std::less<>> weights;
  // Tensors of all experts that are stored expert by expert, where none is quantized; and for each tensor of one expert,
  // quantized or not, the name of that of all.
  std::map<std::string, std::function<Result<Tensor>()>, std::less<>> joined;
  std::map<std::string, std::string, std::less<>> part_of;
  // The tensors that quantized weights are made of: a graph that was exported quantized has them itself.
  std::map<std::string, Tensor, std::less<>> parts;
  std::vector<std::string> files;  // what was read
  std::vector<std::string> notes;  // for `explain`: what was assumed
  // Why quantized weights cannot be read: an error for a graph that misses one.
  std::optional<Error> refused;
};

// A safetensors file, an index, a folder with either and a config.json, or a GGUF file. Errors name the file and the
// tensor.
Result<Checkpoint> open_checkpoint(const std::string& path);

// The files that open_checkpoint(path) reads, without reading tensors.
Result<std::vector<std::string>> checkpoint_files(const std::string& path);

}  // namespace qcg
