// The model of a device: how long a schedule takes, from what is known without running it.
//
// Why here: where no device is at hand, this orders the candidates; the log says so. It ranks, it does not predict.
//
//   std::sort by modeled_seconds(problem, layout, schedule, Isa::sm_80, m)
//
// Per stage, a multiprocessor takes the longest of: tensor cores, issue of instructions, reads of shared memory, its share
// of L2, and latency over what is in flight; all of it at least what the bytes take from global memory.
#pragma once

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/layout.h"

namespace qcg {

double modeled_seconds(const Problem& problem, const CudaLayout& layout, const CudaSchedule& schedule, Isa isa,
                       int64_t m);

}  // namespace qcg
