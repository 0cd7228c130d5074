#include "codegen/devices/gemm_device.h"

#include <algorithm>

#include "codegen/cuda/cuda.h"
#include "codegen/gemm/pack.h"
#include "codegen/gemm/render.h"

namespace qcg {

namespace {

constexpr GemmDevice kDevices[] = {
    {Device::cpu, microkernel_table, [](const Problem&) { return Status(); }, layout_for, packed_bytes, pack_weights,
     candidates, render_gemm, [](const Problem&, const Candidate&) { return CudaLaunch(); }},
    {Device::cuda, cuda_microkernel_table, check_cuda_support, layout_for_cuda, packed_bytes_cuda, pack_weights_cuda,
     cuda_candidates, render_gemm_cuda, cuda_launch},
};

}  // namespace

std::span<const GemmDevice> gemm_devices() { return kDevices; }

const GemmDevice& gemm_device(Device device) {
  return *std::find_if(std::begin(kDevices), std::end(kDevices),
                       [&](const GemmDevice& row) { return row.device == device; });
}

}  // namespace qcg
