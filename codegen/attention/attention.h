// Attention: softmax(query key^T) value without its scores in memory. Problem, renderer and family.
//
//   AttentionProblem p{.size = 64, .value_size = 64, .group = 4, .score = mul(acc0, 0.125), .mask = ge(pos2, pos3)};
//   render_attention(p, isa, "qcg_kernel_3")
//
// Why here: as two products and a softmax, the scores of long sequences would pass through memory several times.
//
// Few rows (a decode step) are split over blocks of columns, whose partial results a second phase merges; the blocks
// follow from the sizes alone, so that results do not depend on the number of threads. Many rows are tiles of one head
// of key and value. Either way all heads of a group share what is read of key and value, and what no row of a tile sees
// is not read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/kernel/family.h"
#include "graph/ir/expr.h"

namespace qcg {

// What a row that sees no column gives: zero, NaN, or the mean of value.
enum class EmptyRow : uint8_t { zero, nan, mean };

// args: query, key, value, operands, y. params: batch, heads, heads of key and value, rows, columns; then strides of
// query, key, value and y (batch, head, row; elements of a row are side by side) and of each operand (batch, head, row,
// column); then sizes.
struct AttentionProblem {
  struct Operand {
    DType dtype = DType::boolean;
    int inner_stride = 1;  // along columns: 1, 0, or -1 for any other
    bool by_head = false;  // it is not the same for all heads
  };
  DType query = DType::f32, key = DType::f32, value = DType::f32, output = DType::f32;
  int64_t size = 0, value_size = 0, group = 1;
  Expr score;                // over acc0, the operands, posN along (batch, head, row, column), sizes
  std::optional<Expr> mask;  // not 0: the row sees the column
  EmptyRow empty = EmptyRow::zero;
  std::vector<Operand> operands;
  int sizes = 0;
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_attention(const AttentionProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch attention_launch(const AttentionProblem& problem, Isa isa);
extern const KernelFamily kAttentionFamily;

}  // namespace qcg
