// What a kernel with rounded weights computes, said as a problem that needs no mode: a dense linear whose bf16 weights
// are
//
//   w^ = bf16( f32( (value(w) - zero[n, g]) * scale[n, g] + offset[n, g] ) )      both roundings to nearest even
//
// Why here: --dequant=rounded lets the tuner choose such kernels (Scaling::rounded_weights); the oracle must judge them by
// their own arithmetic and not by a wider bound.
//
//   const RoundedProblem rounded = round_weights(problem, tensors);
//   KernelOracle oracle(rounded.problem, rounded.tensors, {1, 3, 11}, seed);      // same x, epilogue, outputs
#pragma once

#include <vector>

#include "codegen/gemm/problem.h"

namespace qcg {

struct RoundedProblem {
  Problem problem;
  std::vector<SegmentTensors> tensors;
};

// Preconditions: float activations, a scheme with scales, tensors that fit the problem.
RoundedProblem round_weights(const Problem& problem, const std::vector<SegmentTensors>& tensors);

}  // namespace qcg
