// The kinds of quantized checkpoints, one row each, and what their readers share.
//
// Why here: open_checkpoint() asks the rows; a new kind is a file with one function and a row of kCheckpointKinds
// (open_checkpoint.cpp).
//
//   Status take_gptq(RawCheckpoint& raw, Checkpoint& out);    // moves its tensors from raw to readers of weights
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/checkpoints/checkpoint.h"
#include "graph/read/files/json.h"
#include "graph/read/safetensors.h"

namespace qcg {

// The tensors of a folder, and the object that says how they are quantized.
struct RawCheckpoint {
  Safetensors file;
  JsonCursor config;
  std::string path;
};

using TakeWeights = Status(RawCheckpoint& raw, Checkpoint& out);

struct CheckpointKind {
  std::string_view method;  // "quant_method" in the configuration
  TakeWeights* take;
};

TakeWeights take_gptq, take_awq, take_compressed_tensors, take_fp8, take_fbgemm_fp8, take_mxfp4, take_bitsandbytes;

// The tensors of one linear by what follows its name: "qweight", "scales".
class LinearParts {
 public:
  LinearParts(std::string where, std::map<std::string, Tensor, std::less<>> parts)
      : where_(std::move(where)), parts_(std::move(parts)) {}

  bool has(std::string_view part) const { return parts_.contains(part); }
  // The tensor, of one of these dtypes and of this shape, where -1 is any size and {} any shape. Error BadInput: it is
  // not there, or is another.
  Result<Tensor> tensor(std::string_view part, std::initializer_list<DType> dtypes, std::vector<int64_t> shape) const;
  Error bad(std::string_view part, std::string message) const;
  Error unsupported(std::string message, std::string help) const;

 private:
  std::string where_;  // "model.safetensors: \"model.layers.0.mlp.gate_proj\""
  std::map<std::string, Tensor, std::less<>> parts_;
};

// Every linear that has `marker`, with those of `others` that it has; "" is the tensor that has the linear's own
// name. What begins with "_" follows the name at once, all else behind a dot. A linear that is the whole model has the
// name "", and no dot. They leave raw: what remains is stored as it is.
std::map<std::string, LinearParts> take_parts(RawCheckpoint& raw, std::string_view marker,
                                              std::initializer_list<std::string_view> others);

std::string weight_of(const std::string& linear);  // "a.weight" of "a", and "weight" of ""

// Where the output embedding is not stored, it is the input embedding.
void tie_head(Checkpoint& out);

// How one parameter has the gates and ups of all experts, E matrices of I rows and K columns each.
enum class JoinedExperts {
  stacked,      // [E, 2 I, K]: the rows of the gate, then those of the up
  alternating,  // [E, K, 2 I]: a column of the gate, one of the up, and so on, as gpt-oss has them; down is turned too
};

// Adds what graphs have of all experts where the checkpoint has it expert by expert.
void join_experts(Checkpoint& out, JoinedExperts order = JoinedExperts::stacked);

// A whole number of the configuration from `least` to `most`, or `missing` where it says nothing.
Result<int64_t> config_number(const JsonCursor& config, std::string_view key, int64_t missing, int64_t least,
                              int64_t most);

// How K numbers are cut into groups. Error BadInput unless `group` is positive and divides K, and there are `groups` of
// them; 0 or -1 is one group for all of K.
Result<int64_t> check_group(const LinearParts& parts, int64_t group, int64_t k, int64_t groups);

// Unpacks numbers of 1 to 8 bits from 32-bit words along the last axis, low bits first: [R, C] becomes
// u8 [R, C * 32 / bits]. A number may begin in one word and end in the next. Precondition: bits divides C * 32.
Tensor unpack_words(const Tensor& words, int bits);

// Sets the permutation that puts columns of one group side by side, and moves the codes. g_idx [K] names the group of
// each column. Error BadInput: a group is out of range. Unsupported: groups differ in size.
Status order_by_group(const LinearParts& parts, const Tensor& g_idx, QuantizedWeight& weight);

Tensor to_i32(const Tensor& integers, int32_t plus = 0, int32_t mask = -1);  // (element + plus) & mask
Tensor repeat_rows(const Tensor& matrix, int64_t times, int64_t n);  // each row so many times, the first n of them
Tensor gather_rows(const Tensor& tensor, const std::vector<int64_t>& rows);  // dense; row i is rows[i] of the tensor

}  // namespace qcg
