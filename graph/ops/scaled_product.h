// ScaledProduct: the ops that multiply two quantized matrices, seen as one thing.
//
//   y[m, n] = (sum_k x^[m, k] * w^[k, n] + bias[n]) / result_scale        v^ = (decoded v - zero) * scale
//
// Why here: aten._scaled_mm, its second version and the linears of tensor_cast differ in the names of their arguments,
// in the layout of scales and in how 4-bit numbers are stored. Shapes, the oracle, recognition and the fallback all ask
// the same questions; they are answered once. docs/schemes.md says where each meaning comes from.
//
//   QCG_TRY(p, read_scaled_product(graph, node));   // p.w.scale.group == 128: one scale per 128 elements along K
#pragma once

#include <string_view>

#include "graph/ops/op_table.h"

namespace qcg {

// Numbers that each belong to a block of a matrix with `outer` rows (M of x, N of w) and K columns. Block (o, g) is
// rows [o * outer, …) and columns [g * group, …); a zero means all of them. Laid out [blocks of rows, groups], or
// transposed.
struct BlockNumbers {
  ValueId value = kNoValue;  // kNoValue: there are none
  int64_t outer = 0, group = 0;
  bool k_first = false;
};

enum class Coding : uint8_t {
  plain,        // elements are the numbers
  int4_packed,  // u8 [K / 2, …]: even k in the high nibble, each nibble 8 too large
  e2m1_codes,   // integers whose low four bits are an e2m1 number
  e2m1_packed,  // u8 [K / 2, …]: even k in the low nibble
};

constexpr bool is_packed(Coding c) { return c == Coding::int4_packed || c == Coding::e2m1_packed; }

struct ScaledOperand {
  ValueId value = kNoValue;  // x [..., K], w [K, N], K halved where two share a byte
  Coding coding = Coding::plain;
  BlockNumbers scale, zero;
};

struct ScaledProduct {
  ScaledOperand x, w;
  ValueId bias = kNoValue;          // [N]
  ValueId result_scale = kNoValue;  // one element
  bool four_bits = false;           // plain integers of w lie in [-8, 7]
  Shape lead;                       // of x and y, before the last axis
  Dim n;
  int64_t k = 0;
  DType out = DType::f32;
};

bool is_scaled_product(Op op);
// Errors name the argument that does not fit. Precondition: is_scaled_product(node.op), arguments checked.
Result<ScaledProduct> read_scaled_product(const Graph& graph, const Node& node);

// The number of block numbers along the rows, or along K (extent: how many rows or columns there are).
constexpr int64_t count_blocks(int64_t extent, int64_t block) { return block == 0 ? 1 : (extent + block - 1) / block; }

}  // namespace qcg
