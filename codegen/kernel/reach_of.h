// Spellings of a Reach (runtime/reach.h) that kernel families share.
//
// Why here: the runtime reads reaches and needs no dtypes of problems; families spell them.
//
//   return {reach_rows(bytes_of(p.input), p.k), reach_per_row(4)};
#pragma once

#include "base/dtype.h"
#include "runtime/reach.h"

namespace qcg {

inline Reach::Number reach_constant(int64_t value) { return {Reach::Number::constant, value}; }
inline Reach::Number reach_param(size_t index) { return {Reach::Number::param, static_cast<int64_t>(index)}; }
inline constexpr Reach::Number kReachStride{Reach::Number::stride, 0};

// params[0] rows, the argument's stride apart, of `columns` elements of `item` bytes; of one; one row.
inline Reach reach_rows(int64_t item, int64_t columns) {
  return {item, {{reach_param(0), kReachStride}, {reach_constant(columns), reach_constant(1)}}};
}
inline Reach reach_per_row(int64_t item) { return {item, {{reach_param(0), kReachStride}}}; }
inline Reach reach_row(int64_t item, int64_t columns) { return {item, {{reach_constant(columns), reach_constant(1)}}}; }
inline int64_t bytes_of(DType dtype) { return static_cast<int64_t>(dtype_bytes(dtype)); }

}  // namespace qcg
