// CUDA: candidates, packing, rendering and launch shape of dense GEMMs for sm_80 and sm_90a.
//
// Why here: a device is a target row, templates and a loader arm (runtime/cuda.h); the Problem, the Candidate, the cache and
// the toolchain are those of the CPU.
//
//   std::vector<Candidate> all = cuda_candidates(problem, Isa::sm_80);
//   QCG_TRY(source, render_gemm_cuda(problem, all[0], "qcg_kernel_0"));
//   job = {.language = Language::cuda, .sources = {{"kernel.cu", source}}, .headers = cuda_headers(), …};
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
#include "cache/toolchain/toolchain.h"
#include "codegen/gemm/problem.h"

namespace qcg {

std::span<const Microkernel> cuda_microkernel_table();

// PackedLayout::kind of every CUDA problem: its bytes do not depend on the candidate's tile.
inline constexpr std::string_view kCudaRows = "rows8";

// What the template lacks for this problem, with the remedy.
Status check_cuda_support(const Problem& problem);

// Best guess first; empty if no row serves the problem on this ISA.
std::vector<Candidate> cuda_candidates(const Problem& problem, Isa isa, int64_t m_max = INT64_MAX);

// The weights: for each output, for each of its segments, [n][K rounded up to 8] row-major, then the biases in f32, every
// piece at a multiple of 256 bytes. Errors as pack_weights.
int64_t packed_bytes_cuda(const Problem& problem);
Status pack_weights_cuda(const Problem& problem, const std::vector<SegmentTensors>& tensors, std::span<std::byte> out);

// A whole translation unit with `extern "C" __global__ void <symbol>(Args)`; Args are the qcg_args in problem.h's order and m.
// Errors: Unsupported names what the template lacks.
Result<std::string> render_gemm_cuda(const Problem& problem, const Candidate& candidate, std::string_view symbol);

// device.cuh and scalar_math.cuh, which every kernel includes.
std::vector<SourceFile> cuda_headers();
// Architecture, language standard, no contraction of what the source does not contract.
std::vector<std::string> cuda_flags(const Toolchain& toolchain, Isa isa);

struct CudaLaunch {
  int threads = 0;
  int rows = 0;          // of one block: grid.x = ceil(m / rows)
  int column_tiles = 0;  // grid.y
  int shared_bytes = 0;  // dynamic
};
CudaLaunch cuda_launch(const Problem& problem, const Candidate& candidate);

// The CUDA expression that computes `expr` on one f32 with templates/cuda/scalar_math.cuh; print_expr's twin (epilogue.cpp).
std::string print_expr_cuda(const Expr& expr, const std::vector<std::string>& acc_names,
                            const std::vector<std::string>& in_names);

}  // namespace qcg
