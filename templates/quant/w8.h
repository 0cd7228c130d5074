// w8, weight-only int8 per channel: y = scale[n] * sum_k x[k] * (w[k] - zero[n]). The kernel sums the integers (zero points
// are subtracted in registers: exact, where correcting the sum afterwards would cancel); the scale comes here, once.
#pragma once
QCG_INLINE vf dequant_w8(vf acc, const float* scale) { return v_mul(acc, v_load_f32(scale)); }
