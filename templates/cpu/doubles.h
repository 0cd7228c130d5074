// The functions of graph/ir/expr.h on one f64: for loops that torch computes in f64, where f32 would keep 7 digits of 16.
//
// Why here: the same text serves all CPUs and devices; who includes it has defined QCG_INLINE and QCG_MATH(f), the function f
// of the C library.
//
//   double y = f64_log1p(f64_sub(in0, in1));
//
// NaN wins max, min, clamp and relu. A cast to an integer truncates and wraps; of what 64 bits do not hold it is the least.
#pragma once

QCG_INLINE double f64_infinity() { return 1e308 * 10; }
QCG_INLINE double f64_nan() { return f64_infinity() - f64_infinity(); }
QCG_INLINE double f64_add(double a, double b) { return a + b; }
QCG_INLINE double f64_sub(double a, double b) { return a - b; }
QCG_INLINE double f64_mul(double a, double b) { return a * b; }
QCG_INLINE double f64_div(double a, double b) { return a / b; }
QCG_INLINE double f64_max(double a, double b) { return a > b || a != a ? a : b; }
QCG_INLINE double f64_min(double a, double b) { return a < b || a != a ? a : b; }
QCG_INLINE double f64_pow(double a, double b) { return QCG_MATH(pow)(a, b); }
QCG_INLINE double f64_square(double x) { return x * x; }
QCG_INLINE double f64_cube(double x) { return x * x * x; }
QCG_INLINE double f64_neg(double x) { return -x; }
QCG_INLINE double f64_abs(double x) { return QCG_MATH(fabs)(x); }
QCG_INLINE double f64_reciprocal(double x) { return 1 / x; }
QCG_INLINE double f64_relu(double x) { return f64_max(x, 0); }
QCG_INLINE double f64_sigmoid(double x) { return 1 / (1 + QCG_MATH(exp)(-x)); }
QCG_INLINE double f64_silu(double x) { return x / (1 + QCG_MATH(exp)(-x)); }
QCG_INLINE double f64_gelu(double x) { return 0.5 * x * QCG_MATH(erfc)(x * -0.70710678118654752440); }
QCG_INLINE double f64_gelu_tanh(double x) {
  return 0.5 * x * (1 + QCG_MATH(tanh)(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
QCG_INLINE double f64_tanh(double x) { return QCG_MATH(tanh)(x); }
QCG_INLINE double f64_exp(double x) { return QCG_MATH(exp)(x); }
QCG_INLINE double f64_log(double x) { return QCG_MATH(log)(x); }
QCG_INLINE double f64_log1p(double x) { return QCG_MATH(log1p)(x); }
QCG_INLINE double f64_log2(double x) { return QCG_MATH(log2)(x); }
QCG_INLINE double f64_log10(double x) { return QCG_MATH(log10)(x); }
QCG_INLINE double f64_expm1(double x) { return QCG_MATH(expm1)(x); }
QCG_INLINE double f64_sqrt(double x) { return QCG_MATH(sqrt)(x); }
QCG_INLINE double f64_rsqrt(double x) { return 1 / QCG_MATH(sqrt)(x); }
QCG_INLINE double f64_round_even(double x) { return QCG_MATH(rint)(x); }
QCG_INLINE double f64_floor(double x) { return QCG_MATH(floor)(x); }
QCG_INLINE double f64_clamp(double x, double lo, double hi) { return f64_min(f64_max(x, lo), hi); }
QCG_INLINE double f64_sin(double x) { return QCG_MATH(sin)(x); }
QCG_INLINE double f64_cos(double x) { return QCG_MATH(cos)(x); }
QCG_INLINE double f64_erf(double x) { return QCG_MATH(erf)(x); }
QCG_INLINE double f64_atan(double x) { return QCG_MATH(atan)(x); }
QCG_INLINE double f64_fmod(double a, double b) { return QCG_MATH(fmod)(a, b); }
QCG_INLINE double f64_gt(double a, double b) { return a > b ? 1 : 0; }
QCG_INLINE double f64_ge(double a, double b) { return a >= b ? 1 : 0; }
QCG_INLINE double f64_where(double condition, double yes, double no) { return condition != 0 ? yes : no; }
QCG_INLINE double f64_cast_f64(double x) { return x; }
QCG_INLINE double f64_cast_f32(double x) { return (double)(float)x; }
QCG_INLINE long long f64_whole(double x) { return x >= -0x1p63 && x < 0x1p63 ? (long long)x : -0x7fffffffffffffff - 1; }
QCG_INLINE double f64_cast_i64(double x) { return (double)f64_whole(x); }
QCG_INLINE double f64_cast_i32(double x) { return (double)(int)f64_whole(x); }
QCG_INLINE double f64_cast_i16(double x) { return (double)(short)f64_whole(x); }
QCG_INLINE double f64_cast_i8(double x) { return (double)(signed char)f64_whole(x); }
QCG_INLINE double f64_cast_u8(double x) { return (double)(unsigned char)f64_whole(x); }
QCG_INLINE double f64_cast_bool(double x) { return x != 0 ? 1 : 0; }
