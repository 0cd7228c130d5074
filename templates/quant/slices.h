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
// What they do not hold is kept as a list of rests and multiplied as floats: smaller ones, NaN and infinity. So
// nothing is lost, whatever the range. The method is known from f64 matrix products on integer units (Ootomo, Ozaki,
// Yokota 2024: "DGEMM on integer matrix multiplication unit").
#pragma once

// 2^e of a group, as bits: the largest finite magnitude becomes at most 127 * 2^16 + 127 * 2^8 + 127. What lies above, for
// numbers of 11 bits and less, has a fraction from 0x7f0000 on: there the exponent is the next one.
QCG_INLINE uint32_t slice_unit(const float* x, int64_t n) {
  vf largest = v_zero();
  const vf infinity = v_set1(__builtin_inff());
  for (int64_t i = 0; i < n; i += VL) {
    const vf v = v_abs(n - i >= VL ? v_load_f32(x + i) : v_load_f32_n(x + i, (int)(n - i)));
    largest = v_max(largest, v_select(v_lt(v, infinity), v, v_zero()));
  }
  const uint32_t exponent = (unit_of(v_hmax(largest)) + 0x10000) >> 23;
  return (exponent < 23 ? 1 : exponent - 22) << 23;
}

// Slices of n <= VL activations, each slice `stride` bytes after the one before; what is left over.
QCG_INLINE vf slice_vector(int8_t* to, int64_t stride, vf x, vf inverse, vf unit, int n) {
  const vi v = v_to_i_round(v_mul(x, inverse));  // of NaN and infinity -2^31 on x86, and made 0: all slices are 0
  const vi low = vi_add(v, vi_set1(128)), high = vi_add(v, vi_set1(128 + (128 << 8)));
  if (n == VL) {
    vi_store_i8(to, v);
    vi_store_i8(to + stride, vi_sra(low, 8));
    vi_store_i8(to + 2 * stride, vi_sra(high, 16));
  } else {
    vi_store_i8_n(to, v, n);
    vi_store_i8_n(to + stride, vi_sra(low, 8), n);
    vi_store_i8_n(to + 2 * stride, vi_sra(high, 16), n);
  }
  return v_sub(x, v_mul(vi_to_f(v), unit));
}

// Slices a group. Its rests go to a list of (padded k, value) that holds `count` of at most `limit`; counts on.
QCG_INLINE int slice_group(int8_t* to, int64_t stride, const float* x, int64_t n, uint32_t unit_bits, uint32_t k0,
                           qcg_unit* rests, int count, int limit) {
  const vf unit = v_set1(unit_float(unit_bits)), inverse = v_set1(unit_float((254u << 23) - unit_bits));
  for (int64_t i = 0; i < n; i += VL) {
    const int lanes = n - i >= VL ? VL : (int)(n - i);
    const vf v = lanes == VL ? v_load_f32(x + i) : v_load_f32_n(x + i, lanes);
    const vf rest = slice_vector(to + i, stride, v, inverse, unit, lanes);
    if (all_zero(rest)) continue;
    float values[VL];
    v_store_f32(values, rest);
    for (int lane = 0; lane < lanes; ++lane) {
      if (values[lane] == 0) continue;
      if (count < limit) {
        rests[2 * count] = k0 + (uint32_t)i + (uint32_t)lane;
        rests[2 * count + 1] = unit_of(values[lane]);
      }
      ++count;
    }
  }
  return count;
}

// The sum of a group in its unit, from those of its slices. No overflow: groups are short enough (kLongestSliced).
QCG_INLINE vf join_slices(vi low, vi middle, vi high, qcg_unit unit, qcg_unit unit16) {
  const vf lower = v_mul(vi_to_f(vi_add(low, vi_shl(middle, 8))), v_set1(unit_float(unit)));
  return v_fma(vi_to_f(high), v_set1(unit_float(unit16)), lower);
}
