// CUDA kernels through the toolchain: they compile for sm_80 and sm_90a, spill nothing, and fit a block's shared
// memory.
#include "cache/toolchain/compile.h"

#include "codegen/build/build.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/render.h"
#include "codegen/gemm/schedules.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/support_headers.h"
#include "ptx_run.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("every CUDA candidate compiles to a cubin without spills") {
  auto tool = find_cuda();
  if (!tool.ok()) {
    MESSAGE("skipped: ", tool.error().message);
    return;
  }
  // Of every problem and kernel the largest tile, which needs the most registers; one ISA after the other.
  std::vector<Rendered> all;
  for (const Problem& p : gemm_problems())
    for (const int64_t m : {16, 17}) {
      const Isa isa = all.size() % 2 ? Isa::sm_80 : Isa::sm_90a;
      std::vector<CudaSchedule> schedules = cuda_schedules(p, {Device::cuda, isa}, 1, m);
      std::erase_if(schedules, [&](const CudaSchedule& s) { return s.is_decode() != (m <= 16); });
      REQUIRE(!schedules.empty());
      all.push_back(
          {p,
           *std::max_element(schedules.begin(), schedules.end(),
                             [](const CudaSchedule& a, const CudaSchedule& b) { return a.bm * a.bn < b.bm * b.bn; }),
           isa});
    }
  const std::vector<CompileResult> results = compile_rendered(*tool, all, OutputKind::cubin);
  for (size_t i = 0; i < results.size(); ++i) {
    const CompileResult& r = results[i];
    const CudaLaunch launch = cuda_launch(all[i].problem, all[i].schedule);
    REQUIRE(r.cuda.size() == 1);
    INFO(kernel_name(all[i].problem, all[i].schedule), ": ", r.cuda[0].registers, " registers, ",
         r.cuda[0].shared_bytes + launch.shared_bytes, " bytes shared, ", r.seconds, " s");
    CHECK(r.cuda[0].kernel == "qcg_kernel");
    CHECK(r.cuda[0].spill_store_bytes == 0);
    CHECK(r.cuda[0].spill_load_bytes == 0);
    CHECK(r.cuda[0].registers * launch.threads <= 65536);  // one block fits a multiprocessor
    CHECK(r.log.find("C75") == std::string::npos);         // C7510, C7515: ptxas made wgmma wait for one another
    CHECK(r.cuda[0].shared_bytes + launch.shared_bytes <= 160 << 10);
    CHECK(
        r.bytes.starts_with("\x7f"
                            "ELF"));
  }
}

// A multiprocessor idles where blocks are few; tiles are for many rows.
TEST_CASE("the model fills the device with few rows, and takes the largest tile for many") {
  const Problem p =
      plain_problem(Scheme::w4, DType::bf16, DType::i8, {4096}, {{4096, false, false, "w"}}, 128, DType::bf16);
  for (const Isa isa : {Isa::sm_80, Isa::sm_90a}) {
    const CudaSchedule one = cuda_schedules(p, {Device::cuda, isa}, 1, 1)[0],
                       many = cuda_schedules(p, {Device::cuda, isa}, 4096, 4096)[0];
    CHECK(one.is_decode());
    CHECK(cuda_launch(p, one).column_tiles >= 108);
    CHECK(many.bm == 128);
    CHECK(many.bn == 128);
  }
}

TEST_CASE("no candidate has more tiles of columns than a grid, and where none is left that is said") {
  const auto problem_of = [](DType dtype, int64_t n) {
    return plain_problem(Scheme::dense, dtype, dtype, {16}, {{n, false, false, "w"}}, 0, dtype);
  };
  for (const auto& [dtype, isa, n] : {std::tuple(DType::bf16, Isa::sm_80, 4300000),
                                      {DType::bf16, Isa::sm_90a, 4300000},
                                      {DType::f32, Isa::sm_80, 4100000},
                                      {DType::bf16, Isa::gfx90a, 4300000}}) {
    const Target target{isa_info(isa).device, isa};
    INFO(target.str(), " ", n);
    for (const int64_t m : {1, 4096}) {
      const Problem p = problem_of(dtype, n);
      CHECK(check_cuda_support(p, target.device).ok());
      const std::vector<CudaSchedule> all = cuda_schedules(p, target, m, m);
      CHECK(!all.empty());
      for (const CudaSchedule& s : all) CHECK(cuda_launch(p, s).column_tiles <= 65535);
    }
    for (const int64_t bad : {int64_t{0}, 2 * int64_t{n}}) {
      const Problem p = problem_of(dtype, bad);
      const Status status = check_cuda_support(p, target.device);
      REQUIRE(!status.ok());
      CHECK(status.error().code == ErrorCode::Unsupported);
      CHECK(status.error().message.find("columns") != std::string::npos);
      CHECK(status.error().help.find("--target=cpu") != std::string::npos);
      CHECK(cuda_schedules(p, target, 1, 1).empty());
    }
  }
}

TEST_CASE("rendering is pure, and what the template lacks is named") {
  const std::vector<Problem> problems = gemm_problems();
  Problem p = problems[1];
  const std::vector<CudaSchedule> all = cuda_schedules(p, {Device::cuda, Isa::sm_80}, 1, 4);
  REQUIRE(!all.empty());
  CHECK(all[0].is_decode());
  CHECK(all[0].bm == 8);
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
  unsupported.scheme = Scheme::da8f4;
  CHECK(render_gemm_cuda(unsupported, all[0], "k").error().code == ErrorCode::Unsupported);
  CHECK(cuda_schedules(unsupported, {Device::cuda, Isa::sm_80}, 1, INT64_MAX).empty());
  unsupported = p;
  unsupported.outputs[0].dtype = DType::boolean;
  CHECK(render_gemm_cuda(unsupported, all[0], "k").error().message.find("bool") != std::string::npos);
}

TEST_CASE("packing puts whole weights into swizzled rows, and refuses tensors of another shape") {
  const std::vector<Problem> problems = gemm_problems();
  const Problem& p = problems[1];  // n 33, k 37, bias
  GemmData data(p, {.m = 1});
  CHECK(data.packed.size() == 128 * 64 * 2 + 128 * 4);
  // Column 18 = 16 + 2 is row 2 of tile 1; k 29 = 3 * 8 + 5 is in chunk 3, which lies at 3 ^ 2.
  const int64_t at = 16 * 64 * 2 + 2 * 128 + (3 ^ 2) * 16 + 5 * 2;
  CHECK(element_to_double(DType::f16, data.packed.data() + at) ==
        element_to_double(DType::f16, data.tensors[0].weight.bytes().data() + (18 * 37 + 29) * 2));
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
