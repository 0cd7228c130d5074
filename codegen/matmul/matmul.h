// Products of two activations, as attention has them: neither side is a constant that could be packed. Problem,
// renderer and family.
//
//   MatmulProblem p{DType::bf16, DType::bf16, DType::bf16};   render_matmul(p, isa, "qcg_kernel_3")
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"

namespace qcg {

// Batched product of two activations, y[b, m, n] = sum_k x[b, m, k] * w[b, n, k] (w strides from params, so both w and
// its transpose work). args: x, w, y. params: batch, m, n, k, then strides (batch, row, column) of x, w as [n, k], y.
struct MatmulProblem {
  DType input = DType::f32, weight = DType::f32, output = DType::f32;
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_matmul(const MatmulProblem& problem, Isa isa, std::string_view symbol);
extern const KernelFamily kMatmulFamily;

}  // namespace qcg
