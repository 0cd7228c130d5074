// What a vendor's matmul is given of a Problem, as matrices, and whether its product is right.
//
// Why here: products of a CPU and of a device stand beside our kernels only if they are of the same numbers.
//
//   QCG_TRY(w, merge_vendor_weights(problem, way, tensors, threads));            // [N, K]
//   const std::vector<std::byte> x = merge_vendor_x(problem, inputs.tensors(), m);   // [M, K]
//   … y = x · wᵀ …
//   if (!is_vendor_right(problem, tensors, inputs.tensors(), m, way, y)) drop(way);
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "codegen/gemm/problem.h"
#include "codegen/vendor/vendor_matmul.h"
#include "graph/ir/tensor.h"
#include "runtime/memory.h"

namespace qcg {

// All segments' weights as one [N, K] matrix of `way.weight`.
Result<AlignedBuffer> merge_vendor_weights(const Problem& problem, const VendorMatmul& way,
                                           const std::vector<SegmentTensors>& tensors, int threads);
// The first of `inputs`, x in pieces, as one matrix.
std::vector<std::byte> merge_vendor_x(const Problem& problem, std::span<const Tensor> inputs, int64_t m);

// A vendor's y [M, N] at a few points, within what rounding of operands may do. Sums of integers, and products of two
// 8-bit floats, are without scales. `eltwise` may be null.
bool is_vendor_right(const Problem& problem, const std::vector<SegmentTensors>& tensors, std::span<const Tensor> inputs,
                     int64_t m, const VendorMatmul& way, const std::vector<std::byte>& y,
                     const VendorEltwise* eltwise = nullptr, bool with_bias = false);

}  // namespace qcg
