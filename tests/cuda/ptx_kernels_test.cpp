// The project's CUDA kernels, as NVRTC or nvcc compiles them, executed on the CPU: exact on integers, with counts.
#include <cstring>

#include "cache/toolchain/compile.h"
#include "codegen/build/build.h"
#include "codegen/kernel/support_headers.h"
#include "gemm_case.h"
#include "runtime/abi.h"
#include "tests/cuda/ptx/executor.h"

using namespace qcg;
using namespace qcg::test;

namespace {

struct Rendered {
  Problem problem;
  CudaSchedule schedule;
  Isa isa;
};

std::vector<Rendered> all_kernels(const std::vector<Problem>& problems, std::initializer_list<Isa> isas) {
  std::vector<Rendered> all;
  for (const Problem& p : problems)
    for (const Isa isa : isas)
      for (const CudaSchedule& c : cuda_schedules(p, {Device::cuda, isa}, 1, INT64_MAX)) all.push_back({p, c, isa});
  return all;
}

std::vector<std::string> ptx_of(const Toolchain& tool, const std::vector<Rendered>& kernels) {
  std::vector<CompileJob> jobs;
  for (const Rendered& k : kernels) {
    auto source = render_gemm_cuda(k.problem, k.schedule, "qcg_kernel");
    REQUIRE_MESSAGE(source.ok(), source.error().to_string());
    CompileJob job;
    job.language = Language::cuda;
    job.output = OutputKind::assembly;
    job.sources = {{"kernel.cu", *source}};
    for (const SourceFile& header : support_headers(k.isa)) job.headers.push_back({header.name, header.text});
    job.flags = compiler_flags(tool, k.isa);
    job.flags.push_back(tool.kind == ToolKind::nvrtc ? "--generate-line-info" : "-lineinfo");
    jobs.push_back(std::move(job));
  }
  auto results = compile_all(tool, jobs, {.timeout_s = 300, .memory_mb = 0});
  REQUIRE_MESSAGE(results.ok(), results.error().to_string());
  std::vector<std::string> texts;
  for (const CompileResult& r : *results) {
    REQUIRE_MESSAGE(r.ok(), r.log);
    texts.push_back(r.bytes);
  }
  return texts;
}

std::vector<uint8_t> as_bytes(const std::vector<std::byte>& bytes) {
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}

struct Call {
  int64_t m, x_stride;
  uint64_t shift = 0;  // bytes by which x misses its alignment
  bool poisoned = false;
  Values values = Values::real;
};

ptx::Counters run_call(const ptx::LoadedKernel& kernel, const Rendered& k, const Call& call) {
  const Problem& p = k.problem;
  GemmData data(p, call.m, call.x_stride, call.poisoned, call.values);
  ptx::GlobalMemory memory = kernel.memory();
  std::vector<qcg_arg> args;
  auto add = [&](const std::string& name, const std::vector<std::byte>& bytes, int64_t stride, ptx::Access access,
                 uint64_t shift) {
    const uint64_t address = memory.add(name, as_bytes(bytes), access, shift).address;
    args.push_back({reinterpret_cast<void*>(address), stride});
  };
  add("x", data.x.bytes, call.x_stride, ptx::Access::input, call.shift);
  for (size_t i = 0; i < data.operands.size(); ++i)
    add(fmt::format("operand {}", i), data.operands[i].bytes, data.operand_stride(i), ptx::Access::input, 0);
  add("weights", data.packed, 0, ptx::Access::input, 0);
  const size_t first_output = memory.buffers().size();
  for (size_t o = 0; o < data.outputs.size(); ++o)
    add(fmt::format("output {}", o), data.outputs[o].bytes, p.outputs[o].n, ptx::Access::output, 0);
  std::vector<uint8_t> block(args.size() * sizeof(qcg_arg) + 8);
  std::memcpy(block.data(), args.data(), args.size() * sizeof(qcg_arg));
  std::memcpy(block.data() + args.size() * sizeof(qcg_arg), &call.m, 8);
  const CudaLaunch launch = cuda_launch(p, k.schedule);
  const ptx::Outcome outcome = kernel.run({.grid = {static_cast<uint32_t>((call.m + launch.rows - 1) / launch.rows),
                                                    static_cast<uint32_t>(launch.column_tiles), 1},
                                           .block = {static_cast<uint32_t>(launch.threads), 1, 1},
                                           .dynamic_shared = static_cast<uint32_t>(launch.shared_bytes)},
                                          memory, {block});
  REQUIRE_MESSAGE(outcome.ok(), outcome.text());
  for (size_t o = 0; o < data.outputs.size(); ++o) {
    const ptx::Buffer& y = memory.buffers()[first_output + o];
    for (const uint8_t written : y.written) REQUIRE(written);
    if (!y.bytes.empty()) std::memcpy(data.outputs[o].bytes.data(), y.bytes.data(), y.bytes.size());
  }
  data.check();
  return outcome.counters;
}

}  // namespace

