// HIP kernels as hipcc compiles them: code objects without scratch memory, with the matrix instructions that are planned.
#include "cache/toolchain/compile.h"

#include <doctest/doctest.h>

#include "codegen/batch.h"
#include "codegen/families.h"
#include "codegen/kernel/support_headers.h"
#include "tests/cuda/gemm_case.h"
#include "tests/cuda/step_run.h"
#include "tests/tune/family_graph.h"

using namespace qcg;
using namespace qcg::test;

namespace {

constexpr Target kGfx90a{Device::hip, Isa::gfx90a};

std::optional<Toolchain> hip_compiler() {
  auto tool = find_hipcc();
  if (tool.ok()) return *tool;
  MESSAGE("skipped: ", tool.error().message);
  return std::nullopt;
}

int64_t count(const std::string& text, std::string_view what) {
  int64_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("hipcc: GEMMs keep everything in registers, and multiply as often as planned") {
  const auto tool = hip_compiler();
  if (!tool) return;
  using enum DType;
  struct Case {
    Problem problem;
    std::string_view instruction;
  };
  const Case cases[] = {
      {plain_problem(Scheme::dense, bf16, bf16, {4096}, {{4096, false, false, "w"}}), "v_mfma_f32_16x16x16bf16_1k"},
      {plain_problem(Scheme::w8, f16, i8, {4096}, {{4096, false, false, "w"}}), "v_mfma_f32_16x16x16f16"},
      {plain_problem(Scheme::w4, bf16, i8, {4096}, {{4096, true, false, "w"}}, 128, bf16),
       "v_mfma_f32_16x16x16bf16_1k"},
      {plain_problem(Scheme::da8w8, i8, i8, {4096}, {{4096, false, false, "w"}}), "v_mfma_i32_16x16x16i8"},
  };
  std::vector<KernelSource> sources;
  std::vector<int64_t> products;
  std::vector<std::string_view> instructions;
  for (const Case& c : cases)
    for (const bool decode : {false, true}) {
      // The largest tile, and the decode kernel that is tried first.
      std::vector<CudaSchedule> all = cuda_schedules(c.problem, kGfx90a, 1, decode ? 16 : 4096);
      std::erase_if(all, [&](const CudaSchedule& s) { return s.is_decode() != decode || (!decode && s.bm != 128); });
      REQUIRE(!all.empty());
      const CudaSchedule& s = all[0];
      auto source = render_gemm_cuda(c.problem, s, "qcg_kernel");
      REQUIRE_MESSAGE(source.ok(), source.error().to_string());
      sources.push_back({kernel_name(c.problem, s), "qcg_kernel", *source, Isa::gfx90a, cuda_launch(c.problem, s)});
      instructions.push_back(c.instruction);
      // Of a wave, in each of the two variants.
      const int64_t k = s.bk / 16, tiles = s.bm / 16 / s.warps_m * (s.bn / 16 / s.warps_n);
      products.push_back(2 * k * tiles);
    }
  const std::vector<CompileResult> text = compile_sources(*tool, sources, OutputKind::assembly);
  for (size_t i = 0; i < sources.size(); ++i) {
    INFO(sources[i].name);
    REQUIRE(text[i].cuda.size() == 1);
    const CudaUsage& usage = text[i].cuda[0];
    INFO(usage.registers, " registers, ", usage.scratch_bytes, " bytes of scratch memory");
    CHECK(usage.kernel == "qcg_kernel");
    CHECK(usage.registers > 0);
    CHECK(usage.registers <= 256);
    CHECK(usage.spilled_bytes() == 0);
    CHECK(count(text[i].bytes, instructions[i]) == products[i]);
  }
}

TEST_CASE("hipcc: kernels of every family compile") {
  const auto tool = hip_compiler();
  if (!tool) return;
  const Plan plan = plan_families(kGfx90a);
  std::vector<int> problems;  // one of each family
  for (const int p : problems_on_device(plan))
    if (std::ranges::none_of(problems, [&](int other) {
          return &plan.problems[static_cast<size_t>(other)].family() == &plan.problems[static_cast<size_t>(p)].family();
        }))
      problems.push_back(p);
  CHECK(problems.size() + 1 == kernel_families().size());  // all but GEMMs
  const std::vector<KernelSource> sources = sources_of(plan, problems);
  for (const CompileResult& r : compile_sources(*tool, sources, OutputKind::cubin)) {
    REQUIRE(r.cuda.size() == 1);
    CHECK(r.cuda[0].spilled_bytes() == 0);
    CHECK(r.bytes.starts_with("__CLANG_OFFLOAD_BUNDLE__"));  // as hipModuleLoadData takes it
  }
}

TEST_CASE("hipcc: what a compiler says of its kernels is read") {
  const auto usage = parse_hip_usage(
      "kernel.hip:2:1: remark: Function Name: qcg_kernel [-Rpass-analysis=kernel-resource-usage]\n"
      "kernel.hip:2:1: remark:     SGPRs: 12 [-Rpass-analysis=kernel-resource-usage]\n"
      "kernel.hip:2:1: remark:     VGPRs: 27 [-Rpass-analysis=kernel-resource-usage]\n"
      "kernel.hip:2:1: remark:     AGPRs: 4 [-Rpass-analysis=kernel-resource-usage]\n"
      "kernel.hip:2:1: remark:     ScratchSize [bytes/lane]: 48 [-Rpass-analysis=kernel-resource-usage]\n"
      "kernel.hip:2:1: remark:     VGPRs Spill: 3 [-Rpass-analysis=kernel-resource-usage]\n"
      "kernel.hip:2:1: remark:     LDS Size [bytes/block]: 1024 [-Rpass-analysis=kernel-resource-usage]\n");
  REQUIRE(usage.size() == 1);
  CHECK(usage[0].kernel == "qcg_kernel");
  CHECK(usage[0].registers == 31);
  CHECK(usage[0].spilled_bytes() == 48);
  CHECK(usage[0].shared_bytes == 1024);
}
