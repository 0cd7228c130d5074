// The driver arm of the runtime. Without a driver: its error. With one: every kernel on the device.
#include <cstring>
#include <map>
#include <set>

#include "codegen/tune/device_trial.h"
#include "codegen/tune/step_trial.h"
#include "cuda_compiler.h"
#include "device_cubins.h"
#include "gemm_case.h"
#include "runtime/abi.h"
#include "runtime/cuda.h"
#include "step_run.h"
#include "tests/cuda/step_graphs.h"
#include "tests/tune/family_graph.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// A device with what compiles for it, or a message that the test is skipped.
struct Lent {
  std::shared_ptr<CudaDriver> driver;
  std::optional<Toolchain> tool;  // without one, every cubin must be in the folder
  Isa isa = Isa::sm_80;
};
std::optional<Lent> lent_device() {
  auto driver = CudaDriver::load();
  if (!driver.ok()) {
    CHECK(driver.error().code == ErrorCode::Unsupported);
    CHECK(driver.error().message.find("NVIDIA") != std::string::npos);
    CHECK(driver.error().help.find("--target=cpu") != std::string::npos);
    MESSAGE("skipped: ", driver.error().message);
    return {};
  }
  Lent out{*driver, {}, (*driver)->compute_capability() == 90 ? Isa::sm_90a : Isa::sm_80};
  if (auto tool = find_cuda(); tool.ok()) out.tool = *tool;
  if (!out.tool && cubin_folder().empty()) {
    MESSAGE("skipped: there is no CUDA compiler");
    return {};
  }
  return out;
}

std::vector<Problem> all_gemm_problems() {
  std::vector<Problem> out = gemm_problems();
  for (const std::vector<Problem>& more : {float8_problems(), fma_problems()})
    out.insert(out.end(), more.begin(), more.end());
  return out;
}

struct GemmKernel {
  size_t problem;
  CudaSchedule schedule;
};
std::vector<GemmKernel> all_gemm_kernels(const std::vector<Problem>& problems, Isa isa) {
  std::vector<GemmKernel> out;
  for (size_t p = 0; p < problems.size(); ++p) {
    std::set<std::string> seen;
    for (const int64_t m : {8, 16, 64, 1024})
      for (const CudaSchedule& s : cuda_schedules(problems[p], {Device::cuda, isa}, 1, m))
        if (seen.insert(s.describe()).second) out.push_back({p, s});
  }
  return out;
}

std::vector<KernelSource> sources_of(const std::vector<Problem>& problems, const std::vector<GemmKernel>& kernels,
                                     Isa isa) {
  std::vector<KernelSource> out;
  for (const GemmKernel& k : kernels) {
    const Problem& p = problems[k.problem];
    auto source = render_gemm_cuda(p, k.schedule, "qcg_kernel");
    REQUIRE_MESSAGE(source.ok(), source.error().to_string());
    out.push_back({kernel_name(p, k.schedule), "qcg_kernel", *source, isa, cuda_launch(p, k.schedule)});
  }
  return out;
}

// Those of the families that are no linears, by name.
std::vector<std::pair<std::string, Plan>> step_plans(Isa isa) {
  std::vector<std::pair<std::string, Plan>> out = {{"families", plan_families({Device::cuda, isa})}};
  for (const auto& [name, text] : {std::pair("sorted rows", kSortedRows), std::pair("full rows", kFullRows)}) {
    auto graph = parse_graph(text);
    REQUIRE_MESSAGE(graph.ok(), graph.error().to_string());
    auto plan = plan_kernels(*graph, {Device::cuda, isa});
    REQUIRE_MESSAGE(plan.ok(), plan.error().to_string());
    out.emplace_back(name, std::move(*plan));
  }
  return out;
}

CudaBuffer upload(CudaDriver& driver, const void* from, size_t bytes) {
  auto buffer = driver.allocate(bytes);
  REQUIRE_MESSAGE(buffer.ok(), buffer.error().to_string());
  const Status status = driver.copy_in(*buffer, from, bytes);
  REQUIRE_MESSAGE(status.ok(), status.error().to_string());
  return std::move(*buffer);
}

