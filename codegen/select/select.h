// The first elements of rows in ascending or descending order, and where they stood: sort, topk, argmax, argmin.
// Problem, renderer and family.
//
// Why here: an order needs whole rows at once and gives positions, which no reduction does.
//
//   SelectProblem p{DType::f32, .descending = true, .values = true, .positions = true};
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"

namespace qcg {

// Of rows [rows, n] the first k in order, [rows, k], row-major. Of equal elements the one that stood first comes first.
// NaN is greater than all numbers; with `nan_first` it comes first in either order.
// args: x, then the values and the positions (i64) that are wanted. params: rows, n, k.
struct SelectProblem {
  DType dtype = DType::f32;
  bool descending = false, nan_first = false;
  bool values = true, positions = true;
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_select(const SelectProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch select_launch(const SelectProblem& problem);
extern const KernelFamily kSelectFamily;

}  // namespace qcg
