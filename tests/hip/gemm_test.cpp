// HIP GEMMs, executed by 64 lanes on a CPU: exact on integers, at odd sizes, whatever the problem.
#include <algorithm>
#include <cstring>

#include "runtime/abi.h"
#include "tests/cuda/gemm_case.h"
#include "tests/hip/emulator.h"

using namespace qcg;
using namespace qcg::test;

namespace {

constexpr Target kTarget{Device::hip, Isa::gfx90a};

struct Rendered {
  Problem problem;
  CudaSchedule schedule;
};

std::vector<EmulatedKernel> emulate_rendered(const std::vector<Rendered>& all, const HeaderChange& change = {}) {
  std::vector<KernelSource> sources;
  for (const Rendered& k : all) {
    auto source = render_gemm_cuda(k.problem, k.schedule, "qcg_kernel");
    REQUIRE_MESSAGE(source.ok(), source.error().to_string());
    sources.push_back(
        {kernel_name(k.problem, k.schedule), "qcg_kernel", *source, Isa::gfx90a, cuda_launch(k.problem, k.schedule)});
  }
  return emulate(sources, change);
}

Status run(const EmulatedKernel& kernel, const Rendered& k, const GemmCall& call, GemmData& data) {
  DeviceMemory memory;
  std::vector<qcg_arg> args;
  const auto add = [&](const char*, const GemmData::Bytes& b, uint64_t shift) {
    args.push_back({memory.add(b.bytes, shift), b.stride});
  };
  add_inputs(data, call, add);
  const size_t first_output = memory.count();
  for (const GemmData::Bytes& o : data.outputs) add("output", o, 0);
  std::vector<std::byte> parameter(args.size() * sizeof(qcg_arg) + 8);
  std::memcpy(parameter.data(), args.data(), args.size() * sizeof(qcg_arg));
  std::memcpy(parameter.data() + args.size() * sizeof(qcg_arg), &call.m, 8);
  const CudaLaunch launch = cuda_launch(k.problem, k.schedule);
  QCG_CHECK(kernel.run(static_cast<uint32_t>(launch.blocks({&call.m, 1})), launch, parameter, memory));
  for (size_t o = 0; o < data.outputs.size(); ++o) {
    const std::span<std::byte> y = memory.bytes(first_output + o);
    std::copy(y.begin(), y.end(), data.outputs[o].bytes.begin());
  }
  return {};
}

void check(const EmulatedKernel& kernel, const Rendered& k, GemmCall call) {
  call.sparse = k.problem.scheme == Scheme::nf4;  // whose numbers have 24 bits
  GemmData data(k.problem, call);
  const Status status = run(kernel, k, call, data);
  REQUIRE_MESSAGE(status.ok(), status.error().to_string());
  data.check();
}

void run_exactly(const std::vector<Rendered>& all) {
  REQUIRE(!all.empty());
  const std::vector<EmulatedKernel> kernels = emulate_rendered(all);
  for (size_t i = 0; i < all.size(); ++i) {
    const Rendered& k = all[i];
    const uint64_t bytes = dtype_bytes(k.problem.activation);
    INFO(k.schedule.describe(), " ", k.problem.signature());
    check(kernels[i], k, {.m = 1});
    check(kernels[i], k, {.m = 5, .shift = bytes});
    check(kernels[i], k, {.m = k.schedule.bm + 3, .gap = static_cast<int64_t>(16 / bytes), .poisoned = true});
  }
}

bool is_served(const Problem& p) { return check_cuda_support(p, Device::hip).ok(); }

std::vector<Rendered> of_scheme(std::initializer_list<Scheme> schemes) {
  std::vector<Rendered> all;
  for (const Problem& p : gemm_problems())
    if (std::find(schemes.begin(), schemes.end(), p.scheme) != schemes.end() && is_served(p))
      for (const CudaSchedule& s : small_schedules(p, kTarget)) all.push_back({p, s});
  return all;
}

}  // namespace