// The data of one call on the device, for every kernel of its problem.
class DeviceGemm {
 public:
  DeviceGemm(CudaDriver& driver, const Problem& p, const GemmCall& call)
      : driver_(driver), call_(call), data_(p, call) {
    auto add = [&](const std::vector<std::byte>& bytes, int64_t stride, uint64_t shift) {
      std::vector<std::byte> shifted(shift);
      shifted.insert(shifted.end(), bytes.begin(), bytes.end());
      buffers_.push_back(upload(driver, shifted.data(), shifted.size()));
      args_.push_back({static_cast<std::byte*>(buffers_.back().data()) + shift, stride});
    };
    add_inputs(data_, call,
               [&](const char*, const GemmData::Bytes& b, uint64_t shift) { add(b.bytes, b.stride, shift); });
    for (const GemmData::Bytes& o : data_.outputs) add(o.bytes, o.stride, 0);
  }

  // What is wrong with the kernel; empty: nothing.
  std::string try_kernel(const CudaKernel& kernel, const CudaLaunch& launch) {
    const size_t first = buffers_.size() - data_.outputs.size();
    for (size_t o = first; o < buffers_.size(); ++o) {
      const std::vector<std::byte> unwritten(buffers_[o].bytes(), std::byte{0xff});
      if (const Status s = driver_.copy_in(buffers_[o], unwritten.data(), unwritten.size()); !s.ok())
        return s.error().to_string();
    }
    const std::vector<std::byte> block = parameter_of(args_, {&call_.m, 1});
    const Status status = driver_.launch(kernel, grid_of(launch, {&call_.m, 1}), block.data(), block.size());
    if (!status.ok()) return status.error().to_string();
    for (size_t o = 0; o < data_.outputs.size(); ++o) {
      const CudaBuffer& from = buffers_[first + o];
      if (const Status s = driver_.copy_out(data_.outputs[o].bytes.data(), from, from.bytes()); !s.ok())
        return s.error().to_string();
    }
    return data_.what_is_wrong();
  }

 private:
  CudaDriver& driver_;
  GemmCall call_;
  GemmData data_;
  std::vector<CudaBuffer> buffers_;
  std::vector<qcg_arg> args_;
};

// A call of another kernel: each argument is a buffer of its own, and what was written comes back.
Status call_on_device(CudaDriver& driver, const CudaKernel& kernel, const CudaLaunch& launch, CallMemory& call,
                      bool shift) {
  const qcg_call host = call.call();
  std::vector<CudaBuffer> buffers;
  std::vector<qcg_arg> args;
  const auto shift_of = [&](size_t i) { return shift ? dtype_bytes(call.dtype(i)) : size_t{0}; };
  for (size_t i = 0; i < call.args(); ++i) {
    const auto* from = static_cast<const std::byte*>(host.args[i].data) - call.before(i);
    std::vector<std::byte> bytes(shift_of(i));
    bytes.insert(bytes.end(), from, from + call.span_of(i));
    buffers.push_back(upload(driver, bytes.data(), bytes.size()));
    args.push_back(
        {static_cast<std::byte*>(buffers.back().data()) + shift_of(i) + call.before(i), host.args[i].stride});
  }
  int64_t refused = INT64_MAX;
  const CudaBuffer fault = upload(driver, &refused, sizeof refused);
  std::vector<int64_t> numbers = call.sizes().params;
  numbers.push_back(reinterpret_cast<int64_t>(fault.data()));
  const std::vector<std::byte> block = parameter_of(args, numbers);
  QCG_CHECK(driver.launch(kernel, grid_of(launch, call.sizes().params), block.data(), block.size()));
  QCG_CHECK(driver.copy_out(&refused, fault, sizeof refused));
  if (refused != INT64_MAX) return Error::internal("kernel", "refuses position " + std::to_string(refused));
  for (size_t i = call.first_output(); i < call.args(); ++i) {
    const auto* from = static_cast<const std::byte*>(buffers[i].data()) + shift_of(i);
    auto* const to = static_cast<std::byte*>(host.args[i].data) - call.before(i);
    QCG_CHECK(driver.copy_out_at(to, from, static_cast<size_t>(call.span_of(i))));
  }
  return {};
}

}  // namespace

