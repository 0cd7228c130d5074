// Opcodes on floats, comparisons and conversions.
//
// Why here: as arithmetic.h. What a name adds to its opcode (_rn, _ftz, _sat) is a template argument of one function
// per opcode. Approximations (ex2.approx, rcp.approx, …) are computed in double and rounded once: a test must allow
// the bound that the PTX ISA gives, for the device's bits differ. Source: PTX ISA 9.0, sections 9.7.3 to 9.7.6,
// 9.7.9.21.
#pragma once

#include <cfenv>

#include "arithmetic.h"

namespace qcg::ptx {

#define QCG_FLOAT_TYPE(name, raw, value, format, shift)                                         \
  struct name {                                                                                 \
    using Raw = raw;                                                                            \
    using Value = value;                                                                        \
    static constexpr bool is_float = true;                                                      \
    static Value decode(Raw r) { return static_cast<Value>(decode_float(format, r >> shift)); } \
    static Raw encode(double v, Rounding r, bool finite = false) {                              \
      return static_cast<Raw>(static_cast<Raw>(encode_float(format, v, r, finite)) << shift);   \
    }                                                                                           \
  };
// clang-format off
QCG_FLOAT_TYPE(f16, uint16_t, double, kF16, 0)
QCG_FLOAT_TYPE(bf16, uint16_t, double, kBf16, 0)
QCG_FLOAT_TYPE(tf32, uint32_t, double, kTf32, 13)
QCG_FLOAT_TYPE(e4m3, uint8_t, double, kE4m3, 0)
QCG_FLOAT_TYPE(e5m2, uint8_t, double, kE5m2, 0)
#undef QCG_FLOAT_TYPE
// clang-format on
struct f32 {
  using Raw = uint32_t;
  using Value = float;
  static constexpr bool is_float = true;
  static float decode(uint32_t r) { return as_float(r); }
  static uint32_t encode(double v, Rounding r, bool finite = false) {
    if (v != v) return 0x7fffffff;
    if (r == Rounding::even && !finite) return as_bits(static_cast<float>(v));
    return encode_float(kF32, v, r, finite);
  }
};
struct f64 {
  using Raw = uint64_t;
  using Value = double;
  static constexpr bool is_float = true;
  static double decode(uint64_t r) { return std::bit_cast<double>(r); }
  static uint64_t encode(double v, Rounding, bool = false) { return std::bit_cast<uint64_t>(v); }
};
// Two elements in one register, the first in the low half.
template <class E, class R>
struct Pair {
  using Lane = E;
  using Raw = R;
  using Value = R;
  static constexpr bool is_float = false;
};
struct f16x2 : Pair<f16, uint32_t> {};
struct bf16x2 : Pair<bf16, uint32_t> {};
struct e4m3x2 : Pair<e4m3, uint16_t> {};
struct e5m2x2 : Pair<e5m2, uint16_t> {};
template <class T>
concept Packed = requires {
  typename T::Lane;
};
template <Packed T>
constexpr int kLaneBits = sizeof(typename T::Raw) * 4;
template <Packed T>
auto half(typename T::Raw r, int i) {
  return static_cast<typename T::Lane::Raw>(r >> (i * kLaneBits<T>));
}
template <Packed T>
typename T::Raw join(uint32_t low, uint32_t high) {
  return static_cast<typename T::Raw>(high << kLaneBits<T> | low);
}

template <class V>
V flush(V v) {
  return v == v && std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(V(0), v) : v;
}
inline float flush_f32(double v) { return flush(static_cast<float>(v)); }

// Directed rounding of one operation; the values are volatile so that it happens between the two calls.
template <Rounding R, class F>
__attribute__((noinline)) auto directed(F&& f) {
  std::fesetround(R == Rounding::zero ? FE_TOWARDZERO : R == Rounding::up ? FE_UPWARD : FE_DOWNWARD);
  volatile auto out = f();
  std::fesetround(FE_TONEAREST);
  return +out;
}

template <class F, Rounding R, bool Ftz, bool Sat, class T, class D, class... A>
void compute(D& d, A... a) {
  if constexpr (Packed<T>) {
    using L = typename T::Lane;
    Raw<L> low, high;
    compute<F, R, Ftz, Sat, L>(low, half<T>(Raw<T>(a), 0)...);
    compute<F, R, Ftz, Sat, L>(high, half<T>(Raw<T>(a), 1)...);
    d = join<T>(low, high);
  } else if constexpr (!T::is_float) {
    F::template integer<T, Sat>(d, a...);
  } else {
    auto in = [](Value<T> v) { return Ftz ? static_cast<Value<T>>(flush_f32(v)) : v; };
    Value<T> v;
    if constexpr (R == Rounding::even || sizeof(Raw<T>) < 4) v = F::of(in(get<T>(a))...);
    else
      v = directed<R>([&] {
        return F::of(
            static_cast<Value<T>>(*const_cast<volatile Value<T>*>(&static_cast<const Value<T>&>(in(get<T>(a)))))...);
      });
    if (Ftz) v = static_cast<Value<T>>(flush_f32(v));
    if (Sat) v = !(v > 0) ? Value<T>(0) : v > 1 ? Value<T>(1) : v;
    d = static_cast<D>(T::encode(v, sizeof(Raw<T>) < 4 ? R : Rounding::even));
  }
}

#define QCG_ONE(name, F, R, ftz, sat)              \
  template <class T, class D, class... A>          \
  void name(D& d, A... a) {                        \
    compute<F, Rounding::R, ftz, sat, T>(d, a...); \
  }
// clang-format off
#define QCG_FTZ(name, suffix, F, R) \
  QCG_ONE(name##suffix, F, R, false, false) QCG_ONE(name##suffix##_ftz, F, R, true, false)
#define QCG_SAT(name, suffix, F, R) \
  QCG_FTZ(name, suffix, F, R)       \
  QCG_ONE(name##suffix##_sat, F, R, false, true) QCG_ONE(name##suffix##_ftz_sat, F, R, true, true)
#define QCG_ROUNDED(name, F) \
  QCG_SAT(name, , F, even)   \
  QCG_SAT(name, _rn, F, even) QCG_SAT(name, _rz, F, zero) QCG_SAT(name, _rm, F, down) QCG_SAT(name, _rp, F, up)
// clang-format on
#define QCG_INTEGER(expression)                           \
  template <class T, bool Sat, class D, class A, class B> \
  static void integer(D& d, A a, B b) {                   \
    expression;                                           \
  }

struct Add {
  template <class V>
  static V of(V a, V b) {
    return a + b;
  }
  // clang-format off
  QCG_INTEGER(if constexpr (Sat) add_sat_int<T>(d, a, b); else add_int<T>(d, a, b))
  // clang-format on
};
struct Sub {
  template <class V>
  static V of(V a, V b) {
    return a - b;
  }
  // clang-format off
  QCG_INTEGER(if constexpr (Sat) sub_sat_int<T>(d, a, b); else sub_int<T>(d, a, b))
  // clang-format on
};
struct Mul {
  template <class V>
  static V of(V a, V b) {
    return a * b;
  }
};
struct Div {
  template <class V>
  static V of(V a, V b) {
    return a / b;
  }
  // clang-format off
  QCG_INTEGER(div_int<T>(d, a, b))
  // clang-format on
};
struct Fma {
  template <class V>
  static V of(V a, V b, V c) {
    return std::fma(a, b, c);
  }
};
struct FmaRelu {
  template <class V>
  static V of(V a, V b, V c) {
    const V v = std::fma(a, b, c);
    return v < 0 ? V(0) : v;
  }
};
template <class V>
bool less(V a, V b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
struct Min {
  template <class V>
  static V of(V a, V b) {
    return a != a ? b : b != b ? a : less(b, a) ? b : a;
  }
  // clang-format off
  QCG_INTEGER(min_int<T>(d, a, b))
  // clang-format on
};
struct Max {
  template <class V>
  static V of(V a, V b) {
    return a != a ? b : b != b ? a : less(a, b) ? b : a;
  }
  // clang-format off
  QCG_INTEGER(max_int<T>(d, a, b))
  // clang-format on
};
struct MinNan {
  template <class V>
  static V of(V a, V b) {
    return a != a ? a : b != b ? b : less(b, a) ? b : a;
  }
};
struct MaxNan {
  template <class V>
  static V of(V a, V b) {
    return a != a ? a : b != b ? b : less(a, b) ? b : a;
  }
};
struct Neg {
  template <class V>
  static V of(V a) {
    return -a;
  }
  template <class T, bool, class D, class A>
  static void integer(D& d, A a) {
    neg_int<T>(d, a);
  }
};
struct Abs {
  template <class V>
  static V of(V a) {
    return std::fabs(a);
  }
  template <class T, bool, class D, class A>
  static void integer(D& d, A a) {
    abs_int<T>(d, a);
  }
};
struct Copysign {
  template <class V>
  static V of(V a, V b) {
    return std::copysign(b, a);
  }
};
struct Rcp {
  template <class V>
  static V of(V a) {
    return V(1) / a;
  }
};
struct Sqrt {
  template <class V>
  static V of(V a) {
    return std::sqrt(a);
  }
};
struct Rsqrt {
  template <class V>
  static V of(V a) {
    return V(1 / std::sqrt(double(a)));
  }
};
struct Ex2 {
  template <class V>
  static V of(V a) {
    return V(std::exp2(double(a)));
  }
};
struct Lg2 {
  template <class V>
  static V of(V a) {
    return V(std::log2(double(a)));
  }
};
struct Sin {
  template <class V>
  static V of(V a) {
    return V(std::sin(double(a)));
  }
};
struct Cos {
  template <class V>
  static V of(V a) {
    return V(std::cos(double(a)));
  }
};
struct Tanh {
  template <class V>
  static V of(V a) {
    return V(std::tanh(double(a)));
  }
};
#undef QCG_INTEGER

// clang-format off
QCG_ROUNDED(add, Add)
QCG_ROUNDED(sub, Sub) QCG_ROUNDED(mul, Mul) QCG_ROUNDED(fma, Fma) QCG_ROUNDED(mad, Fma)
    QCG_FTZ(fma, _rn_relu, FmaRelu, even) QCG_ROUNDED(div, Div) QCG_FTZ(div, _approx, Div, even)
        QCG_FTZ(div, _full, Div, even) QCG_FTZ(min, , Min, even) QCG_FTZ(max, , Max, even) QCG_FTZ(neg, , Neg, even)
            QCG_FTZ(abs, , Abs, even) QCG_ONE(min_NaN, MinNan, even, false, false)
                QCG_ONE(min_ftz_NaN, MinNan, even, true, false) QCG_ONE(max_NaN, MaxNan, even, false, false)
                    QCG_ONE(max_ftz_NaN, MaxNan, even, true, false) QCG_ONE(copysign, Copysign, even, false, false)
                        QCG_ROUNDED(rcp, Rcp) QCG_FTZ(rcp, _approx, Rcp, even) QCG_ROUNDED(sqrt, Sqrt)
                            QCG_FTZ(sqrt, _approx, Sqrt, even) QCG_FTZ(rsqrt, _approx, Rsqrt, even)
                                QCG_FTZ(ex2, _approx, Ex2, even) QCG_FTZ(lg2, _approx, Lg2, even)
    // clang-format on
    QCG_FTZ(sin, _approx, Sin, even) QCG_FTZ(cos, _approx, Cos, even) QCG_FTZ(tanh, _approx, Tanh, even)
#undef QCG_ROUNDED

// ---- comparisons: setp.lt.and.f32 %p|%q, a, b, %r
#define QCG_COMPARE(op, ordered, otherwise)                    \
  struct Is_##op {                                             \
    template <class V>                                         \
    static bool of(V a, V b) {                                 \
      return (ordered) || ((otherwise) && (a != a || b != b)); \
    }                                                          \
  };
        QCG_COMPARE(eq, a == b, false) QCG_COMPARE(ne, a == a && b == b && a != b, false) QCG_COMPARE(lt, a < b, false)
    // clang-format off
                                            QCG_COMPARE(le, a <= b, false) QCG_COMPARE(gt, a > b, false)
                                                QCG_COMPARE(ge, a >= b, false) QCG_COMPARE(lo, a < b, false)
                                                    QCG_COMPARE(ls, a <= b, false) QCG_COMPARE(hi, a > b, false)
                                                        QCG_COMPARE(hs, a >= b, false) QCG_COMPARE(equ, a == b, true)
                                                            QCG_COMPARE(neu, a != b, true) QCG_COMPARE(ltu, a < b, true)
                                                                QCG_COMPARE(leu, a <= b, true)
                                                                    QCG_COMPARE(gtu, a > b, true)
                                                                        QCG_COMPARE(geu, a >= b, true)
                                                                            QCG_COMPARE(num, a == a && b == b, false)
                                                                                QCG_COMPARE(nan, false, true)
#undef QCG_COMPARE
    // clang-format on
    template <class Op, bool Ftz, class T, class A, class B>
    bool compare(A a, B b) {
  if constexpr (Ftz) return Op::of(flush_f32(get<T>(a)), flush_f32(get<T>(b)));
  else return Op::of(get<T>(a), get<T>(b));
}
#define QCG_SETP(op, suffix, ftz)                           \
  template <class T, class A, class B>                      \
  void setp_##op##suffix(bool& p, A a, B b) {               \
    p = compare<Is_##op, ftz, T>(a, b);                     \
  }                                                         \
  template <class T, class A, class B>                      \
  void setp_##op##suffix(bool& p, bool& q, A a, B b) {      \
    p = compare<Is_##op, ftz, T>(a, b), q = !p;             \
  }                                                         \
  template <class T, class A, class B>                      \
  void setp_##op##_and##suffix(bool& p, A a, B b, bool c) { \
    p = compare<Is_##op, ftz, T>(a, b) && c;                \
  }                                                         \
  template <class T, class A, class B>                      \
  void setp_##op##_or##suffix(bool& p, A a, B b, bool c) {  \
    p = compare<Is_##op, ftz, T>(a, b) || c;                \
  }                                                         \
  template <class T, class A, class B>                      \
  void setp_##op##_xor##suffix(bool& p, A a, B b, bool c) { \
    p = compare<Is_##op, ftz, T>(a, b) != c;                \
  }                                                         \
  template <class R, class T, class D, class A, class B>    \
  void set_##op##suffix(D& d, A a, B b) {                   \
    const bool yes = compare<Is_##op, ftz, T>(a, b);        \
    if constexpr (R::is_float) set<R>(d, yes);              \
    else d = static_cast<D>(yes ? ~Raw<R>(0) : Raw<R>(0));  \
  }
