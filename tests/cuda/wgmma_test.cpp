// Kernels of wgmma, executed from their PTX: exact on integers, with counts; and what ptxas makes of them.
#include <algorithm>

#include "cuda_compiler.h"
#include "ptx_run.h"

using namespace qcg;
using namespace qcg::test;

namespace {

// Of every problem that wgmma serves the tile of the fewest sums with one group of four warps, and that with two.
std::vector<Rendered> wgmma_kernels(std::string_view row, const std::vector<Problem>& problems) {
  std::vector<Rendered> out;
  for (const Problem& p : problems)
    for (const int bn : {64, 128}) {
      std::vector<CudaSchedule> all = cuda_schedules(p, {Device::cuda, Isa::sm_90a}, 1, 64);
      std::erase_if(all, [&](const CudaSchedule& s) { return s.microkernel->name != row || s.bn != bn; });
      if (all.empty()) continue;
      out.push_back({p,
                     *std::min_element(all.begin(), all.end(),
                                       [](const CudaSchedule& a, const CudaSchedule& b) { return a.bm < b.bm; }),
                     Isa::sm_90a});
    }
  return out;
}

}  // namespace

TEST_CASE("wgmma: products of weights in shared memory, executed from their PTX") {
  run_exactly(wgmma_kernels("sm90a_wgmma_ss", gemm_problems()));
}
TEST_CASE("wgmma: products of weights that are unpacked in registers, executed from their PTX") {
  run_exactly(wgmma_kernels("sm90a_wgmma_rs", gemm_problems()));
}

TEST_CASE("wgmma: products of 8-bit floats, executed from their PTX") {
  run_exactly(wgmma_kernels("sm90a_wgmma_ss", float8_problems()));
}

// Each is a fault of the executor, or another result.
TEST_CASE("wgmma: bugs seeded into sums of x and into sums of 8-bit floats are found") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  using enum DType;
  const Problem offsets = plain_problem(Scheme::w4, bf16, i8, {520}, {{40, false, false, "w", true}}, 128, bf16);
  const Problem floats = plain_problem(Scheme::f8, f8e4m3, f8e4m3, {520}, {{40, false, false, "w"}}, 128);
  struct Seeded {
    const Problem* problem;
    std::string_view from, to;
  };
  const Seeded cases[] = {
      {&offsets, "meet<2, MULTIPLIERS>();", ""},
      {&offsets, "r.place ^= 1;", ""},
      {&offsets, "r.sum[p][i][e] = 0;", ";"},
      {&offsets, "if (O::offsets(s) >= 0)\n    copy_parameters", "if (false)\n    copy_parameters"},
      {&offsets, "barrier_arrive_after_copies(full);", "barrier_arrive(full);"},
      {&offsets, "  fence_proxy_async();\n", ""},
      {&offsets, "lane / 16 * 8) * 128", "lane / 16 * 4) * 128"},
      {&floats, "      wgmma_wait<0>();", "      wgmma_wait<1>();"},
      {&floats, "k % (SPAN / MMA_K) > 0", "true"},
      {&floats, "shared + from.stage * STAGE, span,", "shared, span,"},
  };
  std::vector<Rendered> kernels;
  for (const Problem* p : {&offsets, &floats})
    for (const CudaSchedule& s : cuda_schedules(*p, {Device::cuda, Isa::sm_90a}, 1, 64))
      if (s.is_wgmma() && s.bm == 32 && s.bn == 64) kernels.push_back({*p, s, Isa::sm_90a});
  REQUIRE(kernels.size() == 2);
  const std::vector<KernelSource> right = sources_of(kernels);
  std::vector<KernelSource> sources = right;
  for (const Seeded& c : cases) {
    sources.push_back(right[c.problem == &floats]);
    const size_t at = sources.back().source.find(c.from);
    REQUIRE_MESSAGE(at != std::string::npos, c.from);
    sources.back().source.replace(at, c.from.size(), c.to);
  }
  const std::vector<ptx::LoadedKernel> loaded = load_sources(*tool, sources);
  const GemmCall call{.m = 35};
  for (size_t c = 0; c < std::size(cases); ++c) {
    const size_t of = cases[c].problem == &floats;
    GemmData whole(kernels[of].problem, call), altered(kernels[of].problem, call);
    REQUIRE(execute_rendered(loaded[of], kernels[of], call, whole).outcome.ok());
    const ptx::Outcome outcome = execute_rendered(loaded[2 + c], kernels[of], call, altered).outcome;
    INFO(cases[c].from, " -> ", cases[c].to, ": ", outcome.text());
    CHECK((!outcome.ok() || altered.outputs[0].bytes != whole.outputs[0].bytes));
  }
}

