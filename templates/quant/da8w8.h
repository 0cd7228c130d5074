// da8w8, int8 activation per row x int8 weight per channel:
//   y = sx[m] * scale[n] * I,  I = sum_k (q - zx) (w - zw) = R - offset[n] * S[m] - zx[m] * C[n]
//   R = sum q' w'  (as stored: q' = q, or q - 128 for u8; w' = w, or w + 128 where the instruction wants it unsigned)
//   S = sum q',  offset = zw (+ 128),  C = sum (w - zw)
// All of I is exact int32; intermediate wrap-around is harmless because I itself fits.
#pragma once
QCG_INLINE vi correct_rows(vi acc, const int32_t* offset, int32_t row_sum) {
  return vi_sub(acc, vi_mul(vi_load(offset), vi_set1(row_sum)));
}
QCG_INLINE vi correct_columns(vi acc, const int32_t* column_sum, int32_t x_zero) {
  return vi_sub(acc, vi_mul(vi_load(column_sum), vi_set1(x_zero)));
}
QCG_INLINE vf dequant_da8w8(vi acc, const float* scale, float x_scale) {
  return v_mul(v_mul(vi_to_f(acc), v_set1(x_scale)), v_load_f32(scale));
}
