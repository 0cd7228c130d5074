// The tuner on a device: kernels are checked and timed through the stand-in for the driver, executed from their PTX.
#include "codegen/tune/tune.h"

#include "codegen/devices/gemm_device.h"
#include "codegen/select/select.h"
#include "codegen/tune/device_trial.h"
#include "codegen/tune/step_trial.h"
#include "tests/cuda/gemm_case.h"
#include "tests/cuda/step_run.h"
#include "tests/cuda_program/executed_device.h"
#include "tests/tune/family_graph.h"

using namespace qcg;
using namespace qcg::test;

namespace {

constexpr Target kTarget{Device::cuda, Isa::sm_80};

// Kernels with their cubins, which the device executes from PTX of the same sources.
std::vector<BuiltKernel> built_on(ExecutedDevice& device, const Toolchain& tool,
                                  const std::vector<KernelSource>& sources) {
  const std::vector<CompileResult> cubins = compile_sources(tool, sources, OutputKind::cubin),
                                   texts = compile_sources(tool, sources, OutputKind::assembly);
  std::vector<BuiltKernel> out;
  for (size_t i = 0; i < sources.size(); ++i) {
    BuiltKernel& kernel = out.emplace_back();
    kernel.source = sources[i];
    kernel.bytes = cubins[i].bytes;
    device.add_module(kernel.bytes, sources[i].source, texts[i].bytes);
  }
  return out;
}

}  // namespace

TEST_CASE("tuning on a device: what is wrong is found, what is right is timed by replays of a graph") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  const Problem problem = plain_problem(Scheme::w8, DType::bf16, DType::i8, {100}, {{40, true, true, "w"}});
  const GemmData data(problem, {.m = 1});
  const GemmDevice& gemm = gemm_device(Device::cuda);
  std::vector<Candidate> candidates = gemm.candidates(problem, kTarget, 1, 16);
  REQUIRE(candidates.size() >= 3);
  candidates.resize(3, candidates[0]);
  std::vector<KernelSource> sources;
  for (const Candidate& c : candidates) {
    auto source = gemm.render(problem, c, "qcg_kernel");
    REQUIRE(source.ok());
    sources.push_back({"kernel", "qcg_kernel", *source, Isa::sm_80, gemm.launch(problem, c)});
  }
  // The second adds its bias twice.
  const std::string from = "+ with.bias0[e]";
  const size_t at = sources[1].source.find(from);
  REQUIRE(at != std::string::npos);
  sources[1].source.replace(at, from.size(), from + " + with.bias0[e]");

  ExecutedDevice device(*tool);
  const std::vector<BuiltKernel> built = built_on(device, *tool, sources);
  const FakeLibrary library(device);
  TuneOptions options;
  options.budget_s = 0.2;
  const Bucket bucket{1, 4, 4};
  auto result = tune(problem, data.tensors, data.packed, bucket, candidates, built, options);
  REQUIRE_MESSAGE(result.ok(), result.error().to_string());
  CHECK(result->records[1].status == TrialStatus::wrong);
  CHECK(result->records[1].reason.find("error") != std::string::npos);
  REQUIRE(result->winner >= 0);
  CHECK(result->winner != 1);
  const TuneRecord& won = result->records[static_cast<size_t>(result->winner)];
  CHECK(won.status == TrialStatus::won);
  CHECK(won.median_s > 0);
  CHECK(won.max_error <= won.error_bound);
  CHECK(won.machine.find("executor of PTX") != std::string::npos);

  // A driver that fails is an error that quotes it, not a verdict on a kernel.
  for (const char* entry :
       {"cuStreamCreate", "cuGraphInstantiateWithFlags", "cuStreamBeginCapture_v2", "cuEventCreate"}) {
    INFO(entry);
    device.fails = entry;
    auto failed = tune(problem, data.tensors, data.packed, bucket, candidates, built, options);
    REQUIRE(!failed.ok());
    CHECK(failed.error().to_string().find("the executor's error") != std::string::npos);
  }
  device.fails = "cuMemcpyDtoH_v2";
  auto unread = tune(problem, data.tensors, data.packed, bucket, candidates, built, options);
  REQUIRE(unread.ok());
  CHECK(unread->winner == -1);
}

TEST_CASE("kernels of other families are tried on a device") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  const Plan plan = plan_families(kTarget);
  std::vector<int> problems;
  for (const int p : problems_on_device(plan))
    if (const std::string_view family = plan.problems[static_cast<size_t>(p)].family().name;
        family == "loop" || family == "gather")
      problems.push_back(p);
  REQUIRE(problems.size() >= 2);
  const std::vector<KernelSource> sources = sources_of(plan, problems);
  ExecutedDevice device(*tool);
  const std::vector<BuiltKernel> built = built_on(device, *tool, sources);
  std::vector<StepTrial> trials;
  for (size_t i = 0; i < problems.size(); ++i)
    trials.push_back(step_trial(plan, problems[i], built[i], std::vector<int64_t>{4}, TuneMode::fast));
  const FakeLibrary library(device);
  TuneOptions options;
  auto results = try_steps(trials, options);
  REQUIRE_MESSAGE(results.ok(), results.error().to_string());
  for (const TuneResult& r : *results) {
    CHECK(r.winner == 0);
    for (const TuneRecord& record : r.records) CHECK(record.median_s > 0);
  }
}

TEST_CASE("what a device is, asked in a process of its own") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedDevice device(*tool, Isa::sm_90a);
  const FakeLibrary library(device);
  const DeviceFacts facts = device_facts(Isa::sm_90a);
  CHECK(facts.missing == "");
  CHECK(facts.name == "executor of PTX");
  CHECK(facts.ceilings.read_gbps > 0);
  CHECK(facts.ceilings.peak_gflops_bf16 ==
        doctest::Approx(4 * 1.0 * 4096));  // multiprocessors, GHz, operations a cycle
}
