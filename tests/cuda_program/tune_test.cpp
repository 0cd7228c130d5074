// The tuner on a device: kernels are checked and timed through the stand-in for the driver, executed from their PTX.
#include "codegen/tune/tune.h"

#include "codegen/devices/gemm_device.h"
#include "codegen/gemm/sample_problem.h"
#include "codegen/select/select.h"
#include "codegen/tune/device_reference.h"
#include "codegen/tune/device_trial.h"
#include "codegen/tune/step_trial.h"
#include "tests/cuda/gemm_case.h"
#include "tests/cuda/step_run.h"
#include "tests/cuda_program/executed_device.h"
#include "tests/tune/family_graph.h"
#include "tests/vendor/fake_cublaslt.h"

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

// A stand-in for cuBLASLt on the device's memory, found by the library's name as long as an object lives.
struct DeviceCublasLt {
  FakeCublasLt fake;
  void* library = dlopen((binary_dir() + "/tests/fake/libcublasLt.so.13").c_str(), RTLD_NOW);
  explicit DeviceCublasLt(ExecutedDevice& device) {
    REQUIRE_MESSAGE(library, dlerror());
    fake.host = [&device](void* address) { return device.host(address); };
    reinterpret_cast<void (*)(FakeCublasLt*)>(dlsym(library, "qcg_use_fake_cublaslt"))(&fake);
  }
  ~DeviceCublasLt() { dlclose(library); }
  DeviceCublasLt(const DeviceCublasLt&) = delete;
};

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
  options.references = false;
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

TEST_CASE("cuBLASLt's product stands beside kernels of a device: of the same numbers, by its fastest algorithm") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedDevice device(*tool);
  const FakeLibrary library(device);
  DeviceCublasLt vendor(device);
  const std::pair<SampleScheme, const char*> rows[] = {
      {{Scheme::dense, DType::bf16, DType::bf16}, "bf16"},
      {{Scheme::dense, DType::f16, DType::f16}, "f16"},
      {{Scheme::w8, DType::bf16, DType::i8}, "bf16 (dense)"},
      {{Scheme::w4, DType::f16, DType::i8, 32}, "f16 (dense)"},
      {{Scheme::nf4, DType::bf16, DType::i8, 64}, "bf16 (dense)"},
      {{Scheme::f8, DType::f8e4m3, DType::f8e4m3}, "e4m3 (unscaled)"},
      {{Scheme::f8, DType::f8e5m2, DType::f8e4m3}, "e4m3 (unscaled)"},
      {{Scheme::f8, DType::f8e4m3, DType::f8e5m2}, "e4m3 (unscaled)"},
      {{Scheme::da8w8, DType::i8, DType::i8}, "s8 x s8 to s32 (unscaled)"},
      {{Scheme::da8w8, DType::u8, DType::i8}, "s8 x s8 to s32 (unscaled)"},
      {{Scheme::da8w4, DType::i8, DType::i8, 32}, "s8 x s8 to s32 (unscaled)"},
      {{Scheme::s8s8, DType::i8, DType::i8}, "s8 x s8 to s32"},
  };
  for (const auto& [scheme, name] : rows) {
    CAPTURE(scheme.label());
    const LayerShape shape{.name = "linear", .k = 64, .n = {48, 16, 0}, .plain = true};
    const Problem problem = sample_problem(scheme, shape);
    const auto tensors = sample_tensors(problem, 1);
    const KernelInputs inputs(problem, 3, 7);
    auto trial = DeviceTrial::open(Isa::sm_80);
    REQUIRE(trial.ok());
    const auto reference = DeviceReference::find(problem);
    REQUIRE(reference);
    CHECK(reference->name() == "cuBLASLt 13.2.5 " + std::string(name));
    vendor.fake.products = 0;
    const size_t blocks = device.allocated.size();
    auto clock = reference->clock(*trial, problem, tensors, inputs, 1, 20000);
    REQUIRE_MESSAGE(clock.ok(), clock.error().to_string());
    CHECK(vendor.fake.products >= 6);  // two algorithms, each twice, then those of a graph
    CHECK(device.allocated.size() - blocks >= 3 + 20000 / (64 * 64 * 2));  // copies of weights
    CHECK((*clock)() > 0);

    vendor.fake.wrong = true;
    const auto wrong = reference->clock(*trial, problem, tensors, inputs, 1, 0);
    REQUIRE(!wrong.ok());
    CHECK(wrong.error().message == "its product is not that of the problem");
    vendor.fake.wrong = false;
  }
  CHECK(vendor.fake.refused.empty());
  CHECK(vendor.fake.alive == 0);
}

TEST_CASE("the tuner times cuBLASLt in the same rounds; where it has no product, the record says so") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  const Problem problem = plain_problem(Scheme::w8, DType::bf16, DType::i8, {96}, {{48, false, false, "w"}});
  const GemmData data(problem, {.m = 1});
  const GemmDevice& gemm = gemm_device(Device::cuda);
  const Candidate candidate = gemm.candidates(problem, kTarget, 1, 16)[0];
  auto source = gemm.render(problem, candidate, "qcg_kernel");
  REQUIRE(source.ok());
  ExecutedDevice device(*tool);
  const std::vector<BuiltKernel> built =
      built_on(device, *tool, {{"kernel", "qcg_kernel", *source, Isa::sm_80, gemm.launch(problem, candidate)}});
  const FakeLibrary library(device);
  DeviceCublasLt vendor(device);
  TuneOptions options;
  options.budget_s = 0.2;
  const auto reference_of = [&] {
    auto result = tune(problem, data.tensors, data.packed, {1, 4, 4}, {candidate}, built, options);
    REQUIRE_MESSAGE(result.ok(), result.error().to_string());
    REQUIRE(result->winner == 0);
    CHECK(result->records[0].median_s > 0);
    REQUIRE(result->records.size() == 2);
    CHECK(result->records[1].status == TrialStatus::reference);
    return result->records[1];
  };
  const TuneRecord timed = reference_of();
  CHECK(timed.kernel == "cuBLASLt 13.2.5 bf16 (dense)");
  CHECK(timed.median_s > 0);
  CHECK(timed.reason.find("than the winner") != std::string::npos);

  vendor.fake.offered = 0;
  const TuneRecord none = reference_of();
  CHECK(none.kernel == timed.kernel);
  CHECK(none.median_s == 0);
  CHECK(none.reason.find("algorithms for bf16") == 0);

  vendor.fake.offered = 3;
  vendor.fake.host = [](void*) -> std::byte* { std::abort(); };  // it crashes: its loss
  CHECK(reference_of().reason.substr(0, 7) == "crashed");

  options.references = false;
  auto alone = tune(problem, data.tensors, data.packed, {1, 4, 4}, {candidate}, built, options);
  REQUIRE(alone.ok());
  CHECK(alone->records.size() == 1);
}
