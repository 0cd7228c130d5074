// CUDA kernels through the toolchain: they compile for sm_80 and sm_90a, spill nothing, and fit a block's shared
// memory.
#include "cache/toolchain/compile.h"

#include "codegen/build/build.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/render.h"
#include "codegen/gemm/schedules.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/support_headers.h"
#include "gemm_case.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("every CUDA candidate compiles to a cubin without spills") {
  auto tool = find_cuda();
  if (!tool.ok()) {
    MESSAGE("skipped: ", tool.error().message);
    return;
  }
  const std::vector<Problem> problems = gemm_problems();
  std::vector<CompileJob> jobs;
  std::vector<std::string> names;
  std::vector<int> dynamic, threads;
  for (const Problem& p : problems)
    for (const Isa isa : {Isa::sm_80, Isa::sm_90a})
      for (const CudaSchedule& c : cuda_schedules(p, {Device::cuda, isa}, 1, INT64_MAX)) {
        auto source = render_gemm_cuda(p, c, "qcg_kernel");
        REQUIRE_MESSAGE(source.ok(), source.error().to_string());
        CompileJob job;
        job.language = Language::cuda;
        job.output = OutputKind::cubin;
        job.sources = {{"kernel.cu", *source}};
        for (const SourceFile& header : support_headers(isa)) job.headers.push_back({header.name, header.text});
        job.flags = compiler_flags(*tool, isa);
        jobs.push_back(std::move(job));
        names.push_back(kernel_name(p, c));
        dynamic.push_back(cuda_launch(p, c).shared_bytes);
        threads.push_back(cuda_launch(p, c).threads);
      }
  auto results = compile_all(*tool, jobs, {.timeout_s = 300, .memory_mb = 0});
  REQUIRE_MESSAGE(results.ok(), results.error().to_string());
  for (size_t i = 0; i < results->size(); ++i) {
    const CompileResult& r = (*results)[i];
    REQUIRE_MESSAGE(r.ok(), names[i], "\n", r.log);
    REQUIRE(r.cuda.size() == 1);
    MESSAGE(names[i], ": ", r.cuda[0].registers, " registers, ", r.cuda[0].shared_bytes + dynamic[i], " bytes shared, ",
            r.seconds, " s");
    CHECK(r.cuda[0].kernel == "qcg_kernel");
    CHECK(r.cuda[0].spill_store_bytes == 0);
    CHECK(r.cuda[0].spill_load_bytes == 0);
    CHECK(r.cuda[0].registers * threads[i] <= 65536);  // one block fits a multiprocessor
    CHECK(r.log.find("C75") == std::string::npos);     // C7510, C7515: ptxas made wgmma wait for one another
    CHECK(r.cuda[0].shared_bytes + dynamic[i] <= 160 << 10);
    CHECK(
        r.bytes.starts_with("\x7f"
                            "ELF"));
  }
}

TEST_CASE("rendering is pure, and what the template lacks is named") {
  const std::vector<Problem> problems = gemm_problems();
  Problem p = problems[1];
  const std::vector<CudaSchedule> all = cuda_schedules(p, {Device::cuda, Isa::sm_80}, 1, 4);
  REQUIRE(!all.empty());
  CHECK(all[0].bm == 16);
  auto first = render_gemm_cuda(p, all[0], "k");
  REQUIRE(first.ok());
  CHECK(first->find("#error") != std::string::npos);
  CHECK(first->find("\n#error") == std::string::npos);
  Problem renamed = p;
  renamed.comment = "other";
  renamed.segments[0].name = "x y z";
  auto second = render_gemm_cuda(renamed, all[0], "k");
  auto code = [](const std::string& text) { return text.substr(text.find("#include")); };
  CHECK(code(*first) == code(*second));

  Problem unsupported = p;
  unsupported.scheme = Scheme::w8;
  CHECK(render_gemm_cuda(unsupported, all[0], "k").error().code == ErrorCode::Unsupported);
  CHECK(cuda_schedules(unsupported, {Device::cuda, Isa::sm_80}, 1, INT64_MAX).empty());
  unsupported = p;
  unsupported.activation = unsupported.weight = DType::f32;
  CHECK(render_gemm_cuda(unsupported, all[0], "k").error().message.find("f32") != std::string::npos);
  unsupported = p;
  unsupported.k_segments = {20, 17};
  CHECK(!render_gemm_cuda(unsupported, all[0], "k").ok());
}

TEST_CASE("packing pads K to whole chunks and refuses tensors of another shape") {
  const std::vector<Problem> problems = gemm_problems();
  const Problem& p = problems[1];  // n 33, k 37, bias
  GemmData data(p, 1, 40, false);
  CHECK(data.packed.size() == 33 * 40 * 2 / 256 * 256 + 256 + 256);
  for (int64_t n = 0; n < 33; ++n) {
    CHECK(element_to_double(DType::f16, data.packed.data() + (n * 40 + 36) * 2) ==
          element_to_double(DType::f16, data.tensors[0].weight.bytes().data() + (n * 37 + 36) * 2));
    CHECK(element_to_double(DType::f16, data.packed.data() + (n * 40 + 37) * 2) == 0);
  }
  auto tensors = data.tensors;
  tensors[0].weight = tensors[0].weight.transpose(0, 1);
  CHECK(pack_weights_cuda(p, {}, tensors, data.packed).error().code == ErrorCode::BadInput);
}

TEST_CASE("expressions print with the CUDA names") {
  CHECK(print_expr_cuda(parse_expr("mul(silu(acc0), in0)"), {"a"}, {"b"}) == "s_mul(s_silu(a), b)");
  CHECK(print_expr_cuda(Expr::call("pow", {Expr::acc(0), Expr::number(2)}), {"a"}, {}) == "s_square(a)");
  CHECK(print_expr_cuda(Expr::number(INFINITY), {}, {}) == "s_infinity()");
  CHECK(print_expr(parse_expr("mul(silu(acc0), in0)"), {"a"}, {"b"}) == "v_mul(v_silu(a), b)");
}
