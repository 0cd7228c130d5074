// CUDA: schedules, packing, rendering and launch shape of dense GEMMs for sm_80 and sm_90a.
//
// Why here: a device is a target row, templates and a loader arm (runtime/cuda.h); the Problem is that of the CPU.
//
//   std::vector<CudaSchedule> all = cuda_schedules(problem, {Device::cuda, Isa::sm_80}, 1, 1);
//   QCG_TRY(source, render_gemm_cuda(problem, all[0], "qcg_kernel_0"));
//   job = {.language = Language::cuda, .sources = {{"kernel.cu", source}}, .headers = support_headers(isa), …};
//   CudaLaunch launch = cuda_launch(problem, all[0]);   // grid (ceil(m / launch.rows), launch.column_tiles)
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/launch.h"
#include "codegen/kernel/target.h"

namespace qcg {

// A block computes bm x bn of an output; its warps_m x warps_n warps share the tile. Shared memory holds `stages` stages,
// each bk deep in K.
struct CudaSchedule {
  const Microkernel* microkernel = nullptr;
  int bm = 0, bn = 0, bk = 0;
  int warps_m = 1, warps_n = 1;
  int stages = 2;
  std::string describe() const;  // "sm80_mma 128x128x64 stages=3"
};

std::span<const Microkernel> cuda_microkernel_table();

// Of every problem: its bytes do not depend on the tile.
PackedLayout layout_for_cuda(const Problem& problem, const Target& target);

// What the template lacks for this problem, with the remedy.
Status check_cuda_support(const Problem& problem);

// Best guess first; empty if no row serves the problem on the target.
std::vector<CudaSchedule> cuda_schedules(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max);
std::string kernel_name(const Problem& problem, const CudaSchedule& schedule);

// The weights: for each output, for each of its segments, [n][K rounded up to 8] row-major, then the biases in f32,
// every piece at a multiple of 256 bytes. Errors as pack_weights.
int64_t packed_bytes_cuda(const Problem& problem, const PackedLayout& layout);
Status pack_weights_cuda(const Problem& problem, const PackedLayout& layout, const std::vector<SegmentTensors>& tensors,
                         std::span<std::byte> out);

// A whole translation unit with `extern "C" __global__ void <symbol>(Args)`; Args are the qcg_args in problem.h's order
// and m. Errors: Unsupported names what the template lacks.
Result<std::string> render_gemm_cuda(const Problem& problem, const CudaSchedule& schedule, std::string_view symbol);

CudaLaunch cuda_launch(const Problem& problem, const CudaSchedule& schedule);

}  // namespace qcg
