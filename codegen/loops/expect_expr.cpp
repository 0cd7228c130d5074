#include "codegen/loops/expect_expr.h"

#include <cmath>

#include "codegen/check/call_memory.h"

namespace qcg {

Expr in_f32(Expr e) {
  if (e.kind == ExprKind::number) e.value = static_cast<float>(e.value);
  if (e.kind == ExprKind::cast && e.dtype == DType::f64) e.dtype = DType::f32;
  for (Expr& arg : e.args) arg = in_f32(std::move(arg));
  return e;
}

bool overflows(const Expr& e, std::span<const double> accs, std::span<const double> ins) {
  for (const Expr& arg : e.args)
    if (overflows(arg, accs, ins)) return true;
  if (e.kind != ExprKind::cast || is_floating(e.dtype) || e.dtype == DType::boolean) return false;
  return !is_held(e.dtype, e.args[0].evaluate(accs, ins));
}

Expected expect_stored(const ToleranceValue& v, DType arithmetic, DType output) {
  if (!is_floating(output)) {
    const bool whole = v.value == std::round(v.value);
    return is_held(output, v.value) ? Expected{v.value, v.tolerance + (whole ? 0 : 1)} : Expected{0, HUGE_VAL};
  }
  return within_range(output, v.value, v.tolerance + half_ulp(output == DType::f64 ? arithmetic : output, v.value));
}

}  // namespace qcg
