// Rows of the operator table (op_table.h): more pointwise functions, as formulas of those that kernels have
// (formula.h).
//
// Why here: each is right where the function is: near its zeros, at its ends, and where a naive formula overflows or
// cancels.
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/pointwise.cpp
ShapeRule infer_compare, infer_logical_not, infer_close, infer_double_power, infer_binary, infer_div, infer_heaviside,
    infer_activation, infer_unary, infer_float_unary, infer_clamp, infer_rrelu, infer_polygamma;

namespace rows {

// clang-format off
inline constexpr std::string_view kErfc =
     "where(gt(self, 0.5), div(mul(2, gelu(mul(min(self, 30), "
     "-1.4142135623730950488))), mul(min(self, 30), -1.4142135623730950488)), sub(1, erf(self)))";
inline constexpr std::string_view kXLogY = "where(mul(eq(self, 0), eq(other, other)), 0, mul(self, log(other)))";
inline constexpr std::string_view kXLog1pY = "where(mul(eq(self, 0), eq(other, other)), 0, mul(self, log1p(other)))";
inline constexpr std::string_view kRoundDecimals =
     "div(mul(round_even(div(mul(self, ten_to(decimals)), ten_to(times(decimals, -1)))), "
     "ten_to(times(decimals, -1))), ten_to(decimals))";
inline constexpr std::string_view kAtan2 =
     "mul(where(max(gt(0, self), gt(0, div(1, self))), -1, 1), abs(sub(where(max(gt(0, other), gt(0, div(1, other))), "
     "3.1415926535897932385, 0), where(eq(abs(self), abs(other)), where(eq(self, 0), 0, 0.78539816339744830962), "
     "atan(div(abs(self), abs(other)))))))";  // 1 / -0 tells it from 0

inline constexpr OpRow kFunctions[] = {
    {"aten.tan.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "div(sin(self), cos(self))"},
    {"aten.atan.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "atan(self)"},
    {"aten.arctan.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "atan(self)"},
    {"aten.asin.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "atan(div(self, sqrt(mul(sub(1, self), add(1, self)))))"},
    {"aten.acos.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "mul(2, atan(sqrt(div(sub(1, self), add(1, self)))))"},
    {"aten.sinh.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "where(gt(abs(self), 1), mul(sub(gt(self, 0), gt(0, self)), sub(mul(mul(0.5, "
     "exp(mul(0.5, abs(self)))), exp(mul(0.5, abs(self)))), mul(0.5, exp(neg(abs(self)))))), mul(0.5, "
     "sub(expm1(self), expm1(neg(self)))))"},
    {"aten.cosh.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "add(mul(mul(0.5, exp(mul(0.5, abs(self)))), exp(mul(0.5, abs(self)))), "
     "mul(0.5, exp(neg(abs(self)))))"},
    {"aten.asinh.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "mul(sub(gt(self, 0), gt(0, self)), where(gt(abs(self), 100000000), "
     "add(log(abs(self)), 0.69314718055994530942), log1p(add(abs(self), div(mul(self, self), add(1, sqrt(add(1, "
     "mul(self, self)))))))))"},
    {"aten.acosh.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "where(gt(self, 100000000), add(log(self), 0.69314718055994530942), "
     "log1p(add(sub(self, 1), mul(sqrt(sub(self, 1)), sqrt(add(self, 1))))))"},
    {"aten.atanh.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "mul(0.5, sub(log1p(self), log1p(neg(self))))"},
    {"aten.erfc.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, kErfc},
    {"aten.special_erfc.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, kErfc},
    {"aten.special_ndtr.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "where(gt(-0.5, self), div(gelu(max(self, -40)), max(self, -40)), mul(0.5, "
     "add(1, erf(mul(self, 0.70710678118654752440)))))"},
    {"aten.special_ndtri.default", "(Tensor self) -> Tensor", pointwise, infer_float_unary, "ndtri(self)"},
    {"aten.lgamma.default", "(Tensor self) -> Tensor", pointwise, infer_float_unary, "lgamma(self)"},
    {"aten.special_i0.default", "(Tensor self) -> Tensor", pointwise, infer_float_unary, "i0(self)"},
    {"aten.special_i0e.default", "(Tensor self) -> Tensor", pointwise, infer_float_unary, "i0e(self)"},
    {"aten.special_i1.default", "(Tensor self) -> Tensor", pointwise, infer_float_unary, "i1(self)"},
    {"aten.special_i1e.default", "(Tensor self) -> Tensor", pointwise, infer_float_unary, "i1e(self)"},
    {"aten.special_erfcx.default", "(Tensor self) -> Tensor", pointwise, infer_float_unary, "erfcx(self)"},
    {"aten.special_log_ndtr.default", "(Tensor self) -> Tensor", pointwise, infer_float_unary, "log_ndtr(self)"},
    {"aten.polygamma.default", "(int n, Tensor self) -> Tensor", pointwise, infer_polygamma, "polygamma(n, self)"},
    {"aten.special_zeta.default", "(Tensor self, Tensor other) -> Tensor", pointwise, infer_div, "zeta(self, other)"},
    {"aten.special_zeta.other_scalar", "(Tensor self, Scalar other) -> Tensor",
     pointwise, infer_div, "zeta(self, other)"},
    {"aten.special_zeta.self_scalar", "(Scalar self, Tensor other) -> Tensor",
     pointwise, infer_div, "zeta(self, other)"},
    {"aten.digamma.default", "(Tensor self) -> Tensor", pointwise, infer_float_unary, "digamma(self)"},
    {"aten.frac.default", "(Tensor self) -> Tensor",
     pointwise, infer_activation, "sub(self, where(gt(0, self), neg(floor(neg(self))), floor(self)))"},
    {"aten.sgn.default", "(Tensor self) -> Tensor",
     pointwise, infer_unary, "sub(gt(self, 0), gt(0, self))"},
    {"aten.sinc.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "where(eq(self, 0), 1, div(sin(mul(self, 3.1415926535897932385)), mul(self, "
     "3.1415926535897932385)))"},
    {"aten.softshrink.default", "(Tensor self, Scalar lambd=0.5) -> Tensor",
     pointwise, infer_activation, "sub(self, clamp(self, times(held(lambd), -1), held(lambd)))"},
    {"aten.hardshrink.default", "(Tensor self, Scalar lambd=0.5) -> Tensor",
     pointwise, infer_activation, "where(le(abs(self), held(lambd)), 0, self)"},
    {"aten.threshold.default", "(Tensor self, Scalar threshold, Scalar value) -> Tensor",
     pointwise, infer_unary, "where(le(self, threshold), value, self)"},
    {"aten.atan2.default", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_div, kAtan2},
    {"aten.arctan2.default", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_div, kAtan2},
    {"aten.hypot.default", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_div, "where(max(eq(abs(self), inf), eq(abs(other), inf)), inf, "
     "where(mul(gt(max(abs(self), abs(other)), 0), lt(max(abs(self), abs(other)), inf)), mul(max(abs(self), "
     "abs(other)), sqrt(add(1, mul(div(min(abs(self), abs(other)), max(abs(self), abs(other))), div(min(abs(self), abs(other)), max(abs(self), abs(other))))))), "
     "max(abs(self), abs(other))))"},
    {"aten.fmax.default", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_binary, "where(eq(self, self), where(eq(other, other), max(self, other), self), other)"},
    {"aten.fmin.default", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_binary, "where(eq(self, self), where(eq(other, other), min(self, other), self), other)"},
    {"aten.logaddexp.default", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_div, "add(max(self, other), where(eq(self, other), 0.69314718055994530942, "
     "log1p(exp(neg(abs(sub(self, other)))))))"},
    {"aten.logaddexp2.default", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_div, "add(max(self, other), where(eq(self, other), 1, mul(log1p(exp(mul(neg(abs(sub(self, "
     "other))), 0.69314718055994530942))), 1.4426950408889634074)))"},
    {"aten.copysign.Tensor", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_div, "mul(abs(self), where(max(gt(0, other), gt(0, div(1, other))), -1, 1))"},
    {"aten.copysign.Scalar", "(Tensor self, Scalar other) -> Tensor",
     pointwise, infer_div, "mul(abs(self), where(max(gt(0, other), gt(0, div(1, other))), -1, 1))"},
    {"aten.angle.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "where(gt(0, self), 3.1415926535897932385, where(eq(self, self), 0, self))"},
    {"aten.rrelu.default",
     "(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False) -> Tensor",
     pointwise, infer_rrelu, "where(ge(self, 0), self, mul(self, mul(0.5, add(lower, upper))))"},
    {"aten.signbit.default", "(Tensor self) -> Tensor",
     pointwise, infer_logical_not, "max(gt(0, self), gt(0, div(1, self)))"},
    {"aten.positive.default", "(Tensor self) -> Tensor", pointwise, infer_unary, "self"},
    {"aten.deg2rad.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "mul(self, 0.017453292519943295769)"},
    {"aten.rad2deg.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "mul(self, 57.295779513082320877)"},
    {"aten.round.decimals", "(Tensor self, *, int decimals) -> Tensor",
     pointwise, infer_activation, kRoundDecimals},
    {"aten.special_round.default", "(Tensor self, *, int decimals=0) -> Tensor",
     pointwise, infer_activation, kRoundDecimals},
    {"aten.special_entr.default", "(Tensor self) -> Tensor",
     pointwise, infer_float_unary, "where(gt(self, 0), neg(mul(self, log(self))), where(gt(0, self), -inf, self))"},
    {"aten.float_power.Tensor_Scalar", "(Tensor self, Scalar exponent) -> Tensor",
     pointwise, infer_double_power, "power(self, exponent)"},
    {"aten.float_power.Tensor_Tensor", "(Tensor self, Tensor exponent) -> Tensor",
     pointwise, infer_double_power, "power(self, exponent)"},
    {"aten.isclose.default",
     "(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
     pointwise, infer_close, "max(max(eq(self, other), mul(equal_nan, mul(ne(self, self), ne(other, other)))), "
     "mul(lt(abs(sub(self, other)), inf), le(abs(sub(self, other)), add(atol, abs(mul(rtol, "
     "other))))))"},
    {"aten.xlogy.Tensor", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_div, kXLogY},
    {"aten.xlogy.Scalar_Other", "(Tensor self, Scalar other) -> Tensor",
     pointwise, infer_div, kXLogY},
    {"aten.xlogy.Scalar_Self", "(Scalar self, Tensor other) -> Tensor",
     pointwise, infer_div, kXLogY},
    {"aten.special_xlog1py.default", "(Tensor self, Tensor other) -> Tensor",
     pointwise, infer_div, kXLog1pY},
    {"aten.special_xlog1py.other_scalar", "(Tensor self, Scalar other) -> Tensor",
     pointwise, infer_div, kXLog1pY},
    {"aten.special_xlog1py.self_scalar", "(Scalar self, Tensor other) -> Tensor",
     pointwise, infer_div, kXLog1pY},
    {"aten.heaviside.default", "(Tensor self, Tensor values) -> Tensor",
     pointwise, infer_heaviside, "where(eq(self, 0), values, gt(self, 0))"},
    {"aten.true_divide.Tensor", "(Tensor self, Tensor|Scalar other) -> Tensor",
     pointwise, infer_div, "div(self, other)"},
    {"aten.divide.Tensor", "(Tensor self, Tensor|Scalar other) -> Tensor",
     pointwise, infer_div, "div(self, other)"},
    {"aten.multiply.Tensor", "(Tensor self, Tensor|Scalar other) -> Tensor",
     pointwise, infer_binary, "mul(self, other)"},
    {"aten.subtract.Tensor", "(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
     pointwise, infer_binary, "sub(self, times(alpha, other))"},
    {"aten.clip.default", "(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
     pointwise, infer_clamp, "clamp(self, min, max)"},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
