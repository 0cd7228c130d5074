// A group of float activations as integers that an instruction of int8 products takes: their slices.
//
// Why here: unpacking narrow weights to floats costs as much as multiplying them where rows are few, and int8 products
// are four to a lane. Three of them take the place of four f32 multiply-adds, and nothing is unpacked but bytes.
//
//   x = 2^e (s0 + 2^8 s1 + 2^16 s2) + rest        s in [-128, 127], e one of the group, rest almost always 0
//
//   sum_k x w = 2^e (I0 + 2^8 I1 + 2^16 I2) + sum_{k: rest != 0} rest[k] w[k]       I = sum_k s w, exact
//
// The 23 bits below the group's largest activation hold all of a bf16 not 2^15 times smaller, of an f16 not 2^12 times.
// What they do not hold, of smaller ones, NaN and infinity, is kept as a list of rests and multiplied as floats; where there
// are many, the rests of the row are sliced again. So nothing is lost, whatever the range. The method is known from f64
// matrix products on integer units (Ootomo, Ozaki, Yokota 2024: "DGEMM on integer matrix multiplication unit").
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

// 2^e of a group, as bits: the largest finite magnitude becomes at most 127 * 2^16 + 127 * 2^8 + 127. What would lie above
// has, in numbers of 11 bits and less, a fraction from 0x7f0000 on: there the exponent is the next one.
QCG_INLINE qcg_unit slice_unit(const float* x, int64_t n) {
  vf largest = v_zero();
  const vf infinity = v_set1(__builtin_inff());
  for (int64_t i = 0; i < n; i += VL) {
    const vf v = v_abs(load_some(x + i, lanes_of(n - i)));
    const vf finite = v_select(v_lt(v, infinity), v, v_zero());
    largest = v_select(v_lt(largest, finite), finite, largest);
  }
  const uint32_t exponent = (unit_of(v_hmax(largest)) + 0x10000) >> 23;
  return (exponent < 23 ? 1 : exponent - 22) << 23;
}

// The slices of a group, and what is left over.
struct Slicer {
  int8_t* slices;   // of a row: one after the other, `stride` bytes each
  int64_t stride;
  qcg_unit* rests;  // padded k and value of each, up to `limit`
  int limit, count = 0;

  // A group of n activations at k, its unit as bits; what each slice sums up to (nothing, beside NaN or infinity).
  void add_group(const float* x, int64_t k, int64_t n, qcg_unit unit_bits, int32_t (&of_slices)[3]) {
    const vf unit = v_set1(unit_float(unit_bits)), inverse = inverse_of(unit_bits);
    vi sums[3] = {vi_set1(0), vi_set1(0), vi_set1(0)};  // by lanes: x, x / 2^8 and x / 2^16 in units
    for (int64_t i = 0; i < n; i += VL) {
      const int lanes = lanes_of(n - i);
      const vf v = load_some(x + i, lanes);
      const vi low = units_of(v, inverse);
      const vi middle = vi_sra(vi_add(low, vi_set1(128)), 8);
      const vi high = vi_sra(vi_add(low, vi_set1(128 + (128 << 8))), 16);
      sums[0] = vi_add(sums[0], low), sums[1] = vi_add(sums[1], middle), sums[2] = vi_add(sums[2], high);
      int8_t* const to = slices + k + i;
      if (lanes == VL) {
        vi_store_i8(to, low), vi_store_i8(to + stride, middle), vi_store_i8(to + 2 * stride, high);
      } else {
        vi_store_i8_n(to, low, lanes), vi_store_i8_n(to + stride, middle, lanes);
        vi_store_i8_n(to + 2 * stride, high, lanes);
      }
      const vf rest = rest_of(v, low, unit);
      if (!all_zero(rest)) list_rests(rest, k + i, lanes);
    }
    of_slices[0] = (int32_t)v_hadd(vi_to_f(vi_sub(sums[0], vi_shl(sums[1], 8))));
    of_slices[1] = (int32_t)v_hadd(vi_to_f(vi_sub(sums[1], vi_shl(sums[2], 8))));
    of_slices[2] = (int32_t)v_hadd(vi_to_f(sums[2]));
  }
  __attribute__((noinline)) void list_rests(vf rest, int64_t k, int n) {
    float values[VL];
    v_store_f32(values, rest);
    for (int lane = 0; lane < n; ++lane) {
      if (values[lane] == 0) continue;
      if (count < limit) rests[2 * count] = (qcg_unit)(k + lane), rests[2 * count + 1] = unit_of(values[lane]);
      ++count;
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

// The sum of a group in its unit, from those of its slices. No overflow: groups are short enough (kLongestSliced).
QCG_INLINE vf join_slices(vi low, vi middle, vi high, qcg_unit unit, qcg_unit unit16) {
  const vf lower = v_mul(vi_to_f(vi_add(low, vi_shl(middle, 8))), v_set1(unit_float(unit)));
  return v_fma(vi_to_f(high), v_set1(unit_float(unit16)), lower);
}
