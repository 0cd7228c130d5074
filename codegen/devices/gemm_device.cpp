#include "codegen/devices/gemm_device.h"

#include <algorithm>

#include "codegen/cuda/cuda.h"
#include "codegen/gemm/pack.h"
#include "codegen/gemm/render.h"
#include "codegen/gemm/schedules.h"

namespace qcg {

namespace {

// A device's own schedules as candidates, and back.
template <class S, std::vector<S> (*Schedules)(const Problem&, const Target&, int64_t m_min, int64_t m_max)>
std::vector<Candidate> candidates(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max) {
  std::vector<Candidate> out;
  for (S& schedule : Schedules(problem, target, m_min, m_max)) {
    std::string kernel = kernel_name(problem, schedule), description = schedule.describe();
    out.emplace_back(std::move(kernel), std::move(description), std::move(schedule));
  }
  return out;
}
template <class S, Result<std::string> (*Render)(const Problem&, const S&, std::string_view symbol)>
Result<std::string> render(const Problem& problem, const Candidate& candidate, std::string_view symbol) {
  return Render(problem, candidate.schedule<S>(), symbol);
}

constexpr GemmDevice kDevices[] = {
    {Device::cpu, microkernel_table, [](const Problem&) { return Status(); }, layout_for, packed_bytes, pack_weights,
     candidates<GemmSchedule, gemm_schedules>, render<GemmSchedule, render_gemm>,
     [](const Problem&, const Candidate&) { return CudaLaunch(); }},
    {Device::cuda, device_microkernels<Device::cuda>,
     [](const Problem& p) { return check_cuda_support(p, Device::cuda); }, layout_for_cuda, packed_bytes_cuda,
     pack_weights_cuda, candidates<CudaSchedule, cuda_schedules>, render<CudaSchedule, render_gemm_cuda>,
     [](const Problem& p, const Candidate& c) { return cuda_launch(p, c.schedule<CudaSchedule>()); }},
    {Device::hip, device_microkernels<Device::hip>, [](const Problem& p) { return check_cuda_support(p, Device::hip); },
     layout_for_cuda, packed_bytes_cuda, pack_weights_cuda, candidates<CudaSchedule, cuda_schedules>,
     render<CudaSchedule, render_gemm_cuda>,
     [](const Problem& p, const Candidate& c) { return cuda_launch(p, c.schedule<CudaSchedule>()); }},
};

}  // namespace

std::span<const GemmDevice> gemm_devices() { return kDevices; }

const GemmDevice& gemm_device(Device device) {
  return *std::find_if(std::begin(kDevices), std::end(kDevices),
                       [&](const GemmDevice& row) { return row.device == device; });
}

}  // namespace qcg
