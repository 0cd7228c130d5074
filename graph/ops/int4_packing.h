// Two 4-bit codes per byte, in the orders that torch and torchao pack them in: where the code of row n, column k lies.
//
// Why here: packed weights are unpacked once, when a linear is recognized; the oracle reads the same bytes. An order is
// one function from (n, k) to the number of a nibble: byte = nibble / 2, its high half when nibble is odd.
//
//   Int4Weight w = read_int4pack(packed, 32, scales_and_zeros);   // w.codes: i8 [n, k] in [-8, 7]
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/ir/tensor.h"

namespace qcg {

// aten._convert_weight_to_int4pack_for_cpu: torch packs for the instructions of the machine it runs on.
//   avx512   blocks of 64 columns; a row of a block is 32 bytes, byte d holds columns d and d + 32
//   avx2     blocks of 32 columns; 16 bytes, columns d and d + 16
// A block of another width at the end has columns 2d and 2d + 1 in byte d, in either.
enum class Int4CpuOrder { avx512, avx2 };

// Codes are 0..15 here, [n, k]. Precondition of all: bytes.size() == n * k / 2.
std::vector<uint8_t> unpack_int4pack_cpu(std::span<const std::byte> bytes, int64_t n, int64_t k, Int4CpuOrder order);
std::vector<std::byte> pack_int4pack_cpu(std::span<const uint8_t> codes, int64_t n, int64_t k, Int4CpuOrder order);
inline constexpr int64_t kLeastOrderedRows = 32;  // with fewer, both orders are the same

// Nothing in an archive says which one it was; the numbers may, where they come from weights. Groups are centred on
// zero, so that the mean code of a group follows the code of zero; and a quantizer that scales by extremes uses codes 0
// and 15 in every group. What only one order shows is evidence for it. `packed` u8 [n, k / 2], scales_and_zeros
// [groups, n, 2].
enum class Int4Evidence { none, avx512, avx2 };
inline constexpr int64_t kOrderRows = 512;  // the first rows, whole blocks, tell as well as all
Int4Evidence find_cpu_order(const Tensor& packed, int64_t group, const Tensor& scales_and_zeros);

// aten._convert_weight_to_int4pack (CUDA): int32 [n / 8][k / (16 tiles)][32 lanes][tiles / 2], the order of
// mma.m16n8k16.
std::vector<uint8_t> unpack_int4pack_cuda(std::span<const std::byte> bytes, int64_t n, int64_t k, int64_t tiles);

// torchao.da8w4_linear_prepack_cpu: [n / 32][k / block][block][16].
//   vnni     with AMX: byte (k / 4, column mod 8 of a half of 16, k mod 4) holds columns c and c + 8
//   pairs    elsewhere: byte d of row k holds columns 2d and 2d + 1
enum class Da8w4Order { vnni, pairs };
std::vector<uint8_t> unpack_da8w4(std::span<const std::byte> bytes, int64_t n, int64_t k, int64_t block,
                                  Da8w4Order order);

// The order for which sum over a block of (code - zero) is `compensation` ([n / 32][k / block][32]); nullopt if none
// is. zeros: [n / 32][groups][32].
std::optional<Da8w4Order> find_da8w4_order(std::span<const std::byte> bytes, int64_t n, int64_t k, int64_t block,
                                           std::span<const int32_t> zeros, std::span<const int32_t> compensation);

// A weight as qcg.linear holds it (scheme.h). Tensors without bytes give tensors without bytes.
struct Int4Weight {
  Tensor codes;                   // i8 [n, k]
  Tensor scales, zeros, offsets;  // [n, groups]; zeros or offsets is absent (an empty shape)
  int64_t group = 0;
};

// aten._weight_int4pack_mm_for_cpu (packed u8 [n, k / 2], in AVX-512's order: readers see to that) and
// aten._weight_int4pack_mm (packed i32 [n / 8, …]):
// (code - 8) * scale + offset, scales_and_zeros [groups, n, 2]. Precondition: shapes as inferred (shapes/packed.cpp).
Int4Weight read_int4pack(const Tensor& packed, int64_t group, const Tensor& scales_and_zeros);

// torchao.da8w4_linear_cpu: (code - zero) * scale; nullopt when no byte order gives `compensation`. Same precondition.
std::optional<Int4Weight> read_da8w4(const Tensor& packed, const Tensor& scales, const Tensor& zeros,
                                     const Tensor& compensation);

}  // namespace qcg
