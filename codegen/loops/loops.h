// Pointwise loops and copies. Problem, renderer and family.
//
// Why here: a graph is more than its linears; what no epilogue took runs as one of these.
//
//   LoopProblem p{…, exprs = {mul(silu(in0), in1)}};   render_loop(p, isa, "qcg_kernel_3")
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"
#include "graph/ir/expr.h"

namespace qcg {

// Pointwise over an output of `rank` axes. args: operands, outputs. params: extents[rank], then for every operand
// strides[rank] (elements; 0 = broadcast), then for every output strides[rank], then for every position strides[rank],
// then the sizes.
struct LoopProblem {
  int rank = 2;
  std::vector<DType> operands;
  std::vector<int> operand_inner_stride;  // 0, 1, or -1 = any (from params)
  std::vector<DType> outputs;
  std::vector<Expr> exprs;  // one per output
  std::string comment;      // provenance: lines, sanitized by the renderer
  // f32; f64; or i64: all operands and outputs are integers or bool, and what overflows wraps.
  DType arithmetic = DType::f32;
  // posN of the expressions: a sum of the element's positions along the axes, each times its stride. In f32 lanes it is
  // exact to 2^24.
  std::vector<int> position_inner_stride;
  int sizes = 0;  // sizeN of the expressions
  std::string signature() const;
  std::string label() const;    // for people: "silu·mul", "copy"
  std::string formula() const;  // "mul(silu(in0), in1)"
};
Result<std::string> render_loop(const LoopProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch loop_launch(const LoopProblem& problem);
extern const KernelFamily kLoopFamily;

}  // namespace qcg
