// HIP kernels that are no GEMMs: each family against its oracle, executed by 64 lanes on a CPU; ones that were made wrong.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "codegen/tune/step_trial.h"
#include "runtime/abi.h"
#include "tests/cuda/step_run.h"
#include "tests/hip/emulator.h"
#include "tests/tune/family_graph.h"

using namespace qcg;
using namespace qcg::test;

namespace {

constexpr uint64_t kSeed = 7;

Status emulate_call(const EmulatedKernel& kernel, const CudaLaunch& launch, CallMemory& call, bool shift) {
  DeviceMemory memory;
  const qcg_call host = call.call();
  std::vector<qcg_arg> args;
  for (size_t i = 0; i < call.args(); ++i) {
    const auto* from = static_cast<const std::byte*>(host.args[i].data) - call.before(i);
    std::byte* const at =
        memory.add({from, static_cast<size_t>(call.span_of(i))}, shift ? dtype_bytes(call.dtype(i)) : 0);
    args.push_back({at + call.before(i), host.args[i].stride});
  }
  const int64_t none = INT64_MAX;
  const std::byte* const fault = memory.add(std::as_bytes(std::span(&none, 1)));
  const std::vector<int64_t>& params = call.sizes().params;
  std::vector<std::byte> parameter(args.size() * sizeof(qcg_arg) + params.size() * 8 + 8);
  std::memcpy(parameter.data(), args.data(), args.size() * sizeof(qcg_arg));
  std::memcpy(parameter.data() + args.size() * sizeof(qcg_arg), params.data(), params.size() * 8);
  std::memcpy(parameter.data() + parameter.size() - 8, &fault, 8);
  QCG_CHECK(kernel.run(static_cast<uint32_t>(launch.blocks(params)), launch, parameter, memory));
  if (std::memcmp(fault, &none, 8) != 0) return Error::internal("kernel", "refuses a position");
  for (size_t i = call.first_output(); i < call.args(); ++i) {
    const std::span<std::byte> bytes = memory.bytes(i);
    std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(host.args[i].data) - call.before(i));
  }
  return {};
}

std::string what_is_wrong(const Plan& plan, int problem, const KernelSource& source, const EmulatedKernel& kernel) {
  BuiltKernel built;
  built.source = source;
  const StepTrial trial = step_trial(plan, problem, built, {}, TuneMode::off);
  bool shift = true;
  for (const CallSizes& sizes : trial.checks) {
    const auto run = [&](CallMemory& call) { return emulate_call(kernel, source.launch, call, shift); };
    const OracleReport report = check_call_at(run, *trial.problem, sizes, kSeed);
    if (!report.ok) return report.reason;
    shift = !shift;
  }
  return "";
}

}  // namespace

TEST_CASE("hip: kernels of every family are right at awkward sizes, and wrong ones are found") {
  const Plan plan = plan_families({Device::hip, Isa::gfx90a});
  const std::vector<int> problems = problems_on_device(plan);
  const std::vector<KernelSource> sources = sources_of(plan, problems);
  const std::vector<EmulatedKernel> kernels = emulate(sources);
  for (size_t i = 0; i < problems.size(); ++i) {
    const KernelProblem& problem = plan.problems[static_cast<size_t>(problems[i])];
    INFO(problem.family().name, " ", problem.family().formula(problem));
    CHECK(what_is_wrong(plan, problems[i], sources[i], kernels[i]) == "");
  }
  struct Seeded {
    std::string_view family;
    HeaderChange change;
  };
  const Seeded cases[] = {
      {"reduce", {"rows.cuh", "distance = 16", "distance = 8"}},
      {"rows", {"amdgcn.cuh", "^ (unsigned)distance", "^ 0"}},
      {"matmul", {"kernel", "__syncthreads();", ""}},
  };
  for (const Seeded& seeded : cases) {
    INFO(seeded.family, ": ", seeded.change.from);
    const auto found = std::ranges::find_if(
        problems, [&](int p) { return plan.problems[static_cast<size_t>(p)].family().name == seeded.family; });
    const size_t i = static_cast<size_t>(found - problems.begin());
    REQUIRE(i < problems.size());
    CHECK(what_is_wrong(plan, problems[i], sources[i], emulate({sources[i]}, seeded.change)[0]) != "");
  }
}
