// References: vendor kernels that compute a problem, timed beside our candidates. Never the oracle.
//
// Why here: the log says by how much they win or lose; a vendor is optional at build and at run time.
//
//   for (Reference& r : references_for(problem, tensors, inputs, threads)) time(r.run);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/kernel_oracle.h"
#include "codegen/problem.h"

namespace qcg {

struct Reference {
  std::string name;            // "oneDNN 2.6.3 bf16 matmul + silu": says what is and is not included
  std::function<void()> run;   // one execution on the next copy of the weights
};

// Empty where no vendor library is present or none has the scheme. Weights are reordered to the vendor's layout here and
// copied until they fill `cold_bytes`. Call it in the process that runs them: a vendor may start threads.
std::vector<Reference> references_for(const Problem& problem, const std::vector<SegmentTensors>& tensors,
                                      const KernelInputs& inputs, int threads, int64_t cold_bytes);

// "oneDNN 2.6.3" or why there is none: for `doctor`.
struct VendorStatus {
  bool found = false;
  std::string detail, remedy;
};
VendorStatus onednn_status();

}  // namespace qcg