TEST_CASE("device: every candidate of every linear, or a clear error without a device") {
  const auto lent = lent_device();
  if (!lent) return;
  const std::vector<Problem> problems = all_gemm_problems();
  const std::vector<GemmKernel> kernels = all_gemm_kernels(problems, lent->isa);
  const std::vector<KernelSource> sources = sources_of(problems, kernels, lent->isa);
  const std::vector<std::string> cubins = device_cubins(lent->tool ? &*lent->tool : nullptr, sources);
  CudaDriver& driver = *lent->driver;
  for (size_t p = 0; p < problems.size(); ++p) {
    const Problem& problem = problems[p];
    std::map<size_t, CudaKernel> loaded;
    std::set<int64_t> ms = {0, 1, 17, 300};
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (kernels[i].problem != p) continue;
      INFO(sources[i].name);
      auto kernel = driver.load_kernel(cubins[i], "qcg_kernel");
      REQUIRE_MESSAGE(kernel.ok(), kernel.error().to_string());
      CHECK(!driver.load_kernel(cubins[i], "absent").ok());
      loaded[i] = *kernel;
      ms.insert(kernels[i].schedule.bm + 3);
    }
    const bool sparse = problem.scheme == Scheme::nf4;  // whose numbers have 24 bits
    const uint64_t bytes = dtype_bytes(problem.activation);
    const auto gap = static_cast<int64_t>(16 / bytes);
    std::set<size_t> wrong;
    for (const int64_t m : ms)
      for (const GemmCall& call : {GemmCall{.m = m, .sparse = sparse},
                                   {.m = m, .shift = bytes, .sparse = sparse},
                                   {.m = m, .gap = gap, .poisoned = true, .sparse = sparse}}) {
        DeviceGemm gemm(driver, problem, call);
        for (const auto& [i, kernel] : loaded) {
          if (wrong.contains(i)) continue;
          const std::string what = gemm.try_kernel(kernel, sources[i].launch);
          CHECK_MESSAGE(what == "", kernels[i].schedule.describe(), " ", problem.signature(), " m=", m,
                        " shift=", call.shift, " gap=", call.gap, ": ", what);
          if (what != "") wrong.insert(i);
        }
      }
  }
  MESSAGE(driver.device_name(), ": ", kernels.size(), " kernels of ", problems.size(), " problems");
}

TEST_CASE("device: kernels of every other family") {
  const auto lent = lent_device();
  if (!lent) return;
  constexpr uint64_t kSeed = 7;
  CudaDriver& driver = *lent->driver;
  size_t calls = 0;
  for (const auto& [name, plan] : step_plans(lent->isa)) {
    const std::vector<int> numbers = problems_on_device(plan);
    const std::vector<KernelSource> sources = sources_of(plan, numbers);
    const std::vector<std::string> cubins = device_cubins(lent->tool ? &*lent->tool : nullptr, sources);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const KernelProblem& problem = plan.problems[static_cast<size_t>(numbers[i])];
      INFO(name, " ", problem.family().name, " ", problem.family().formula(problem));
      auto kernel = driver.load_kernel(cubins[i], sources[i].symbol);
      REQUIRE_MESSAGE(kernel.ok(), kernel.error().to_string());
      BuiltKernel built;
      built.source = sources[i];
      bool shift = true;
      for (const CallSizes& sizes : step_trial(plan, numbers[i], built, {}, TuneMode::off).checks) {
        const auto run = [&](CallMemory& call) {
          return call_on_device(driver, *kernel, sources[i].launch, call, shift);
        };
        const OracleReport report = check_call_at(run, problem, sizes, kSeed);
        CHECK_MESSAGE(report.ok, report.reason);
        shift = !shift, ++calls;
      }
    }
  }
  MESSAGE(driver.device_name(), ": ", calls, " calls");
}

// Where there is a compiler and perhaps no device.
TEST_CASE("fill the folder of cubins that a machine with a device takes" * doctest::skip()) {
  REQUIRE_MESSAGE(!cubin_folder().empty(), "QCG_TEST_CUBINS names no folder");
  const auto tool = find_cuda();
  REQUIRE(tool.ok());
  const char* const only = std::getenv("QCG_TEST_CUBINS_ISA");
  for (const Isa isa : {Isa::sm_90a, Isa::sm_80}) {
    if (only && isa_info(isa).name != std::string_view(only)) continue;
    const std::vector<Problem> problems = all_gemm_problems();
    const std::vector<KernelSource> gemms = sources_of(problems, all_gemm_kernels(problems, isa), isa);
    CHECK(device_cubins(&*tool, gemms).size() == gemms.size());
    for (const auto& [name, plan] : step_plans(isa)) {
      const std::vector<KernelSource> steps = sources_of(plan, problems_on_device(plan));
      CHECK(device_cubins(&*tool, steps).size() == steps.size());
    }
    MESSAGE(isa_info(isa).name, ": ", gemms.size(), " linears");
  }
}
