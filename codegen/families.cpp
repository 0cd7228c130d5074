#include "codegen/families.h"

#include "codegen/attention/attention.h"
#include "codegen/bags/bags.h"
#include "codegen/gather/gather.h"
#include "codegen/gemm/gemm_family.h"
#include "codegen/loops/loops.h"
#include "codegen/matmul/matmul.h"
#include "codegen/quantize_rows/quantize_rows.h"
#include "codegen/reduce/reduce.h"
#include "codegen/rows/rows.h"
#include "codegen/scan/scan.h"
#include "codegen/scatter/scatter.h"
#include "codegen/select/select.h"
#include "codegen/windows/windows.h"

namespace qcg {

namespace {

constexpr const KernelFamily* kFamilies[] = {&kGemmFamily,   &kLoopFamily,   &kQuantizeRowsFamily, &kReduceFamily,
                                             &kMatmulFamily, &kScanFamily,   &kSelectFamily,       &kGatherFamily,
                                             &kBagsFamily,   &kWindowFamily, &kScatterFamily,      &kAttentionFamily,
                                             &kRowsFamily};

}  // namespace

std::span<const KernelFamily* const> kernel_families() { return kFamilies; }

std::string problem_signature(const KernelProblem& problem) {
  return std::string(problem.family().name) + "|" + problem.family().signature(problem);
}

}  // namespace qcg
