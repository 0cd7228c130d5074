// The functions of graph/ir/expr.h on whole numbers, one at a time, modulo 2^64: for loops over integers, where f32 ends at
// 2^24.
//
// Why here: the same text serves all CPUs and devices; who includes it has defined QCG_INLINE and int64_t.
//
//   int64_t y = i_add(i_mul(in0, INT64_C(3)), in1);
#pragma once

QCG_INLINE int64_t i_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
QCG_INLINE int64_t i_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
QCG_INLINE int64_t i_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
QCG_INLINE int64_t i_neg(int64_t a) { return i_sub(0, a); }
QCG_INLINE int64_t i_abs(int64_t a) { return a < 0 ? i_neg(a) : a; }
QCG_INLINE int64_t i_relu(int64_t a) { return a < 0 ? 0 : a; }
QCG_INLINE int64_t i_max(int64_t a, int64_t b) { return a > b ? a : b; }
QCG_INLINE int64_t i_min(int64_t a, int64_t b) { return a < b ? a : b; }
QCG_INLINE int64_t i_clamp(int64_t x, int64_t lo, int64_t hi) { return i_min(i_max(x, lo), hi); }
QCG_INLINE int64_t i_gt(int64_t a, int64_t b) { return a > b; }
QCG_INLINE int64_t i_ge(int64_t a, int64_t b) { return a >= b; }
QCG_INLINE int64_t i_where(int64_t condition, int64_t yes, int64_t no) { return condition ? yes : no; }
QCG_INLINE int64_t i_trunc_div(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? i_neg(a) : a / b; }
QCG_INLINE int64_t i_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return b == 0 ? a : 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
QCG_INLINE int64_t i_floor_div(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return i_trunc_div(a, b);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
QCG_INLINE int64_t i_bit_and(int64_t a, int64_t b) { return a & b; }
QCG_INLINE int64_t i_bit_or(int64_t a, int64_t b) { return a | b; }
QCG_INLINE int64_t i_bit_xor(int64_t a, int64_t b) { return a ^ b; }
// By 64 bits or more, or by fewer than none: all of them are moved out.
QCG_INLINE int64_t i_shift_left(int64_t a, int64_t b) { return (uint64_t)b < 64 ? (int64_t)((uint64_t)a << b) : 0; }
QCG_INLINE int64_t i_shift_right(int64_t a, int64_t b) { return a >> ((uint64_t)b < 64 ? b : 63); }
// Of their sizes, by Euclid.
QCG_INLINE int64_t i_gcd(int64_t a, int64_t b) {
  uint64_t x = (uint64_t)i_abs(a), y = (uint64_t)i_abs(b);
  while (y != 0) {
    const uint64_t rest = x % y;
    x = y, y = rest;
  }
  return (int64_t)x;
}
QCG_INLINE int64_t i_round_even(int64_t a) { return a; }
QCG_INLINE int64_t i_floor(int64_t a) { return a; }
QCG_INLINE int64_t i_cast_i8(int64_t a) { return (int8_t)a; }
QCG_INLINE int64_t i_cast_u8(int64_t a) { return (uint8_t)a; }
QCG_INLINE int64_t i_cast_i16(int64_t a) { return (int16_t)a; }
QCG_INLINE int64_t i_cast_u16(int64_t a) { return (uint16_t)a; }
QCG_INLINE int64_t i_cast_i32(int64_t a) { return (int32_t)a; }
QCG_INLINE int64_t i_cast_u32(int64_t a) { return (uint32_t)a; }
QCG_INLINE int64_t i_cast_i64(int64_t a) { return a; }
QCG_INLINE int64_t i_cast_bool(int64_t a) { return a != 0; }
