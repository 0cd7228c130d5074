// s8s8: y = sum_k x w, exact int32 (corrections for u8 activations and unsigned storage as in da8w8.h, which is where they are).
#pragma once
#include "da8w8.h"
QCG_INLINE vf dequant_s8s8(vi acc) { return vi_to_f(acc); }