TEST_CASE("hip: dense kernels compute the problem, executed by 64 lanes") { run_exactly(of_scheme({Scheme::dense})); }
TEST_CASE("hip: kernels of 8-bit weights compute the problem") { run_exactly(of_scheme({Scheme::w8, Scheme::f8})); }
TEST_CASE("hip: kernels of 4-bit weights compute the problem") {
  run_exactly(of_scheme({Scheme::w4, Scheme::f4, Scheme::nf4}));
}
TEST_CASE("hip: kernels of integer activations compute the problem") {
  run_exactly(of_scheme({Scheme::da8w8, Scheme::da8w4, Scheme::da8f4, Scheme::s8s8}));
}
TEST_CASE("hip: kernels that multiply in f32 compute the problem") {
  std::vector<Rendered> all;
  std::vector<Problem> problems = fma_problems();
  for (Problem& p : float8_problems())
    if (p.k <= 200) problems.push_back(std::move(p));
  for (const Problem& p : problems) {
    const std::vector<CudaSchedule> schedules = cuda_schedules(p, kTarget, 1, 64);
    REQUIRE(!schedules.empty());
    for (const CudaSchedule& s : schedules)
      if (s.bm == (all.size() % 2 ? 64 : 16)) {
        all.push_back({p, s});
        break;
      }
  }
  run_exactly(all);
}

TEST_CASE("hip: what is not multiplied exactly is refused") {
  for (const Problem& p : gemm_problems()) {
    const bool subnormal = p.activation == DType::f16 && (p.scheme == Scheme::nf4 || p.weight == DType::f8e5m2);
    const Status status = check_cuda_support(p, Device::hip);
    INFO(p.signature());
    CHECK(status.ok() == !subnormal);
    if (status.ok()) continue;
    CHECK(status.error().code == ErrorCode::Unsupported);
    CHECK(status.error().message.find("HIP GEMM has no") != std::string::npos);
    CHECK(status.error().help.find("--target=cpu") != std::string::npos);
  }
}

TEST_CASE("hip: kernels that were made wrong are found") {
  using enum DType;
  const Problem dense = plain_problem(Scheme::dense, bf16, bf16, {136}, {{40, false, true, "w"}});
  const Problem grouped = plain_problem(Scheme::w4, bf16, i8, {200}, {{40, true, false, "w"}}, 32, bf16);
  const Problem bytes = plain_problem(Scheme::da8w8, u8, i8, {100}, {{20, true, false, "w"}});
  struct Seeded {
    const Problem& problem;
    bool decode;
    HeaderChange change;
  };
  const Seeded cases[] = {
      {dense, false, {"kernel", "__syncthreads();  // the stage", "// the stage"}},
      {dense, true, {"kernel", "__syncthreads();", ""}},
      {dense, false, {"device.cuh", "return lane / 16 * 4 + e;", "return lane / 16 + 4 * e;"}},
      {dense,
       false,
       {"device.cuh", "sum_column(int lane, int) { return lane % 16; }",
        "sum_column(int lane, int) { return lane / 4; }"}},
      {dense, false, {"device.cuh", "((k * 2 + half) ^ lane % 8)", "(k * 2 + half)"}},
      {dense, true, {"device.cuh", "lane_k(int lane) { return lane / 16; }", "lane_k(int lane) { return lane % 4; }"}},
      {grouped, true, {"device.cuh", "return lane % 8 * 4 + lane / 16;", "return lane / 2;"}},
      {grouped, false, {"device.cuh", "threadIdx.x / 8 % 2", "threadIdx.x / 16 % 2"}},
      {grouped,
       false,
       {"device.cuh", "pair_of_lane(int lane) { return lane % 8; }", "pair_of_lane(int lane) { return lane / 8; }"}},
      {grouped, true, {"weights.cuh", "2 * r + column_half()", "r + 2 * column_half()"}},
      {bytes, false, {"device.cuh", "mma_s8(d, a, k64, k64);", ""}},
  };
  for (const Seeded& seeded : cases) {
    INFO(seeded.change.file, ": ", seeded.change.from);
    std::vector<CudaSchedule> schedules = small_schedules(seeded.problem, kTarget);
    std::erase_if(schedules, [&](const CudaSchedule& s) { return s.is_decode() != seeded.decode; });
    const Rendered k{seeded.problem, schedules.at(0)};
    const EmulatedKernel kernel = emulate_rendered({k}, seeded.change)[0];
    const GemmCall call{.m = 35};
    GemmData data(k.problem, call);
    const Status status = run(kernel, k, call, data);
    CHECK((!status.ok() || !data.what_is_wrong().empty()));
  }
}
