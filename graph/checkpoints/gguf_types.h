// The types of GGUF's tensors: how a block of bytes is codes, scales and offsets.
//
// Why here: one row per type. Facts are those of the format's specification, tests compare with the library gguf.
//
//   const GgufType* type = find_gguf_type(12);      // Q4_K
//   QCG_TRY(weight, read_gguf_weight(*type, bytes, n, k, where));
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/checkpoints/checkpoint.h"

namespace qcg {

// One block, taken apart.
struct GgufBlock {
  int8_t* codes;   // `elements` of them; of a type with a format 0..15
  float* scales;   // elements / group
  float* offsets;  // elements / group; null: the type has none
};

struct GgufType {
  uint32_t id;
  std::string_view name;
  int64_t elements, bytes;     // of a block
  std::optional<DType> plain;  // stored as numbers of this dtype
  int64_t group = 0;           // elements that share a scale
  DType scale = DType::f32;    // that holds every scale
  int low = 0, high = 0;       // of codes
  bool has_offsets = false;
  std::string_view format{};                                             // of QuantizedWeight
  void (*read)(const std::byte* block, const GgufBlock& out) = nullptr;  // null: no scheme holds it exactly
};

const GgufType* find_gguf_type(uint32_t id);  // null: not in the table

// A matrix [n, k] of blocks along k. Precondition: the type has `read`, and `bytes` holds the whole matrix.
QuantizedWeight read_gguf_weight(const GgufType& type, std::span<const std::byte> bytes, int64_t n, int64_t k);

}  // namespace qcg
