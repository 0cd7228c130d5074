// The oracle, and its pieces that others use alone: binding symbols to shapes, and one linear of a Problem at chosen
// rows and columns with the sum of magnitudes that error bounds are made of.
//
// Why here: passes and programs are checked against it. The tuner checks a candidate against single rows of a large
// linear, where evaluating a graph would be waste.
//
//   QCG_TRY(outputs, evaluate_graph(graph, inputs));
//   QCG_TRY(want, reference_linear(operands, /*segment*/ 0, rows, columns));
//   |got - want.y[i]| <= c * (gamma_K * want.abs_sum[i] + ulp(want.y[i]))
//
// Everything is float64, integers exact; nothing is shared with kernels, packing or templates.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/scheme.h"

namespace qcg {

// What decides a step (steps.h) is rounded to its graph dtype.
struct ReferenceOptions {
  bool emulate_casts = false;  // round every intermediate to its graph dtype, as eager execution does
  // Other than 0, a seed: results are moved at random by as much as sums in f32 and roundings to their dtypes may be
  // off. How far outputs follow is what a program cannot be asked to do better.
  uint64_t disturbed = 0;
};
// Inputs in the order of graph.inputs; symbols are bound from their shapes.
Result<std::vector<Tensor>> evaluate_graph(const Graph& graph, const std::vector<Tensor>& inputs,
                                           ReferenceOptions = {});

// The values of the graph's symbols, from the shapes of its inputs in order, and from `given`: those that inputs are the
// values of. Errors: a shape that no values explain, a value outside its symbol's range, a symbol that no input shows.
Result<SymbolValues> bind_symbols(const Graph& graph, const std::vector<std::vector<int64_t>>& shapes,
                                  const SymbolValues& given = {});

// evaluate_graph for a while: no operation is begun after `deadline`. Outputs that cost little come first; those that
// were not reached are unbound.
Result<std::vector<Tensor>> evaluate_until(const Graph& graph, const std::vector<Tensor>& inputs,
                                           ReferenceOptions options, std::chrono::steady_clock::time_point deadline);

// One weight of a linear; unbound tensors are absent. weight [N, K], scales, zeros and offsets [N, G] or [N], bias [N].
struct LinearSegment {
  Tensor weight, scales, zeros, bias, offsets;
};

struct LinearOperands {
  Scheme scheme = Scheme::dense;
  int64_t group = 0;
  std::vector<Tensor> xs;  // [..., Ki], concatenated along the last axis; leading axes flatten to rows
  Tensor x_scale, x_zero;  // [..., 1], one element, or unbound
  std::vector<LinearSegment> segments;
  bool zeros_apart = false;  // abs_sum has |x| + |x_zero| for |x - x_zero|: of kernels that add zero points at the end
};

// Scheme, group and segments of a qcg.linear node; xs, x_scale and x_zero are left for the caller to set.
LinearOperands linear_operands(const Graph& graph, const Node& node);

// Row-major [rows, columns]. y = sum_k x^ w^ + bias, abs_sum = sum_k |x^| |w^| + |bias|, for the scheme's x^ and w^.
struct LinearReference {
  std::vector<double> y;
  std::vector<double> abs_sum;
};
// Empty rows or columns: all of them.
Result<LinearReference> reference_linear(const LinearOperands& operands, size_t segment,
                                         std::span<const int64_t> rows = {}, std::span<const int64_t> columns = {});

// The value of an epilogue, and how far a kernel that computes it in f32, or f64, may be from it: accumulators are off
// by their own tolerances, each operation by what f32 rounds, and what sums cancel keeps the errors it had. Where the
// argument of a rounding (round_even, floor, a cast) may be on either side of a tie, so may its result.
struct ToleranceValue {
  double value;
  double tolerance;
};
ToleranceValue evaluate_with_tolerance(const Expr& epilogue, std::span<const double> accs,
                                       std::span<const double> acc_tolerances, std::span<const double> ins,
                                       DType arithmetic = DType::f32);

}  // namespace qcg