// Of every tile, with as many segments as it has room for: the registers of both roles hold what they need.
TEST_CASE("wgmma: every tile compiles without spills, and its products do not wait for one another") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  using enum DType;
  const std::vector<Output> product = {{parse_expr("mul(silu(acc0), acc1)"), bf16, 256, {0, 1}}};
  std::vector<Rendered> all;
  for (const Problem& p :
       {plain_problem(Scheme::dense, bf16, bf16, {4096}, {{256, false, true, "w"}}),
        with_outputs(plain_problem(Scheme::dense, bf16, bf16, {4096, 64},
                                   {{256, false, true, "gate"}, {256, false, true, "up"}}),
                     {}, product),
        plain_problem(Scheme::f8, f8e4m3, f8e4m3, {4096}, {{256, false, true, "w"}}),
        plain_problem(Scheme::f8, f8e4m3, f8e4m3, {4096}, {{256, false, true, "w"}}, 128),
        with_outputs(plain_problem(Scheme::w4, bf16, i8, {4096},
                                   {{256, false, true, "gate", true}, {256, false, true, "up", true}}, 32, bf16),
                     {}, product),
        with_outputs(
            plain_problem(Scheme::f8, f8e4m3, f8e4m3, {4096}, {{256, false, true, "gate"}, {256, false, true, "up"}}),
            {}, product)})
    for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, Isa::sm_90a}, 1, 4096))
      if (s.is_wgmma()) all.push_back({p, s, Isa::sm_90a});
  const std::vector<CompileResult> cubins = compile_rendered(*tool, all, OutputKind::cubin);
  for (size_t i = 0; i < all.size(); ++i) {
    const CompileResult& r = cubins[i];
    INFO(kernel_name(all[i].problem, all[i].schedule), ": ", r.cuda[0].registers, " registers, ", r.log);
    CHECK(r.cuda[0].spill_store_bytes + r.cuda[0].spill_load_bytes == 0);
    CHECK(r.cuda[0].registers * all[i].schedule.threads() <= 65536);
    CHECK(r.log.find("C75") == std::string::npos);  // C7510, C7515: wgmma is serialized
    CHECK(r.cuda[0].shared_bytes + cuda_launch(all[i].problem, all[i].schedule).shared_bytes <= 227 << 10);
  }
}

TEST_CASE("wgmma: what a full tile asks of memory") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  using enum DType;
  const Problem p = plain_problem(Scheme::dense, bf16, bf16, {256}, {{128, false, false, "w"}});
  std::vector<Rendered> all;
  for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, Isa::sm_90a}, 1, 4096))
    if (s.is_wgmma() && s.bm == 128 && s.bn == 128) all.push_back({p, s, Isa::sm_90a});
  REQUIRE(all.size() == 1);
  const ptx::Counters c = run_rendered(load_rendered(*tool, all)[0], all[0], {.m = 128}).all;
  INFO(c.total(), " instructions, ", c.count("wgmma.mma_async"), " wgmma, ", c.all_shared.cost, " wavefronts for ",
       c.all_shared.ideal, ", ", c.all_global.cost, " sectors for ", c.all_global.ideal);
  CHECK(c.count("wgmma.mma_async") == 8 * 16);  // of each warp
  CHECK(c.all_shared.ratio() <= 1.05);
  CHECK(c.all_global.ratio() <= 1.1);
  CHECK(c.bytes_written == 128 * 128 * 2);
}

// The order of candidates is the model's: no device has measured it.
TEST_CASE("wgmma: the model picks it for many rows, and the decode kernel for few rows") {
  using enum DType;
  for (const DType half : {bf16, f16})
    for (const int64_t n : {1024, 4096, 14336}) {
      const Problem p = plain_problem(Scheme::dense, half, half, {4096}, {{n, false, false, "w"}});
      const Target target{Device::cuda, Isa::sm_90a};
      INFO(dtype_name(half), " n ", n);
      for (const int64_t m : {1, 4, 8}) CHECK(cuda_schedules(p, target, m, m)[0].is_decode());
      for (const int64_t m : {256, 1024, 4096}) CHECK(cuda_schedules(p, target, m, m)[0].is_wgmma());
      for (const CudaSchedule& s : cuda_schedules(p, {Device::cuda, Isa::sm_80}, 4096, 4096)) CHECK(!s.is_wgmma());
    }
}
