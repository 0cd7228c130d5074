// The GEMM as a kernel family (codegen/kernel/family.h): its problems are gemm/problem.h's.
#pragma once

#include "codegen/gemm/problem.h"
#include "codegen/kernel/family.h"

namespace qcg {

extern const KernelFamily kGemmFamily;

}  // namespace qcg
