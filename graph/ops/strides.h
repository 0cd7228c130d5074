// Strided: where the elements of a view lie, as arithmetic on shapes, strides and an offset.
//
// Why here: the planner turns views into strides, and parameters are seen through views without their bytes; each op
// says once what it does to strides. Reshapes are apart: whether strides can say them depends on the strides.
//
//   aten.flip(%x: f32[s0, 8], dims = [1])     strides [8, 1] from 0   ->   strides [8, -1] from 7
#pragma once

#include <string_view>
#include <vector>

#include "graph/ops/infer.h"

namespace qcg {

struct Strided {
  Shape shape;
  std::vector<Dim> strides;  // in elements, by axis; negative where an axis is walked backwards
  Dim offset;
};

// The part of `in` along argument `dim` that begins at argument `start`: every `step`-th element, `length` of them.
Result<Strided> sliced(const OpArgs& a, Strided in, std::string_view start, const Dim& step, const Dim& length);

}  // namespace qcg
