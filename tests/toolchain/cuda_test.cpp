// NVRTC and nvcc behind the same interface; each case is skipped with a reason where the tool is not installed.
#include "../cache/cache_test_util.h"
#include "cache/toolchain/compile.h"

using namespace qcg;
using namespace qcg::testing;

namespace {

const char kCudaKernel[] =
    "#include \"scale.h\"\n#include <cuda_bf16.h>\n"
    "extern \"C\" __global__ void scale(float* x, int n) {\n"
    "  __shared__ float s[64];\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  s[threadIdx.x & 63] = i < n ? x[i] * SCALE : 0.0f;\n  __syncthreads();\n"
    "  if (i < n) x[i] = s[(threadIdx.x + 1) & 63] + __bfloat162float(__float2bfloat16(x[i]));\n}\n";

void check_tool(const Result<Toolchain>& tool, const std::vector<std::string>& flags) {
  if (!tool.ok()) {
    MESSAGE("skipped: " << tool.error().message);
    return;
  }
  CHECK(is_sha256_hex(tool->fingerprint));
  TestDir dir;
  CompileJob job{.language = Language::cuda,
                 .sources = {{"kernel.cu", kCudaKernel}},
                 .headers = {{"scale.h", "#define SCALE 2.0f\n"}},
                 .flags = flags,
                 .output = OutputKind::cubin};
  const CompileLimits limits{.timeout_s = 120, .memory_mb = 0, .temp_root = dir.path()};
  auto results = compile_all(*tool, {&job, 1}, limits);
  REQUIRE_MESSAGE(results.ok(), (results.ok() ? "" : results.error().to_string()));
  const CompileResult& result = results->at(0);
  REQUIRE_MESSAGE(result.ok(), result.log);
  MESSAGE(tool_kind_name(tool->kind) << " " << tool->version << ": " << result.seconds << " s");
  CHECK(
      result.bytes.starts_with("\x7f"
                               "ELF"));
  REQUIRE(result.cuda.size() == 1);
  CHECK(result.cuda[0].kernel == "scale");
  CHECK(result.cuda[0].registers > 0);
  CHECK(result.cuda[0].shared_bytes == 256);
  CHECK(result.cuda[0].spill_store_bytes == 0);
  CHECK(count_files(dir.path()) == 0);

  job.output = OutputKind::assembly;
  results = compile_all(*tool, {&job, 1}, limits);
  REQUIRE(results.ok());
  CHECK(results->at(0).bytes.find(".visible .entry scale") != std::string::npos);

  job.sources[0].text = "__global__ void broken( {";
  results = compile_all(*tool, {&job, 1}, limits);
  REQUIRE(results.ok());
  CHECK(!results->at(0).ok());
  CHECK(results->at(0).log.find("kernel.cu(1)") != std::string::npos);
}

}  // namespace

TEST_CASE("NVRTC makes cubins") { check_tool(find_nvrtc(), {"--gpu-architecture=sm_80", "--std=c++17"}); }

TEST_CASE("nvcc makes cubins") { check_tool(find_nvcc(), {"-arch=sm_80", "-std=c++17"}); }

TEST_CASE("nvcc, which uses a shell of its own, gets only plain names and flags") {
  Toolchain nvcc{.path = "/bin/false", .kind = ToolKind::nvcc};
  CompileJob job{.language = Language::cuda, .sources = {{"$(touch x).cu", ""}}, .output = OutputKind::cubin};
  CHECK(!compile_all(nvcc, {&job, 1}).ok());
  job.sources[0].name = "k.cu";
  CHECK(compile_all(nvcc, {&job, 1}).ok());
  job.flags = {"-DX=`touch x`"};
  CHECK(!compile_all(nvcc, {&job, 1}).ok());
}

TEST_CASE("resource usage is read from the log") {
  auto usage = parse_cuda_usage(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'gemm' for 'sm_90a'\n"
      "ptxas info    : Function properties for gemm\n"
      "    40 bytes stack frame, 36 bytes spill stores, 44 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 49152 bytes smem, 400 bytes cmem[0]\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
      "ptxas info    : Used 12 registers, 360 bytes cmem[0]\n");
  REQUIRE(usage.size() == 2);
  CHECK(usage[0].kernel == "gemm");
  CHECK(usage[0].registers == 255);
  CHECK(usage[0].spill_store_bytes == 36);
  CHECK(usage[0].spill_load_bytes == 44);
  CHECK(usage[0].shared_bytes == 49152);
  CHECK(usage[1].registers == 12);
  CHECK(usage[1].shared_bytes == 0);
  CHECK(parse_cuda_usage("garbage\n%s%n 99999999999999999999 bytes smem").empty());
}
