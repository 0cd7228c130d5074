// References: vendor kernels that compute a problem, timed beside our candidates. Never the oracle.
//
// Why here: the log says by how much they win or lose; a vendor is optional at build and at run time.
//
//   for (Reference& r : references_for(problem, tensors, inputs, threads, cold_bytes)) time(r.run);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/gemm/kernel_oracle.h"
#include "codegen/gemm/problem.h"

namespace qcg {

struct Reference {
  std::string name;           // "oneDNN 2.6.3 bf16 matmul + swish": says what is and is not included
  std::function<void()> run;  // one execution on the next copy of the weights
};

// Empty where no vendor library is present or none has the scheme; a vendor's result that is far from ours is not
// listed. Weights are reordered to the vendor's layout here and copied until they fill `cold_bytes`. Call it in the
// process that runs them and in no other: a vendor starts threads, and they do not survive a fork.
std::vector<Reference> references_for(const Problem& problem, const std::vector<SegmentTensors>& tensors,
                                      const KernelInputs& inputs, int threads, int64_t cold_bytes);

}  // namespace qcg
