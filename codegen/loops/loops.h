// The kernels that are not GEMMs: pointwise loops, row quantization, reductions, copies. Same ABI, same rendering rules.
//
// Why here: a graph is more than its linears; what no epilogue took runs as one of these.
//
//   LoopProblem p{…, exprs = {mul(silu(in0), in1)}};   render_loop(p, isa, "qcg_kernel_3")
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/target.h"
#include "graph/ir/expr.h"

namespace qcg {

// Pointwise over an output of `rank` axes. args: operands, outputs. params: extents[rank], then for every operand
// strides[rank] (elements; 0 = broadcast), then for every output strides[rank].
// The last axis has stride 1 in every output.
struct LoopProblem {
  int rank = 2;
  std::vector<DType> operands;
  std::vector<int> operand_inner_stride;  // 0, 1, or -1 = any (from params)
  std::vector<DType> outputs;
  std::vector<Expr> exprs;                // one per output
  std::string comment;                    // provenance: lines, sanitized by the renderer
  bool integers = false;                  // computed in 64 bits; every dtype is an integer's
  std::string signature() const;
  std::string label() const;    // for people: "silu·mul", "copy"
  std::string formula() const;  // "mul(silu(in0), in1)"
};
Result<std::string> render_loop(const LoopProblem& problem, Isa isa, std::string_view symbol);

// qcg.quantize_rows. args: x, q, scale, zero (zero only if asymmetric or writes_zero). params: m. Strides from args.
// How scale and zero point of a row are chosen, and where it is rounded: torchao's two rules, and those of
// quantized_decomposed's per-token ops (graph.h). per_token_asymmetric quantizes in f64.
enum class RowMapping : uint8_t { symmetric, asymmetric, per_token, per_token_asymmetric };

struct QuantizeRowsProblem {
  DType input = DType::bf16;
  int64_t k = 0;
  RowMapping mapping = RowMapping::symmetric;
  int64_t quant_min = -128, quant_max = 127;
  double eps = 0;                         // least scale; 0 = torchao's default, the smallest normal of `input`
  DType output = DType::i8;
  DType scale = DType::f32;  // f32, `input` or f64: what 1 / scale and x / scale are rounded to; stored as f32
  bool writes_zero = false;               // zero point i32 [m]
  std::string comment;
  std::string signature() const;
};
std::optional<RowMapping> row_mapping_from_name(std::string_view name);  // as in the graph: "PER_TOKEN"
Result<std::string> render_quantize_rows(const QuantizeRowsProblem& problem, Isa isa, std::string_view symbol);

// Reduction (sum, mean, amax, amin) over the middle axis of [outer, reduce, inner], row-major in and out.
// args: x, y. params: outer, reduce, inner.
struct ReduceProblem {
  std::string_view op;                    // "sum", "mean", "amax", "amin"
  DType input = DType::f32, output = DType::f32;
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_reduce(const ReduceProblem& problem, Isa isa, std::string_view symbol);

// Batched product of two activations, y[b, m, n] = sum_k x[b, m, k] * w[b, n, k] (w strides from params, so both w and
// its transpose work). args: x, w, y. params: batch, m, n, k, then strides (batch, row, column) of x, w as [n, k], y.
struct MatmulProblem {
  DType input = DType::f32, weight = DType::f32, output = DType::f32;
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_matmul(const MatmulProblem& problem, Isa isa, std::string_view symbol);

}  // namespace qcg
