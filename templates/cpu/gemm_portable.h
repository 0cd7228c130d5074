// GEMM primitives in compiler vectors, for any machine.
//
// Why here: see gemm_common.h for the names.
#pragma once
#include "portable.h"
#include "gemm_common.h"

QCG_INLINE void keep(vf&) {}
QCG_INLINE void keep(vi&) {}

// 8 columns x 2 k of int8, and 2 k of one row in a unit.
typedef int16_t qcg_h8 __attribute__((vector_size(16)));
struct madd16_pairs {
  vi even, odd;
};
QCG_INLINE vi i32_from_i16(qcg_h8 x) {
  return {qcg_i4{x[0], x[1], x[2], x[3]}, qcg_i4{x[4], x[5], x[6], x[7]}};
}
QCG_INLINE vi madd16_zero() { return int_zero(); }
QCG_INLINE vi madd16_add(vi a, vi b) { return vi_add(a, b); }
QCG_INLINE vi madd16_load(const void* p) { return int_load(p); }
QCG_INLINE void madd16_store(void* p, vi acc) { int_store(p, acc); }
QCG_INLINE madd16_pairs madd16_broadcast(const qcg_unit* x) {
  const int32_t unit = (int32_t)*x;
  return {vi_set1((int16_t)unit), vi_set1(unit >> 16)};
}
template <int U>
QCG_INLINE madd16_pairs madd16_weight_i8x2(const uint8_t* p) {
  qcg_h8 x;
  __builtin_memcpy(&x, p, sizeof x);
  return {i32_from_i16((qcg_h8)(x << 8) >> 8), i32_from_i16(x >> 8)};
}
QCG_INLINE vi madd16_dot(vi acc, madd16_pairs w, madd16_pairs x) {
  return vi_add(acc, vi_add(vi_mul(w.even, x.even), vi_mul(w.odd, x.odd)));
}
// Two products of int16 per dword, added: the corrections of a group of integers.
QCG_INLINE vi pair_dot(vi a, vi b) {
  return vi_add(vi_mul(vi_sra(vi_shl(a, 16), 16), vi_sra(vi_shl(b, 16), 16)), vi_mul(vi_sra(a, 16), vi_sra(b, 16)));
}
// Per column a pair of int16 for pair_dot: the sum of a group's weights, from p, and what every weight is raised by.
QCG_INLINE vi sums_and(int raised, const uint8_t* p) {
  uint16_t sums[VL];
  __builtin_memcpy(sums, p, sizeof sums);
  return vi_add(load_as<vi>(sums), vi_set1(raised * 65536));
}
QCG_INLINE bool all_zero(vf x) {
  const vi magnitude = vi_and(v_bits(x), vi_set1(0x7fffffff));
  const qcg_i4 any = magnitude.lo | magnitude.hi;
  return (any[0] | any[1] | any[2] | any[3]) == 0;
}
