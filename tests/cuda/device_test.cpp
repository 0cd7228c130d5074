// The driver arm of the runtime. Without a driver: its error. With one: every case on the device.
#include <cstring>

#include "cache/toolchain/compile.h"
#include "codegen/build/build.h"
#include "codegen/kernel/launch.h"
#include "codegen/kernel/support_headers.h"
#include "gemm_case.h"
#include "runtime/abi.h"
#include "runtime/cuda.h"

using namespace qcg;
using namespace qcg::test;

namespace {

CudaBuffer upload(CudaDriver& driver, const std::vector<std::byte>& bytes) {
  auto buffer = driver.allocate(bytes.size());
  REQUIRE_MESSAGE(buffer.ok(), buffer.error().to_string());
  const Status status = driver.copy_in(*buffer, bytes.data(), bytes.size());
  REQUIRE_MESSAGE(status.ok(), status.error().to_string());
  return std::move(*buffer);
}

void run_on_device(CudaDriver& driver, const CudaKernel& kernel, const Problem& p, const CudaSchedule& c,
                   const GemmCall& call) {
  GemmData data(p, call);
  const int64_t m = call.m;
  std::vector<CudaBuffer> buffers;
  std::vector<qcg_arg> args;
  auto add = [&](const std::vector<std::byte>& bytes, int64_t stride, uint64_t shift = 0) {
    std::vector<std::byte> shifted(shift);
    shifted.insert(shifted.end(), bytes.begin(), bytes.end());
    buffers.push_back(upload(driver, shifted));
    args.push_back({static_cast<std::byte*>(buffers.back().data()) + shift, stride});
  };
  add_inputs(data, call, [&](const char*, const GemmData::Bytes& b, uint64_t shift) { add(b.bytes, b.stride, shift); });
  for (const GemmData::Bytes& o : data.outputs) add(o.bytes, o.stride);
  std::vector<std::byte> block(args.size() * sizeof(qcg_arg) + 8);
  std::memcpy(block.data(), args.data(), args.size() * sizeof(qcg_arg));
  std::memcpy(block.data() + args.size() * sizeof(qcg_arg), &m, 8);
  const CudaLaunch launch = cuda_launch(p, c);
  const CudaGrid grid{static_cast<uint32_t>((m + launch.rows - 1) / launch.rows),
                      static_cast<uint32_t>(launch.column_tiles), static_cast<uint32_t>(launch.threads),
                      static_cast<uint32_t>(launch.shared_bytes)};
  const Status status = driver.launch(kernel, grid, block.data(), block.size());
  REQUIRE_MESSAGE(status.ok(), status.error().to_string());
  for (size_t o = 0; o < data.outputs.size(); ++o) {
    const CudaBuffer& from = buffers[buffers.size() - data.outputs.size() + o];
    REQUIRE(driver.copy_out(data.outputs[o].bytes.data(), from, from.bytes()).ok());
  }
  data.check();
}

}  // namespace

TEST_CASE("device: every candidate on the GPU, or a clear error without one") {
  auto driver = CudaDriver::load();
  if (!driver.ok()) {
    CHECK(driver.error().code == ErrorCode::Unsupported);
    CHECK(driver.error().message.find("NVIDIA") != std::string::npos);
    CHECK(driver.error().help.find("--target=cpu") != std::string::npos);
    MESSAGE("skipped: ", driver.error().message);
    return;
  }
  auto tool = find_cuda();
  if (!tool.ok()) {
    MESSAGE("skipped: ", tool.error().message);
    return;
  }
  const Isa isa = (*driver)->compute_capability() == 90 ? Isa::sm_90a : Isa::sm_80;
  std::vector<Problem> problems = gemm_problems();
  for (const std::vector<Problem>& more : {float8_problems(), fma_problems()})
    problems.insert(problems.end(), more.begin(), more.end());
  for (const Problem& p : problems)
    for (const CudaSchedule& c : cuda_schedules(p, {Device::cuda, isa}, 1, 16)) {
      INFO((*driver)->device_name(), " ", c.describe(), " ", p.signature());
      auto source = render_gemm_cuda(p, c, "qcg_kernel");
      REQUIRE(source.ok());
      CompileJob job{.language = Language::cuda,
                     .sources = {{"kernel.cu", *source}},
                     .headers = {},
                     .flags = compiler_flags(*tool, isa),
                     .output = OutputKind::cubin};
      for (const SourceFile& header : support_headers(isa)) job.headers.push_back({header.name, header.text});
      auto built = compile_all(*tool, {&job, 1}, {.timeout_s = 300, .memory_mb = 0});
      REQUIRE(built.ok());
      REQUIRE_MESSAGE((*built)[0].ok(), (*built)[0].log);
      auto kernel = (*driver)->load_kernel((*built)[0].bytes, "qcg_kernel");
      REQUIRE_MESSAGE(kernel.ok(), kernel.error().to_string());
      CHECK(!(*driver)->load_kernel((*built)[0].bytes, "absent").ok());
      const bool sparse = p.scheme == Scheme::nf4;  // whose numbers have 24 bits
      const uint64_t bytes = dtype_bytes(p.activation);
      for (const int64_t m : {int64_t{0}, int64_t{1}, int64_t{17}, int64_t{c.bm + 3}, int64_t{300}}) {
        run_on_device(**driver, *kernel, p, c, {.m = m, .sparse = sparse});
        run_on_device(**driver, *kernel, p, c, {.m = m, .shift = bytes, .sparse = sparse});
        const auto gap = static_cast<int64_t>(16 / bytes);
        run_on_device(**driver, *kernel, p, c, {.m = m, .gap = gap, .poisoned = true, .sparse = sparse});
      }
    }
}
