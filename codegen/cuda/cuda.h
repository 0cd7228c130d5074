// CUDA and HIP: schedules, packing, rendering and launch shape of GEMMs for sm_80, sm_90a and gfx90a.
//
// Why here: a device is a target row, templates and a loader arm (runtime/cuda.h); the Problem is that of the CPU.
// docs/cuda.md draws the kernels. HIP has the same templates and layout; what its device differs in is a header.
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

inline constexpr int kCopyingThreads = 128;  // of a wgmma kernel

// A block computes bm rows x bn columns of an output, bk of K at a time.
struct CudaSchedule {
  const Microkernel* microkernel = nullptr;
  int bm = 0, bn = 0, bk = 0;
  int warps_m = 1, warps_n = 1;  // that share the tile
  int warps_k = 1;               // that share K, of a decode kernel
  int stages = 1;                // of shared memory, of a tile
  bool is_decode() const { return warps_k > 1; }
  bool is_fma() const { return microkernel->compute == "fma"; }
  bool is_wgmma() const { return microkernel->compute == "wgmma"; }
  int lanes() const { return isa_info(microkernel->isa).device == Device::hip ? 64 : 32; }  // of a warp
  int multiplying_threads() const { return warps_m * warps_n * warps_k * lanes(); }
  int threads() const { return multiplying_threads() + (is_wgmma() ? kCopyingThreads : 0); }
  std::string describe() const;  // "sm80_mma_tile 128x128x64 stages=3"
};

std::span<const Microkernel> cuda_microkernel_table();  // of both devices
template <Device D>
std::span<const Microkernel> device_microkernels();

// Of every problem: its bytes do not depend on the tile.
PackedLayout layout_for_cuda(const Problem& problem, const Target& target);

// What no kernel of the device can do for this problem, with the remedy.
Status check_cuda_support(const Problem& problem, Device device);

// Whether a wgmma kernel copies its weights in bulk, 16 columns at a time.
bool copies_in_bulk(const CudaSchedule& schedule);

// Best first, by the model (model.h); empty if no row serves the problem on the target.
std::vector<CudaSchedule> cuda_schedules(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max);
std::string kernel_name(const Problem& problem, const CudaSchedule& schedule);

// The weights as layout.h has them. Errors as pack_weights.
int64_t packed_bytes_cuda(const Problem& problem, const PackedLayout& layout);
Status pack_weights_cuda(const Problem& problem, const PackedLayout& layout, const std::vector<SegmentTensors>& tensors,
                         std::span<std::byte> out);

// A whole translation unit with `extern "C" __global__ void <symbol>(Args)`; Args are the qcg_args in problem.h's order
// and m. Errors: Unsupported names what no kernel can do.
Result<std::string> render_gemm_cuda(const Problem& problem, const CudaSchedule& schedule, std::string_view symbol);

CudaLaunch cuda_launch(const Problem& problem, const CudaSchedule& schedule);

// Whether an output is stored as the exact int32 sum that it is.
bool is_exact_sum(const Problem& problem, const Output& output);

// The most segments that one output reads.
int most_segments(const Problem& problem);

}  // namespace qcg
