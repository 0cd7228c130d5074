// w4, weight-only int4 per group, exact mode: y = sum_g scale[g, n] * sum_{k in g} x[k] * (w[k] - zero[g, n]).
// The inner sum is over exact integers times x; a group costs one FMA per accumulator.
#pragma once
QCG_INLINE vf add_group_w4(vf total, vf acc, const float* scale) { return v_fma(acc, v_load_f32(scale), total); }
QCG_INLINE vf dequant_w4(vf acc) { return acc; }
