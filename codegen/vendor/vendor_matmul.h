// VendorMatmul: one way of asking a vendor's matmul for a Problem, and the plain weights it is given.
//
// Why here: vendor_timings.cpp times such a product beside our kernels, extern_kernel.cpp lets a program call it. Both
// must ask for the same thing. No vendor's library is needed to say what one would be asked for.
//
//   for (const VendorMatmul& way : vendor_matmuls(problem))
//     write_vendor_weights(problem, way, tensors, pool, out);     // [N, K] row-major
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "codegen/gemm/problem.h"
#include "codegen/vendor/onednn_adapter.h"
#include "runtime/threads.h"

namespace qcg {

struct VendorMatmul {
  DType weight;  // dtype it is given
  DType output;
  bool dequantize = false;  // scales and zero points are in the weight
  bool scales = false;      // scales per channel are applied by the vendor
  std::string name;         // what it computes
};
// Best first; empty where no vendor has the scheme.
std::vector<VendorMatmul> vendor_matmuls(const Problem& problem);

// A function of the epilogue that vendors compute with the product.
struct VendorEltwise {
  std::string_view function;
  QcgOneDnnEltwise code;
  std::string_view name;
};
// `covered`: the expression is one acc, possibly inside one such function, casts aside.
const VendorEltwise* find_vendor_eltwise(const Expr& expr, bool& covered);

// The segments' weights below each other as `way` wants them. `out` has room for exactly that.
void write_vendor_weights(const Problem& problem, const VendorMatmul& way, const std::vector<SegmentTensors>& tensors,
                          ThreadPool& pool, std::span<std::byte> out);
// One float per output column from a tensor of [n] or [n, 1]; 0 where a segment has none.
std::vector<float> vendor_numbers(const std::vector<SegmentTensors>& tensors, Tensor SegmentTensors::*member);

}  // namespace qcg
