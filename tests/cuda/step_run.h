// Kernels that are no GEMMs in the executor: rendered from a plan, compiled to PTX, called at the sizes of its steps.
//
// Why here: the tests of what they compute and of what they ask of memory begin so.
//
//   const auto kernels = load_sources(*tool, sources_of(plan, problems_on_device(plan)));       // of every family that has a kernel for devices
//   check_call_at([&](CallMemory& call) { return execute_call(kernels[0], launch, call, false, nullptr); }, …);
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "codegen/batch.h"
#include "codegen/check/family_oracle.h"
#include "codegen/plan/plan.h"
#include "tests/cuda/compile_sources.h"

namespace qcg::test {

// By number of a problem in the plan.
inline std::vector<int> problems_on_device(const Plan& plan) {
  std::vector<int> out;
  for (int p = 0; p < static_cast<int>(plan.problems.size()); ++p)
    if (plan.problems[static_cast<size_t>(p)].family().launch) out.push_back(p);
  return out;
}

inline std::vector<KernelSource> sources_of(const Plan& plan, const std::vector<int>& problems) {
  Batch batch;
  std::vector<KernelSource> out;
  for (const int p : problems) {
    auto at = add_other(batch, plan.problems[static_cast<size_t>(p)], plan.target);
    REQUIRE_MESSAGE(at.ok(), at.error().to_string());
    out.push_back(batch.sources[*at]);
  }
  return out;
}

// Runs a call in the executor: each argument is a buffer of its own, and what was written comes back. `shift`: whether
// arguments miss an alignment of 256 bytes by an element. A position that is refused is an error.
inline Status execute_call(const ptx::LoadedKernel& kernel, const CudaLaunch& launch, CallMemory& call, bool shift,
                           ptx::Counters* counters) {
  ptx::GlobalMemory memory = kernel.memory();
  const qcg_call host = call.call();
  const size_t first = memory.buffers().size();
  std::vector<qcg_arg> args;
  for (size_t i = 0; i < call.args(); ++i) {
    const auto* from = static_cast<const uint8_t*>(host.args[i].data) - call.before(i);
    const bool output = i >= call.first_output();
    const ptx::Buffer& buffer =
        memory.add("argument " + std::to_string(i), std::vector<uint8_t>(from, from + call.span_of(i)),
                   output ? ptx::Access::in_out : ptx::Access::input, shift ? dtype_bytes(call.dtype(i)) : 0);
    args.push_back(
        {reinterpret_cast<void*>(buffer.address + static_cast<uint64_t>(call.before(i))), host.args[i].stride});
  }
  int64_t refused = INT64_MAX;
  const auto* fault = reinterpret_cast<const uint8_t*>(&refused);
  const uint64_t fault_at = memory.add("fault", {fault, fault + 8}, ptx::Access::in_out).address;
  const std::vector<int64_t>& params = call.sizes().params;
  std::vector<uint8_t> block(args.size() * sizeof(qcg_arg) + params.size() * 8 + 8);
  std::memcpy(block.data(), args.data(), args.size() * sizeof(qcg_arg));
  std::memcpy(block.data() + args.size() * sizeof(qcg_arg), params.data(), params.size() * 8);
  std::memcpy(block.data() + block.size() - 8, &fault_at, 8);
  if (static_cast<int64_t>(block.size()) < kernel.parameter_bytes())
    return Error::internal(kernel.name(), "it has more parameters than it is given");
  block.resize(static_cast<size_t>(kernel.parameter_bytes()));
  const auto blocks = static_cast<uint32_t>(launch.blocks(params));
  if (blocks == 0) return {};
  const ptx::Outcome outcome = kernel.run({.grid = {blocks, static_cast<uint32_t>(launch.column_tiles), 1},
                                           .block = {static_cast<uint32_t>(launch.threads), 1, 1},
                                           .dynamic_shared = static_cast<uint32_t>(launch.shared_bytes)},
                                          memory, {block});
  if (counters) *counters = outcome.counters;
  if (!outcome.ok()) return Error::internal(kernel.name(), outcome.text());
  std::memcpy(&refused, memory.buffers()[first + call.args()].bytes.data(), 8);
  for (size_t i = call.first_output(); i < call.args(); ++i) {
    auto* const to = static_cast<uint8_t*>(host.args[i].data) - call.before(i);
    const ptx::Buffer& buffer = memory.buffers()[first + i];
    std::copy(buffer.bytes.begin(), buffer.bytes.end(), to);
  }
  if (refused != INT64_MAX) return Error::internal(kernel.name(), "refuses position " + std::to_string(refused));
  return {};
}

}  // namespace qcg::test
