// GemmDevice: where a GEMM's layout, candidates, packing and source come from on one device.
//
// Why here: gemm/ writes kernels for the CPU, cuda/ those for NVIDIA's and AMD's devices, and neither knows the other's
// schedules. Whoever has a target asks here.
//
//   const GemmDevice& device = gemm_device(plan.target.device);
//   for (const Candidate& c : device.candidates(problem, plan.target, 1, 1)) device.render(problem, c, symbol);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/candidate.h"
#include "codegen/kernel/launch.h"
#include "codegen/kernel/target.h"

namespace qcg {

struct GemmDevice {
  Device device;
  std::span<const Microkernel> (*microkernels)();
  Status (*check)(const Problem& problem);  // what no candidate of the device can do, with the remedy
  PackedLayout (*layout)(const Problem& problem, const Target& target);
  int64_t (*packed_bytes)(const Problem& problem, const PackedLayout& layout);
  Status (*pack)(const Problem& problem, const PackedLayout& layout, const std::vector<SegmentTensors>& tensors,
                 std::span<std::byte> out);
  // Best guess first; candidates(…)[0] is what --tune=off builds. All share the layout; empty: none serves the problem.
  std::vector<Candidate> (*candidates)(const Problem& problem, const Target& target, int64_t m_min, int64_t m_max);
  Result<std::string> (*render)(const Problem& problem, const Candidate& candidate, std::string_view symbol);
  CudaLaunch (*launch)(const Problem& problem, const Candidate& candidate);
};
std::span<const GemmDevice> gemm_devices();
const GemmDevice& gemm_device(Device device);

}  // namespace qcg