#define QCG_SETPS(op) QCG_SETP(op, , false) QCG_SETP(op, _ftz, true)
// clang-format off
QCG_SETPS(eq)
QCG_SETPS(ne) QCG_SETPS(lt) QCG_SETPS(le) QCG_SETPS(gt) QCG_SETPS(ge) QCG_SETPS(lo) QCG_SETPS(ls) QCG_SETPS(hi)
    QCG_SETPS(hs) QCG_SETPS(equ) QCG_SETPS(neu) QCG_SETPS(ltu) QCG_SETPS(leu) QCG_SETPS(gtu) QCG_SETPS(geu)
        QCG_SETPS(num) QCG_SETPS(nan)
#undef QCG_SETPS
#undef QCG_SETP
    // clang-format on
    template <class T, class A>
    void testp_finite(bool& p, A a) {
  p = std::isfinite(double(get<T>(a)));
}
template <class T, class A>
void testp_infinite(bool& p, A a) {
  p = std::isinf(double(get<T>(a)));
}
template <class T, class A>
void testp_notanumber(bool& p, A a) {
  p = std::isnan(double(get<T>(a)));
}
template <class T, class A>
void testp_number(bool& p, A a) {
  p = !std::isnan(double(get<T>(a)));
}

// ---- conversions
struct ConvertMode {
  Rounding rounding = Rounding::even;
  bool to_integer = false, ftz = false, saturate = false, finite = false, relu = false;
};
template <class D, class S>
Value<D> integer_of_float(double x, Rounding r) {
  if (x != x) return sizeof(Raw<D>) == 8 || sizeof(Raw<S>) == 8 ? Value<D>(Raw<D>(1) << (kBits<D> - 1)) : Value<D>(0);
  x = round_to_integer(x, r);
  const double top = std::ldexp(1.0, kBits<D> - std::is_signed_v<Value<D>>);
  if (x >= top) return std::is_signed_v<Value<D>> ? Value<D>(~(Raw<D>(1) << (kBits<D> - 1))) : Value<D>(~Raw<D>(0));
  if (x <= (std::is_signed_v<Value<D>> ? -top : 0.0))
    return std::is_signed_v<Value<D>> ? Value<D>(Raw<D>(1) << (kBits<D> - 1)) : Value<D>(0);
  return static_cast<Value<D>>(x);
}
template <ConvertMode M, class D>
Raw<D> encode_converted(double x) {
  if (M.ftz && sizeof(Raw<D>) == 4) x = flush_f32(x);
  if (M.saturate) x = !(x > 0) ? 0.0 : x > 1 ? 1.0 : x;
  if (M.relu && x < 0) x = 0;
  return D::encode(x, M.rounding, M.finite);
}
template <ConvertMode M, class D, class S, class R, class A>
void convert(R& d, A a) {
  if constexpr (Packed<D> && Packed<S>) {
    typename D::Lane::Raw low, high;
    convert<M, typename D::Lane, typename S::Lane>(low, half<S>(Raw<S>(a), 0));
    convert<M, typename D::Lane, typename S::Lane>(high, half<S>(Raw<S>(a), 1));
    d = static_cast<R>(join<D>(low, high));
  } else if constexpr (!D::is_float && !S::is_float) {
    const Wide<s64> wide = get<S>(a);
    set<D>(d, M.saturate ? clamp<D>(static_cast<Wide<D>>(std::is_signed_v<Value<D>> || wide >= 0 ? wide : 0))
                         : static_cast<Value<D>>(wide));
  } else if constexpr (!D::is_float) {
    double x = get<S>(a);
    if (M.ftz && sizeof(Raw<S>) == 4) x = flush_f32(x);
    set<D>(d, integer_of_float<D, S>(x, M.rounding));
  } else if constexpr (!S::is_float) {
    if constexpr (sizeof(Raw<S>) == 8 && M.rounding == Rounding::even && std::is_same_v<D, f32>)
      d = as_bits(static_cast<float>(get<S>(a)));
    else d = static_cast<R>(encode_converted<M, D>(static_cast<double>(get<S>(a))));
  } else {
    double x = get<S>(a);
    if (M.ftz && sizeof(Raw<S>) == 4) x = flush_f32(x);
    if (M.to_integer) x = round_to_integer(x, M.rounding);
    d = static_cast<R>(encode_converted<M, D>(x));
  }
}
// Two f32 become one register; the first operand is the high half.
template <ConvertMode M, class D, class S, class R, class A, class B>
void convert_pair(R& d, A high, B low) {
  d = static_cast<R>(
      join<D>(encode_converted<M, typename D::Lane>(get<S>(low)), encode_converted<M, typename D::Lane>(get<S>(high))));
}
#define QCG_CVT(suffix, ...)                               \
  template <class D, class S, class R, class A>            \
  void cvt##suffix(R& d, A a) {                            \
    convert<ConvertMode{__VA_ARGS__}, D, S>(d, a);         \
  }                                                        \
  template <class D, class S, class R, class A, class B>   \
  void cvt##suffix(R& d, A a, B b) {                       \
    convert_pair<ConvertMode{__VA_ARGS__}, D, S>(d, a, b); \
  }
