// The project's CUDA kernels, as NVRTC or nvcc compiles them, executed on the CPU: exact on integers, with counts.
#include <algorithm>

#include "cuda_compiler.h"
#include "ptx_run.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::vector<Rendered> of_scheme(std::initializer_list<Scheme> schemes, Isa isa) {
  std::vector<Rendered> all;
  for (const Problem& p : gemm_problems())
    if (std::find(schemes.begin(), schemes.end(), p.scheme) != schemes.end())
      for (const CudaSchedule& s : small_schedules(p, {Device::cuda, isa})) all.push_back({p, s, isa});
  return all;
}

}  // namespace

TEST_CASE("ptx: dense kernels compute the problem, executed from their PTX") {
  run_exactly(of_scheme({Scheme::dense}, Isa::sm_80));
}
TEST_CASE("ptx: kernels of 8-bit weights compute the problem") {
  run_exactly(of_scheme({Scheme::w8, Scheme::f8}, Isa::sm_80));
}
TEST_CASE("ptx: kernels of integer activations compute the problem") {
  run_exactly(of_scheme({Scheme::da8w8, Scheme::da8w4, Scheme::da8f4, Scheme::s8s8}, Isa::sm_80));
}
TEST_CASE("ptx: kernels of 4-bit weights compute the problem") {
  run_exactly(of_scheme({Scheme::w4, Scheme::f4, Scheme::nf4}, Isa::sm_80));
}

TEST_CASE("ptx: kernels of few rows that multiply 8-bit floats compute the problem") {
  std::vector<Rendered> all;
  for (const Problem& p : float8_problems())
    for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, Isa::sm_90a}, 1, 8))
      if (s.is_decode() && s.bn == 16) all.push_back({p, s, Isa::sm_90a});
  run_exactly(all);
}

TEST_CASE("ptx: kernels that multiply in f32 compute the problem") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  std::vector<Problem> problems = fma_problems();
  for (Problem& p : float8_problems())
    if (p.k <= 200) problems.push_back(std::move(p));  // short ones, for the executor takes its time with f32
  std::vector<Rendered> all;
  for (const Problem& p : problems)
    for (const int64_t m : {8, 64}) {
      const Isa isa = all.size() % 4 < 2 || is_float8(p.activation) ? Isa::sm_80 : Isa::sm_90a;
      for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, isa}, 1, m))
        if (s.bm == (m > 16 ? 64 : 16)) all.push_back({p, s, isa});
    }
  REQUIRE(all.size() == 2 * problems.size());
  for (const CompileResult& cubin : compile_rendered(*tool, all, OutputKind::cubin))
    CHECK(cubin.cuda[0].spill_store_bytes + cubin.cuda[0].spill_load_bytes == 0);
  const std::vector<ptx::LoadedKernel> kernels = load_rendered(*tool, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const Rendered& k = all[i];
    const bool sparse = k.problem.scheme == Scheme::nf4;
    INFO(isa_info(k.isa).name, " ", k.schedule.describe(), " ", k.problem.signature());
    run_rendered(kernels[i], k, {.m = 1, .sparse = sparse});
    run_rendered(kernels[i], k, {.m = 5, .shift = dtype_bytes(k.problem.activation), .sparse = sparse});
    run_rendered(kernels[i], k, {.m = k.schedule.bm + 3, .gap = 8, .poisoned = true, .sparse = sparse});
  }
}

// Slow code shows in counts: shared memory with bank conflicts, rows read in pieces, weights read twice.
TEST_CASE("ptx: what a full tile asks of memory") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  using enum DType;
  std::vector<Rendered> all;
  for (const Problem& p : {plain_problem(Scheme::dense, bf16, bf16, {256}, {{128, false, false, "w"}}),
                           plain_problem(Scheme::w4, bf16, i8, {256}, {{128, false, false, "w"}}, 128, bf16)})
    for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, Isa::sm_80}, 1, 4096))
      if (s.bm == 128) all.push_back({p, s, Isa::sm_80});
  REQUIRE(all.size() == 2);
  const std::vector<ptx::LoadedKernel> kernels = load_rendered(*tool, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const ptx::Counters c = run_rendered(kernels[i], all[i], {.m = 128}).all;
    INFO(all[i].schedule.describe(), ": ", c.total(), " instructions, ", c.count("mma.sync"), " mma, ",
         c.all_shared.cost, " wavefronts for ", c.all_shared.ideal, ", ", c.all_global.cost, " sectors for ",
         c.all_global.ideal);
    CHECK(c.count("mma.sync") == 8 * 16 * 16);
    CHECK(c.all_shared.ratio() <= 1.05);
    CHECK(c.all_global.ratio() <= 1.1);
    CHECK(c.bytes_written == 128 * 128 * 2);
  }
}

TEST_CASE("ptx: a decode kernel reads its weights once") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  using enum DType;
  std::vector<Rendered> all;
  for (const Problem& p : {plain_problem(Scheme::dense, bf16, bf16, {512}, {{128, false, false, "w"}}),
                           plain_problem(Scheme::w8, bf16, i8, {1024}, {{128, false, false, "w"}}),
                           plain_problem(Scheme::w4, bf16, i8, {2048}, {{128, false, false, "w"}}, 128, bf16)})
    for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, Isa::sm_80}, 1, 8))
      if (s.is_decode() && s.bn == 32) all.push_back({p, s, Isa::sm_80});
  REQUIRE(all.size() == 9);  // of 4, 8 and 16 warps
  const std::vector<ptx::LoadedKernel> kernels = load_rendered(*tool, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const ptx::Cost weights = run_rendered(kernels[i], all[i], {.m = 1}).weights;
    const auto least = static_cast<double>(packed_bytes_cuda(all[i].problem, {}));
    INFO(all[i].schedule.describe(), ": ", weights.cost * 32, " bytes for ", least);
    CHECK(static_cast<double>(weights.cost) * 32 <= 1.02 * least);
    CHECK(static_cast<double>(weights.cost) * 32 >= least);
  }
}