TEST_CASE("ptx: rendered CUDA kernels compute the problem, executed from their PTX") {
  auto tool = find_cuda();
  if (!tool.ok()) {
    MESSAGE("skipped: ", tool.error().message);
    return;
  }
  const std::vector<Rendered> all = all_kernels(gemm_problems(), {Isa::sm_80, Isa::sm_90a});
  REQUIRE(all.size() >= 14);
  const std::vector<std::string> texts = ptx_of(*tool, all);
  auto kernels = ptx::load_kernels(texts);
  REQUIRE_MESSAGE(kernels.ok(), kernels.error().to_string());
  for (size_t i = 0; i < all.size(); ++i) {
    const Rendered& k = all[i];
    const int64_t depth = k.problem.k, whole = (depth + 7) / 8 * 8;
    INFO(isa_info(k.isa).name, " ", k.schedule.describe(), " ", k.problem.signature());
    run_call((*kernels)[i], k, {1, whole});
    run_call((*kernels)[i], k, {17, depth, 0, false, Values::integers});  // rows as dense as they come
    run_call((*kernels)[i], k, {k.schedule.bm + 3, whole + 8, 0, true});  // NaN in every row but one, and between rows
    run_call((*kernels)[i], k, {5, whole, 2, false, Values::integers});   // x at an odd address
  }
}

// Slow code shows in counts: a tile whose shared memory has bank conflicts, or whose rows are read in pieces, costs
// more than these. Instructions are those of PTX, of CUDA 13; a margin of a tenth is for other compilers.
constexpr uint64_t kInstructions[] = {26824, 20560, 10320};  // 128x128, 64x64, 16x64; 13, 20 and 40 per mma
constexpr uint64_t kSectors[] = {8192, 6144, 3072};  // the ideal is 5120, 4608, 2688: y is stored in pieces of 2 bytes

TEST_CASE("ptx: what a tile of the prefill and the decode kernel costs") {
  auto tool = find_cuda();
  if (!tool.ok()) {
    MESSAGE("skipped: ", tool.error().message);
    return;
  }
  Problem p;
  p.activation = p.weight = DType::bf16;
  p.k = 256;
  p.k_segments = {256};
  p.segments = {{128, false, false, "plain"}};
  p.outputs = {{Expr::acc(0), DType::bf16, 128, {0}}};
  std::vector<Rendered> all = all_kernels({p}, {Isa::sm_80});
  REQUIRE(all.size() == 3);
  auto kernels = ptx::load_kernels(ptx_of(*tool, all));
  REQUIRE_MESSAGE(kernels.ok(), kernels.error().to_string());
  for (size_t i = 0; i < all.size(); ++i) {
    const int rows = all[i].schedule.bm;
    const ptx::Counters c = run_call((*kernels)[i], all[i], {rows, 256, 0, false, Values::integers});
    const uint64_t products = c.count("mma.sync");
    INFO(all[i].schedule.describe(), ": ", c.total(), " instructions, ", products, " mma, ", c.all_shared.cost,
         " wavefronts for ", c.all_shared.ideal, ", ", c.all_global.cost, " sectors for ", c.all_global.ideal, ", ",
         c.bytes_read, " bytes read");
    CHECK(c.total() <= kInstructions[i] * 11 / 10);
    CHECK(c.all_global.cost <= kSectors[i] * 11 / 10);
    CHECK(products == static_cast<uint64_t>(rows / 16 * (128 / 8) * (256 / 16)));
    CHECK(c.all_shared.ratio() <= 1.0);                                      // the swizzle leaves no bank conflict
    const uint64_t tiles = 128 / static_cast<uint64_t>(all[i].schedule.bn);  // of columns: each reads x
    CHECK(c.bytes_read == (static_cast<uint64_t>(rows) * tiles + 128) * 256 * 2);
    CHECK(c.bytes_written == static_cast<uint64_t>(rows) * 128 * 2);
  }
}
