// What is left to do to a sum of products: scales, zero points and the corrections of integer sums.
//
// Why here: every scheme is one of four cases, so kernels have no code of their own for any of them.
//
//   float, per channel   y = s[n] * sum_k x w^                                    add_scale
//   float, per group     y = sum_g (s[g, n] * sum_{k in g} x w^ + o[g, n] * sum_{k in g} x)      add_group, add_offset
//   int8, per channel    y = sx[m] * s[n] * I,  I = R - offset[n] * S[m] - zx[m] * C[n]          correct_*, scale_int
//   int8, per group      y = sx[m] * sum_g s[g, n] * I_g, corrected where the sum of a group ends
//     narrow scales      y = sx[m] * (sum_g s[g, n] * J_g - zx[m] * C'[n])                     correct_columns
//
// R = sum q' w' (as stored: q' = q, or q - 128 for u8; w' = w, or moved up where the instruction wants it unsigned),
// S = sum q', offset = the zero point plus what w was moved up by, C = sum (w - zero point), J = R - offset * S,
// C'[n] = sum_g s[g, n] * C_g[n]. All of I is exact int32; intermediate wrap-around is harmless because I itself fits.
// Zero points under float activations are subtracted in registers: exact, where correcting the sum afterwards would
// cancel.
#pragma once
QCG_INLINE vf scale_channel(vf acc, const float* scale) { return v_mul(acc, v_load_f32(scale)); }
QCG_INLINE vf add_group(vf total, vf sum, vf scale) { return v_fma(sum, scale, total); }
QCG_INLINE vf add_group(vf total, vi sum, vf scale) { return v_fma(vi_to_f(sum), scale, total); }
QCG_INLINE vf add_offset(vf total, vf offset, float x_sum) { return v_fma(offset, v_set1(x_sum), total); }
QCG_INLINE vi correct_rows(vi acc, const int32_t* offset, int32_t row_sum) {
  return vi_sub(acc, vi_mul(vi_load(offset), vi_set1(row_sum)));
}
QCG_INLINE vi correct_columns(vi acc, const int32_t* column_sum, int32_t x_zero) {
  return vi_sub(acc, vi_mul(vi_load(column_sum), vi_set1(x_zero)));
}
QCG_INLINE vf correct_columns(vf acc, const float* column_sum, int32_t x_zero) {
  return v_fma(v_load_f32(column_sum), v_set1((float)-x_zero), acc);
}
QCG_INLINE vf scale_int(vi acc, const float* scale, float x_scale) {
  return v_mul(v_mul(vi_to_f(acc), v_set1(x_scale)), v_load_f32(scale));
}
