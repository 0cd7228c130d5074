// CUDA: candidates, packing, rendering and launch shape of dense GEMMs for sm_80 and sm_90a.
//
// Why here: a device is a target row, templates and a loader arm (runtime/cuda.h); the Problem and the Candidate are
// those of the CPU.
//
//   std::vector<Candidate> all = cuda_candidates(problem, {Device::cuda, Isa::sm_80}, 1, 1);
//   QCG_TRY(source, render_gemm_cuda(problem, all[0], "qcg_kernel_0"));
//   job = {.language = Language::cuda, .sources = {{"kernel.cu", source}}, .headers = support_headers(isa), …};
//   CudaLaunch launch = cuda_launch(problem, all[0]);   // grid (ceil(m / launch.rows), launch.column_tiles)
//
// How a Candidate reads on this device: mr x layout.nr is the tile of one block, kc the depth of one stage in shared
// memory, prefetch_bytes the weights in flight, so the number of stages is 1 + prefetch_bytes / (nr * kc * 2).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/gemm/candidates.h"
#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/launch.h"
#include "codegen/kernel/target.h"

namespace qcg {

std::span<const Microkernel> cuda_microkernel_table();

// Of every problem: its bytes do not depend on the candidate's tile.
PackedLayout layout_for_cuda(const Problem& problem, const Target& target);

// What the template lacks for this problem, with the remedy.
Status check_cuda_support(const Problem& problem);

// Best guess first; empty if no row serves the problem on the target.
std::vector<Candidate> cuda_candidates(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max);

// The weights: for each output, for each of its segments, [n][K rounded up to 8] row-major, then the biases in f32,
// every piece at a multiple of 256 bytes. Errors as pack_weights.
int64_t packed_bytes_cuda(const Problem& problem, const PackedLayout& layout);
Status pack_weights_cuda(const Problem& problem, const PackedLayout& layout, const std::vector<SegmentTensors>& tensors,
                         std::span<std::byte> out);

// A whole translation unit with `extern "C" __global__ void <symbol>(Args)`; Args are the qcg_args in problem.h's order
// and m. Errors: Unsupported names what the template lacks.
Result<std::string> render_gemm_cuda(const Problem& problem, const Candidate& candidate, std::string_view symbol);

CudaLaunch cuda_launch(const Problem& problem, const Candidate& candidate);

}  // namespace qcg
