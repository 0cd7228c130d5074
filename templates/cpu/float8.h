// 8-bit floats between memory and f32 lanes, written once on the primitives of whichever ISA header includes this file.
//
// Why here: as vector_math.h: what the bits mean is the same on every machine. GEMMs unpack their weights elsewhere
// (quant/fp8.h); this serves loops, reductions and epilogues.
//
//   v_store_f8e4m3_n(y + i, v_mul(v_load_bf16_n(x + i, left), scale), left);
//
// e4m3 has no infinity: larger numbers, Inf too, store the largest one (448). e5m2 stores Inf from 61440 on. Both round to
// nearest even and keep NaN and the sign of zero, as torch's .to() does. e8m0 (a bare exponent) can only be loaded; it has
// no zero, so that absent lanes read as 2^-127.
// A code travels as a number 0..255 in an f32 lane, as v_load_u8 and v_store_u8 have it.
#pragma once

// EXPONENT bits of exponent, 7 - EXPONENT of mantissa. Moved to f32's fields, the number is 2^(f32 bias - bias) too small;
// the product is right for denormals as well.
template <int EXPONENT>
QCG_INLINE vf f8_magnitude(vi bits) {
  constexpr float kRebias = EXPONENT == 4 ? 0x1p120f : 0x1p112f;
  return v_mul(v_from_bits(vi_shl(bits, 16 + EXPONENT)), v_set1(kRebias));
}
template <int EXPONENT>
QCG_INLINE vf v_from_f8(vf code) {
  const vi c = v_to_i_trunc(code), bits = vi_and(c, vi_set1(0x7f));
  const vf number = vi_to_f(bits), inf = v_set1(__builtin_inff()), nan = v_set1(__builtin_nanf(""));
  vf x = f8_magnitude<EXPONENT>(bits);
  if (EXPONENT == 5) x = v_select(v_lt(v_set1(0x7b), number), v_select(v_eq(number, v_set1(0x7c)), inf, nan), x);
  else x = v_select(v_eq(number, v_set1(0x7f)), nan, x);
  return v_copysign(x, v_from_bits(vi_shl(c, 24)));
}
template <int EXPONENT>
QCG_INLINE vf v_to_f8(vf x) {
  constexpr int kShift = 16 + EXPONENT, kBias = EXPONENT == 4 ? 120 : 112;   // f32's bias less that of the format
  constexpr float kLeast = EXPONENT == 4 ? 0x1p-6f : 0x1p-14f;               // normal number
  constexpr float kPerStep = EXPONENT == 4 ? 0x1p9f : 0x1p16f;               // denormals are whole steps
  const vf a = EXPONENT == 4 ? v_min(v_abs(x), v_set1(448.0f)) : v_abs(x);
  const vi bits = v_bits(a), odd = vi_and(vi_sra(bits, kShift), vi_set1(1));
  const vi rounded = vi_sra(vi_add(bits, vi_add(odd, vi_set1((1 << (kShift - 1)) - 1))), kShift);
  const vf normal = vi_to_f(vi_sub(rounded, vi_set1(kBias << (7 - EXPONENT))));
  vf code = v_select(v_lt(a, v_set1(kLeast)), v_round_even(v_mul(a, v_set1(kPerStep))), normal);
  if (EXPONENT == 5) code = v_min(code, v_set1(0x7c));
  code = v_select(v_isnan(x), v_set1(0x7f), code);
  return v_select(v_lt(v_copysign(v_set1(1.0f), x), v_zero()), v_add(code, v_set1(128.0f)), code);
}

QCG_INLINE vf v_load_f8e4m3(const uint8_t* p) { return v_from_f8<4>(v_load_u8(p)); }
QCG_INLINE vf v_load_f8e4m3_n(const uint8_t* p, int n) { return v_from_f8<4>(v_load_u8_n(p, n)); }
QCG_INLINE void v_store_f8e4m3(uint8_t* p, vf x) { v_store_u8(p, v_to_f8<4>(x)); }
QCG_INLINE void v_store_f8e4m3_n(uint8_t* p, vf x, int n) { v_store_u8_n(p, v_to_f8<4>(x), n); }
QCG_INLINE vf v_cast_f8e4m3(vf x) { return v_from_f8<4>(v_to_f8<4>(x)); }

QCG_INLINE vf v_load_f8e5m2(const uint8_t* p) { return v_from_f8<5>(v_load_u8(p)); }
QCG_INLINE vf v_load_f8e5m2_n(const uint8_t* p, int n) { return v_from_f8<5>(v_load_u8_n(p, n)); }
QCG_INLINE void v_store_f8e5m2(uint8_t* p, vf x) { v_store_u8(p, v_to_f8<5>(x)); }
QCG_INLINE void v_store_f8e5m2_n(uint8_t* p, vf x, int n) { v_store_u8_n(p, v_to_f8<5>(x), n); }
QCG_INLINE vf v_cast_f8e5m2(vf x) { return v_from_f8<5>(v_to_f8<5>(x)); }

// 2^(code - 127); 0 is the denormal 2^-127, 255 is NaN.
QCG_INLINE vf v_from_e8m0(vf code) {
  const vf x = v_select(v_eq(code, v_zero()), v_set1(0x1p-127f), v_from_bits(vi_shl(v_to_i_trunc(code), 23)));
  return v_select(v_eq(code, v_set1(255.0f)), v_set1(__builtin_nanf("")), x);
}
QCG_INLINE vf v_load_f8e8m0(const uint8_t* p) { return v_from_e8m0(v_load_u8(p)); }
QCG_INLINE vf v_load_f8e8m0_n(const uint8_t* p, int n) { return v_from_e8m0(v_load_u8_n(p, n)); }
