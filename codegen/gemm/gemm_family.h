// The GEMM as a kernel family (codegen/kernel/family.h): its problems are gemm/problem.h's.
//
// Why here: gemm/problem.h is for those who need no family.
//
//   KernelProblem problem(kGemmFamily, Problem{…});
#pragma once

#include "codegen/gemm/problem.h"
#include "codegen/kernel/family.h"

namespace qcg {

extern const KernelFamily kGemmFamily;

}  // namespace qcg
