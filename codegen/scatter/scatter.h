// Writes into a tensor at positions known only at run time. Problem, renderer and family.
//
// Why here: index_copy, index_put and scatter differ only in strides. Only what they write moves: a cache of 4096 rows
// that gets one is not read.
//
//   ScatterProblem p{2, 0, true, DType::f32, {{DType::i64, false}}, {1}};   // y [v, d] at ids [n] = x [n, d]
//   render_scatter(p, isa, "qcg_kernel_3")
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"
#include "codegen/positions/positions.h"

namespace qcg {

// y[i · strides + sum over ids j of ids_j[i] · step_j] = x[i], for i in `rank` axes; the rest of y stays as it is.
// Of equal positions the last in row-major order stays; or x is combined with what is there, in this order.
// All positions are checked before anything is written.
// args: x, ids, y. params: PositionParams.
struct ScatterProblem {
  int rank = 1;
  int free = 0;              // so many of the first axes: no position changes along them, but y does
  bool rows = false;         // so is the last axis
  std::string_view combine;  // "sum", "prod", "amax", "amin" of f32, f64 and integers, which wrap; "": the last stays
  DType dtype = DType::f32;
  std::vector<Positions> ids;
  std::vector<int> moves;  // the axes along which y moves: its strides along others are 0
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_scatter(const ScatterProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch scatter_launch(const ScatterProblem& problem);
extern const KernelFamily kScatterFamily;

}  // namespace qcg
