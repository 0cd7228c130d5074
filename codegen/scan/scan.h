// Running sums along an axis. Problem, renderer and family.
//
//   ScanProblem p{DType::bf16, DType::f32};   render_scan(p, isa, "qcg_kernel_3")
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"

namespace qcg {

// Sums of the elements up to each, along the middle axis of [outer, axis, inner], row-major in and out: integers modulo
// 2^64, floats in f64. args: x, y. params: outer, axis, inner.
struct ScanProblem {
  DType input = DType::f32, output = DType::f32;
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_scan(const ScanProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch scan_launch(const ScanProblem& problem);
extern const KernelFamily kScanFamily;

}  // namespace qcg