// clang-format off
#define QCG_CVTS(suffix, ...)                                                                          \
  QCG_CVT(suffix, __VA_ARGS__)                                                                         \
  QCG_CVT(suffix##_ftz, __VA_ARGS__, .ftz = true) QCG_CVT(suffix##_sat, __VA_ARGS__, .saturate = true) \
      QCG_CVT(suffix##_ftz_sat, __VA_ARGS__, .ftz = true, .saturate = true)
QCG_CVTS(, .rounding = Rounding::even)
QCG_CVTS(_rn, .rounding = Rounding::even)
QCG_CVTS(_rz, .rounding = Rounding::zero)
QCG_CVTS(_rm, .rounding = Rounding::down)
QCG_CVTS(_rp, .rounding = Rounding::up)
QCG_CVTS(_rna, .rounding = Rounding::away)
QCG_CVTS(_rni, .rounding = Rounding::even, .to_integer = true)
QCG_CVTS(_rzi, .rounding = Rounding::zero, .to_integer = true)
QCG_CVTS(_rmi, .rounding = Rounding::down, .to_integer = true)
QCG_CVTS(_rpi, .rounding = Rounding::up, .to_integer = true)
QCG_CVT(_rn_satfinite, .finite = true)
QCG_CVT(_rna_satfinite, .rounding = Rounding::away, .finite = true)
QCG_CVT(_rn_relu, .relu = true)
QCG_CVT(_rn_satfinite_relu, .finite = true, .relu = true)
#undef QCG_CVTS
#undef QCG_CVT
#undef QCG_SAT
#undef QCG_FTZ
#undef QCG_ONE
// clang-format on

}  // namespace qcg::ptx
