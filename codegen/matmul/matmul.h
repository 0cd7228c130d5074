// Products of two activations, as attention has them: neither side is a constant that could be packed. Problem,
// renderer and family.
//
// Why here: a GEMM's kernels (codegen/gemm/) read weights that were packed when the program was compiled.
//
//   MatmulProblem p{DType::bf16, DType::bf16, DType::bf16};   render_matmul(p, isa, "qcg_kernel_3")
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"

namespace qcg {

// Batched product of two activations, y[b, m, n] = sum_k x[b, m, k] * w[b, n, k], over `batch_axes` axes of batches
// that x, w and y walk each in strides of its own: heads that share one of w read it with a stride of 0.
// Grouped, the one batch axis is the groups that rows are sorted by: `ends` says where each group's rows end, row r is
// that of the first group that ends behind it, and 0 where none does. x and y have no batch axis then.
// args: x, w, the ends if grouped, y. params: extents of the batch axes, m, n, k, then strides (batch axes, row,
// column) of x, w as [n, k], y.
struct MatmulProblem {
  DType input = DType::f32, weight = DType::f32, output = DType::f32;
  std::string comment;
  int batch_axes = 1;
  std::optional<DType> ends;  // grouped: i32 or i64
  std::string signature() const;
};
Result<std::string> render_matmul(const MatmulProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch matmul_launch(const MatmulProblem& problem);
extern const KernelFamily kMatmulFamily;

}  // namespace qcg
