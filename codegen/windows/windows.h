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
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"

namespace qcg {

// y[b, p, q, c] over the taps i, j whose element x[b, p * stride - before + i * dilation, …, c] exists:
//   product   sum of x * weight[i, j, 0, c]
//   sum, max  of x
// Channels of a product may be in groups, each of `inputs` of x and `outputs` of y: the sum is over all of the group
// that c is in, of x[…, group * inputs + k] * weight[i, j, k, c].
// args: x, weight (of products), y. params: batch, height, width, channels of y, the places along both axes, three
// strides of x and three of y (elements; channels are dense), channels of x.
struct WindowProblem {
  using Pair = std::array<int64_t, 2>;
  std::string_view op;  // "product", "sum", "max"
  DType input = DType::f32, weight = DType::f32, output = DType::f32;
  Pair kernel{1, 1}, stride{1, 1}, dilation{1, 1}, before{0, 0};
  int64_t inputs = 1, outputs = 1;  // of a group
  std::string comment;
  bool has_weight() const { return op == "product"; }
  bool is_grouped() const { return inputs > 1 || outputs > 1; }
  int64_t terms() const { return kernel[0] * kernel[1] * inputs; }  // of a sum
  std::string signature() const;
};
Result<std::string> render_windows(const WindowProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch windows_launch(const WindowProblem& problem);
extern const KernelFamily kWindowFamily;

}  // namespace qcg
