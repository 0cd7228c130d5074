// Windows that slide over two axes, channels last: convolutions of groups of channels, and pools. Problem, renderer and
// family.
//
// Why here: as products or reductions of a copy they would move each element as often as a window has elements.
//
//   WindowProblem p{"max", DType::f32, DType::f32, DType::f32, {3, 3}, {2, 2}, {1, 1}, {1, 1}};
//   render_windows(p, isa, "qcg_kernel_3")
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"
#include "graph/ir/expr.h"

namespace qcg {

// y[b, p, q, c] over the taps i, j whose element x[b, p * stride - before + i * dilation, …, c] exists:
//   product   sum of x * weight[i, j, 0, c]
//   sum, max  of x
// Channels of a product may be in groups, each of `inputs` of x and `outputs` of y: the sum is over all of the group
// that c is in, of x[…, group * inputs + k] * weight[i, j, k, c].
// The epilogue computes an element of y from acc0, that sum or maximum, and from operands that broadcast to y.
//
// args: x, weight (of products), operands, y. params: batch, height, width, channels of y, the places along both axes,
// four strides of x and three of y (elements; channels of y are dense, and those of x unless they are read one by one),
// channels of x, then three strides of each operand.
struct WindowProblem {
  using Pair = std::array<int64_t, 2>;
  std::string_view op;  // "product", "sum", "max"
  DType input = DType::f32, weight = DType::f32, output = DType::f32;
  Pair kernel{1, 1}, stride{1, 1}, dilation{1, 1}, before{0, 0};
  int64_t inputs = 1, outputs = 1;  // of a group
  std::optional<Expr> epilogue;
  std::vector<DType> operands;
  std::vector<int> operand_inner_stride;  // along the channels: 0 or 1
  std::string comment;
  bool has_weight() const { return op == "product"; }
  bool is_grouped() const { return inputs > 1 || outputs > 1; }
  // Elements of x are read one by one, wherever they lie.
  bool reads_elements() const { return is_grouped() && input == DType::f32; }
  size_t first_operand() const { return has_weight() ? 2 : 1; }        // its argument
  size_t result() const { return first_operand() + operands.size(); }  // y's argument, the last
  int64_t terms() const { return kernel[0] * kernel[1] * inputs; }     // of a sum
  std::string signature() const;
};
Result<std::string> render_windows(const WindowProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch windows_launch(const WindowProblem& problem);
extern const KernelFamily kWindowFamily;

}  // namespace qcg
