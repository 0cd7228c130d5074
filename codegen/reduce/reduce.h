// Reductions over an axis. Problem, renderer and family.
//
// Why here: a reduction that no row program fused is a step of its own.
//
//   ReduceProblem p{"mean", DType::bf16, DType::f32};   render_reduce(p, isa, "qcg_kernel_3")
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"

namespace qcg {

// Reduction (sum, mean, prod, amax, amin) over the middle axis of [outer, reduce, inner], row-major in and out.
// args: x, y. params: outer, reduce, inner.
struct ReduceProblem {
  std::string_view op;  // "sum", "mean", "prod", "amax", "amin"
  DType input = DType::f32, output = DType::f32;
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_reduce(const ReduceProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch reduce_launch(const ReduceProblem& problem);
extern const KernelFamily kReduceFamily;

}  // namespace qcg
