// Running sums, products and extremes along an axis. Problem, renderer and family.
//
// Why here: an element needs all before it along the axis, which no loop, reduction or row program gives.
//
//   ScanProblem p{"sum", DType::bf16, DType::f32};   render_scan(p, isa, "qcg_kernel_3")
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"

namespace qcg {

// The middle axis of [outer, axis, inner], row-major in and out: each output is `op` of the elements up to it. Sums and
// products of integers are modulo 2^64, those of floats are computed in f64. "max" and "min" also give the position of
// the extreme along the axis, the last of equals.
// args: x, y[, positions in i64]. params: outer, axis, inner.
struct ScanProblem {
  std::string_view op;  // "sum", "prod", "max", "min", "logsumexp"
  DType input = DType::f32, output = DType::f32;
  std::string comment;
  bool has_positions() const { return op == "max" || op == "min"; }
  std::string signature() const;
};
Result<std::string> render_scan(const ScanProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch scan_launch(const ScanProblem& problem);
extern const KernelFamily kScanFamily;

}  // namespace qcg
