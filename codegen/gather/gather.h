// Look-ups at positions known only at run time. Problem, renderer and family.
//
// Why here: embeddings, index, index_select, gather and take differ only in strides.
//
//   GatherProblem p{2, DType::f32, {{DType::i64, false}}, /*rows=*/true};   // y [n, d] = table [v, d] at ids [n]
//   render_gather(p, isa, "qcg_kernel_3")
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"
#include "codegen/positions/positions.h"

namespace qcg {

// y[i] = table[i · strides + sum over ids j of ids_j[i] · step_j], for i in an output of `rank` axes.
// args: table, ids, y. params: PositionParams.
struct GatherProblem {
  int rank = 1;
  DType dtype = DType::f32;
  std::vector<Positions> ids;
  bool rows = false;  // no ids change along the last axis: their strides there are 0
  std::string comment;
  std::string signature() const;
};
Result<std::string> render_gather(const GatherProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch gather_launch(const GatherProblem& problem);
extern const KernelFamily kGatherFamily;

}  // namespace qcg
