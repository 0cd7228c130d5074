// Whether a kernel is right at given sizes, for the families that have one kernel per problem.
//
// Why here: a family says what single elements must be; which are looked at, and that nothing else was written, is the
// same for all of them. GEMMs, whose weights are constants, have an oracle of their own (gemm/kernel_oracle.h).
//
//   OracleReport r = check_kernel_at(pool, *kernel, problem, sizes, seed);
//   if (!r.ok) log(r.reason);           // "error 0.25 > 0.002 at output 0 [3, 17] of [5, 33]"
#pragma once

#include <functional>

#include "codegen/check/call_memory.h"
#include "codegen/check/expected.h"
#include "codegen/kernel/family.h"
#include "runtime/kernel_runner.h"

namespace qcg {

// Small outputs are looked at everywhere, larger ones at some rows, at both edges and between.
OracleReport check_kernel_at(ThreadPool& pool, const qcg_kernel& kernel, const KernelProblem& problem,
                             const CallSizes& sizes, uint64_t seed);

// The same of whatever `run` does with the call, on a device for example. Error of `run`: it becomes the reason.
OracleReport check_call_at(const std::function<Status(CallMemory&)>& run, const KernelProblem& problem,
                           const CallSizes& sizes, uint64_t seed);

}  // namespace qcg
