// Row programs: norms, softmax, quantization of rows. Problem, renderer and family.
//
// Why here: a reduction, what is read before it and what is written behind it are one kernel, whose rows stay in the
// nearest cache between the passes over them.
//
//   RowsProblem p{…, program = softmax};   render_rows(p, isa, "qcg_kernel_3")
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/family.h"
#include "graph/ir/row_program.h"

namespace qcg {

// Rows along the last of `rank` axes. args: operands, outputs. params: extents[rank], then for every operand and every
// output strides[rank] (elements; 0 = broadcast). The last axis has stride 1 in outputs of elements and 0 in those of
// one value per row.
struct RowsProblem {
  int rank = 2;
  std::vector<DType> operands;
  std::vector<int> operand_inner_stride;  // 0, 1, or -1 = any (from params)
  std::vector<DType> outputs;             // of program.stores
  RowProgram program;                     // per_row is set
  std::string comment;
  std::string signature() const;
  std::string label() const;    // for people: "amax·sum"
  std::string formula() const;  // "amax(in0); exp(sub(in0, acc0)); …"
};
Result<std::string> render_rows(const RowsProblem& problem, Isa isa, std::string_view symbol);
CudaLaunch rows_launch(const RowsProblem& problem);
extern const KernelFamily kRowsFamily;

}  // namespace qcg
