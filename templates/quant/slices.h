// A group of float activations as integers that an instruction of int8 products takes: their slices.
//
// Why here: unpacking narrow weights to floats costs as much as multiplying them where rows are few, and int8 products
// are four to a lane. Two of them take the place of four f32 multiply-adds, and nothing is unpacked but bytes.
//
//   x = 2^e (s0 + 2^8 s1) + rest              s in [-128, 127], e one of the group, rest mostly 0
//
//   sum_k x w = 2^e (I0 + 2^8 I1) + sum_{k: rest != 0} rest[k] w[k]             I = sum_k s w, exact
//
// The 15 bits below the group's largest activation hold all of a bf16 that is not 2^7 times smaller, and of an f16 that is not
// 2^4 times smaller. What they do not hold, of smaller ones, NaN and infinity, is kept as a list of rests and multiplied as
// floats. If a row has many, they are sliced again, one slice of each with an exponent of its own, which takes a third
// product. So nothing is lost, whatever the range. The method is known from f64 matrix products on integer units (Ootomo,
// Ozaki, Yokota 2024: "DGEMM on integer matrix multiplication unit").
#pragma once

// What slices of n <= VL activations leave of them; `low` is them in units.
QCG_INLINE vf rest_of(vf x, vi low, vf unit) { return v_sub(x, v_mul(vi_to_f(low), unit)); }
QCG_INLINE vf load_some(const float* x, int n) { return n == VL ? v_load_f32(x) : v_load_f32_n(x, n); }
// NaN and infinity have no units: what a conversion makes of them differs between ISAs.
QCG_INLINE vi units_of(vf x, vf inverse) {
  const vf finite = v_select(v_lt(v_abs(x), v_set1(__builtin_inff())), x, v_zero());
  return v_to_i_round(v_mul(finite, inverse));
}
QCG_INLINE vf inverse_of(qcg_unit unit) { return v_set1(unit_float((254u << 23) - unit)); }
QCG_INLINE int lanes_of(int64_t left) { return left >= VL ? VL : (int)left; }

// 2^e of a group, as bits: the largest finite magnitude becomes at most 127 * 2^8 + 127, or 127. What would lie above
// has, in numbers of 11 bits and less, a fraction from 0x7f0000 on: there the exponent is the next one.
template <int N>
QCG_INLINE qcg_unit slice_unit(const float* x, int64_t n) {
  vf largest = v_zero();
  const vf infinity = v_set1(__builtin_inff());
  for (int64_t i = 0; i < n; i += VL) {
    const vf v = v_abs(load_some(x + i, lanes_of(n - i)));
    const vf finite = v_select(v_lt(v, infinity), v, v_zero());
    largest = v_select(v_lt(largest, finite), finite, largest);
  }
  const uint32_t exponent = (unit_of(v_hmax(largest)) + 0x10000) >> 23;
  constexpr uint32_t kBelow = 8 * N - 2;  // bits below the first of the largest
  return (exponent <= kBelow ? 1 : exponent - kBelow) << 23;
}

// The slices of a group, and what is left over.
template <int N>
struct Slicer {
  int8_t* slices;   // of a row: one after the other, `stride` bytes each
  int64_t stride;
  qcg_unit* rests;  // padded k and value of each, up to `limit`
  int limit, count = 0;

  // A group of n activations at k, its unit as bits; what each slice sums up to (nothing, beside NaN or infinity).
  void add_group(const float* x, int64_t k, int64_t n, qcg_unit unit_bits, int32_t (&of_slices)[N]) {
    const vf unit = v_set1(unit_float(unit_bits)), inverse = inverse_of(unit_bits);
    vi sums[2] = {vi_set1(0), vi_set1(0)};  // by lanes: x and x / 2^8 in units
    for (int64_t i = 0; i < n; i += VL) {
      const int lanes = lanes_of(n - i);
      const vf v = load_some(x + i, lanes);
      const vi low = units_of(v, inverse), high = vi_sra(vi_add(low, vi_set1(128)), 8);
      sums[0] = vi_add(sums[0], low), sums[1] = vi_add(sums[1], high);
      int8_t* const to = slices + k + i;
      if (lanes == VL) {
        vi_store_i8(to, low);
        if (N == 2) vi_store_i8(to + stride, high);
      } else {
        vi_store_i8_n(to, low, lanes);
        if (N == 2) vi_store_i8_n(to + stride, high, lanes);
      }
      const vf rest = rest_of(v, low, unit);
      if (!all_zero(rest)) list_rests(rest, k + i, lanes);
    }
    of_slices[0] = (int32_t)v_hadd(vi_to_f(N == 2 ? vi_sub(sums[0], vi_shl(sums[1], 8)) : sums[0]));
    if constexpr (N == 2) of_slices[1] = (int32_t)v_hadd(vi_to_f(sums[1]));
  }
  __attribute__((noinline)) void list_rests(vf rest, int64_t k, int n) {
    if (count > limit) return;
    float values[VL];
    v_store_f32(values, rest);
    for (int lane = 0; lane < n; ++lane) {
      if (values[lane] == 0) continue;
      if (count++ == limit) return;  // too many
      rests[2 * count - 2] = (qcg_unit)(k + lane), rests[2 * count - 1] = unit_of(values[lane]);
    }
  }
};

// A group as its slices leave it.
inline void subtract_slices(float* x, int64_t n, qcg_unit unit_bits) {
  const vf unit = v_set1(unit_float(unit_bits)), inverse = inverse_of(unit_bits);
  for (int64_t i = 0; i < n; i += VL) {
    const int lanes = lanes_of(n - i);
    const vf v = load_some(x + i, lanes), rest = rest_of(v, units_of(v, inverse), unit);
    if (lanes == VL) v_store_f32(x + i, rest);
    else v_store_f32_n(x + i, rest, lanes);
  }
}

// The sum of a group, from those of its slices; its unit is 2^e. No overflow: groups are short enough (kLongestSliced).
QCG_INLINE vf join_slices(vi low, qcg_unit unit) { return v_mul(vi_to_f(low), v_set1(unit_float(unit))); }
QCG_INLINE vf join_slices(vi low, vi high, qcg_unit unit) { return join_slices(vi_add(low, vi_shl(high, 8)), unit); }
