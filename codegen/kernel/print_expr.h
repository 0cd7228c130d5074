// print_expr: an expression as C++ or CUDA source.
//
// Why here: epilogues of GEMMs, pointwise loops and kernels of devices print the same expressions.
//
//   print_expr(mul(silu(acc0), in0), {"acc0_0"}, {"gate"})     // "v_mul(v_silu(acc0_0), gate)"
//
// `acc_names` and `in_names` are the names of these leaves in the source; posN and sizeN keep their
// own.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/expr.h"

namespace qcg {

// With the vector primitives of the ISA headers (v_add, v_silu, …): every value is one f32 vector.
std::string print_expr(const Expr& expr, const std::vector<std::string>& acc_names,
                       const std::vector<std::string>& in_names);

// On int64_t, with the functions of templates/cpu/integers.h (i_add, …).
std::string print_expr_integers(const Expr& expr, const std::vector<std::string>& in_names);

// On one double, with the functions of templates/cpu/doubles.h (f64_add, …).
std::string print_expr_f64(const Expr& expr, const std::vector<std::string>& in_names);

// On one f32, with the functions of templates/cuda/scalar_math.cuh (s_add, …).
std::string print_expr_cuda(const Expr& expr, const std::vector<std::string>& acc_names,
                            const std::vector<std::string>& in_names);

}  // namespace qcg
