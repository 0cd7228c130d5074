// The arithmetic of the rendered CUDA kernels, run lane by lane on the host (see host_device.cuh). Not the device's word.
#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "cache/toolchain/compile.h"
#include "codegen/kernel/launch.h"
#include "codegen/kernel/support_headers.h"
#include "gemm_case.h"
#include "runtime/abi.h"
#include "tests/paths.h"

using namespace qcg;
using namespace qcg::test;

namespace {

std::string read_file(const std::string& name) {
  std::ifstream in(source_dir() + "/tests/cuda/" + name);
  REQUIRE_MESSAGE(in, name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Emulated {
  const Problem* problem;
  Candidate candidate;
  Isa isa;
};

using Body = void (*)(const void*);
using EmulateGrid = void (*)(Body, const void*, int, int, int);

void* build_module(const std::vector<Emulated>& kernels) {
  auto cxx = find_cxx();
  REQUIRE(cxx.ok());
  CompileJob job;
  job.flags = kernel_flags(*cxx);
  job.headers = {{"device.cuh", read_file("host_device.cuh")}};
  for (const SourceFile& header : support_headers(Isa::sm_80))
    if (header.name != "device.cuh") job.headers.push_back({header.name, header.text});
  job.sources = {{"emulator.cpp", read_file("emulator.inc")}};
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string symbol = fmt::format("kernel_{}", i);
    auto source = render_gemm_cuda(*kernels[i].problem, kernels[i].candidate, symbol);
    REQUIRE_MESSAGE(source.ok(), source.error().to_string());
    // Parameters by value are laid out by the driver on a device, by this wrapper here.
    job.sources.push_back(
        {symbol + ".cpp", *source + fmt::format("extern \"C\" __attribute__((visibility(\"default\"))) void "
                                                "run_{0}(const void* args) {{ {0}(*(const Args*)args); }}\n",
                                                symbol)});
  }
  auto results = compile_all(*cxx, {&job, 1}, {.timeout_s = 600});
  REQUIRE_MESSAGE(results.ok(), results.error().to_string());
  REQUIRE_MESSAGE((*results)[0].ok(), (*results)[0].log);
  char path[] = "/tmp/qcg_cuda_XXXXXX";
  const int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, (*results)[0].bytes.data(), (*results)[0].bytes.size()) ==
          static_cast<ssize_t>((*results)[0].bytes.size()));
  close(fd);
  void* module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  REQUIRE_MESSAGE(module, dlerror());
  return module;
}

// 16-byte aligned memory of exactly the bytes, as a device allocation is.
struct Aligned {
  explicit Aligned(size_t bytes, size_t shift = 0) : memory(bytes + 32 + shift) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory.data());
    data = memory.data() + ((16 - at % 16) % 16) + shift;
  }
  std::vector<std::byte> memory;
  std::byte* data;
};

void run_emulated(void* module, size_t index, const Emulated& e, int64_t m, int64_t x_stride, size_t shift,
                  bool poisoned) {
  GemmData data(*e.problem, m, x_stride, poisoned);
  Aligned x(data.x.bytes.size(), shift), w(data.packed.size());
  std::memcpy(x.data, data.x.bytes.data(), data.x.bytes.size());
  std::memcpy(w.data, data.packed.data(), data.packed.size());
  std::vector<qcg_arg> args = {{x.data, x_stride}};
  for (size_t i = 0; i < data.operands.size(); ++i)
    args.push_back({data.operands[i].bytes.data(), data.operand_stride(i)});
  args.push_back({w.data, 0});
  for (size_t o = 0; o < data.outputs.size(); ++o)
    args.push_back({data.outputs[o].bytes.data(), e.problem->outputs[o].n});
  std::vector<std::byte> block(args.size() * sizeof(qcg_arg) + 8);
  std::memcpy(block.data(), args.data(), args.size() * sizeof(qcg_arg));
  std::memcpy(block.data() + args.size() * sizeof(qcg_arg), &m, 8);
  const CudaLaunch launch = cuda_launch(*e.problem, e.candidate);
  const auto emulate = reinterpret_cast<EmulateGrid>(dlsym(module, "emulate_grid"));
  const auto body = reinterpret_cast<Body>(dlsym(module, fmt::format("run_kernel_{}", index).c_str()));
  REQUIRE_FALSE(!emulate);
  REQUIRE_FALSE(!body);
  emulate(body, block.data(), static_cast<int>((m + launch.rows - 1) / launch.rows), launch.column_tiles,
          launch.threads);
  data.check();
}

}  // namespace

TEST_CASE("rendered CUDA kernels compute the problem, emulated on the host") {
  const std::vector<Problem> problems = gemm_problems();
  std::vector<Emulated> kernels;
  for (const Problem& p : problems)
    for (const Isa isa : {Isa::sm_80, Isa::sm_90a})
      for (const Candidate& c : cuda_candidates(p, {Device::cuda, isa}, 1, INT64_MAX)) kernels.push_back({&p, c, isa});
  REQUIRE(kernels.size() >= 14);
  void* module = build_module(kernels);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Emulated& e = kernels[i];
    const int64_t k = e.problem->k, whole = (k + 7) / 8 * 8;
    INFO(isa_info(e.isa).name, " ", e.candidate.describe(), " ", e.problem->signature());
    run_emulated(module, i, e, 1, whole, 0, false);
    run_emulated(module, i, e, 17, k, 0, false);                 // rows as dense as they come
    run_emulated(module, i, e, e.candidate.mr + 3, whole + 8, 0, true);  // NaN in every row but one, and between rows
    run_emulated(module, i, e, 5, whole, 2, false);              // x at an odd address
  }
}
