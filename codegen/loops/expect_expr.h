// What a kernel that computes an expression in f32 lanes must give, as the oracles of loops and row programs say it.
//
// Why here: both print the same expressions, so both need the same bounds.
//
//   const Expr e = in_f32(problem.exprs[o]);
//   const auto value = evaluate_with_tolerance(e, {}, {}, ins);
//   out.push_back(overflows(e, {}, ins) ? anything : expect_stored(value, DType::f32, dtype));
#pragma once

#include <span>

#include "codegen/check/expected.h"
#include "graph/ir/expr.h"
#include "graph/oracle/reference.h"

namespace qcg {

// As kernels compute it: numbers are f32, and so is what is cast to f64.
Expr in_f32(Expr e);
// Whether a cast to an integer has an argument that it does not hold: what comes out then is nobody's to say.
bool overflows(const Expr& e, std::span<const double> accs, std::span<const double> ins);
// An element of an output, of which this is the value before it is stored, computed in f32 or f64.
Expected expect_stored(const ToleranceValue& value, DType arithmetic, DType output);

}  // namespace qcg
