// Kernels of problems in the executor: rendered, compiled to PTX, loaded, called.
//
// Why here: tests of every kernel family begin so.
//
//   const std::vector<Rendered> all = …;
//   const auto kernels = load_rendered(*tool, all);  run_rendered(kernels[0], all[0], {.m = 5});
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "cuda_compiler.h"
#include "gemm_case.h"
#include "runtime/abi.h"
#include "tests/cuda/compile_sources.h"

namespace qcg::test {

struct Rendered {
  Problem problem;
  CudaSchedule schedule;
  Isa isa;
};

inline std::vector<KernelSource> sources_of(const std::vector<Rendered>& kernels) {
  std::vector<KernelSource> out;
  for (const Rendered& k : kernels) {
    auto source = render_gemm_cuda(k.problem, k.schedule, "qcg_kernel");
    REQUIRE_MESSAGE(source.ok(), source.error().to_string());
    out.push_back(
        {kernel_name(k.problem, k.schedule), "qcg_kernel", *source, k.isa, cuda_launch(k.problem, k.schedule)});
  }
  return out;
}

inline std::vector<CompileResult> compile_rendered(const Toolchain& tool, const std::vector<Rendered>& kernels,
                                                   OutputKind output) {
  return compile_sources(tool, sources_of(kernels), output);
}

inline std::vector<ptx::LoadedKernel> load_rendered(const Toolchain& tool, const std::vector<Rendered>& kernels) {
  return load_sources(tool, sources_of(kernels));
}

inline std::vector<uint8_t> as_bytes(const std::vector<std::byte>& bytes) {
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}

// What a kernel asked of the device, and of its weights alone: sectors of 32 bytes.
struct Asked {
  ptx::Counters all;
  ptx::Cost weights;
};

struct Executed {
  ptx::Outcome outcome;
  ptx::Cost weights;
};

// Runs a kernel on the data of a call; its outputs are in them.
inline Executed execute_rendered(const ptx::LoadedKernel& kernel, const Rendered& k, const GemmCall& call,
                                 GemmData& data) {
  const Problem& p = k.problem;
  ptx::GlobalMemory memory = kernel.memory();
  std::vector<qcg_arg> args;
  auto add = [&](const std::string& name, const GemmData::Bytes& b, ptx::Access access, uint64_t shift) {
    const uint64_t address = memory.add(name, as_bytes(b.bytes), access, shift).address;
    args.push_back({reinterpret_cast<void*>(address), b.stride});
  };
  add_inputs(data, call, [&](const char* name, const GemmData::Bytes& b, uint64_t shift) {
    add(name, b, ptx::Access::input, shift);
  });
  const uint64_t weights_at = reinterpret_cast<uint64_t>(args.back().data) >> ptx::kBufferShift;
  const size_t first_output = memory.buffers().size();
  for (const GemmData::Bytes& o : data.outputs) add("output", o, ptx::Access::output, 0);
  std::vector<uint8_t> block(args.size() * sizeof(qcg_arg) + 8);
  std::memcpy(block.data(), args.data(), args.size() * sizeof(qcg_arg));
  std::memcpy(block.data() + args.size() * sizeof(qcg_arg), &call.m, 8);
  const CudaLaunch launch = cuda_launch(p, k.schedule);
  ptx::Outcome outcome = kernel.run(
      {.grid = {static_cast<uint32_t>(launch.blocks({&call.m, 1})), static_cast<uint32_t>(launch.column_tiles), 1},
       .block = {static_cast<uint32_t>(launch.threads), 1, 1},
       .dynamic_shared = static_cast<uint32_t>(launch.shared_bytes)},
      memory, {block});
  for (size_t o = 0; o < data.outputs.size(); ++o) {
    const ptx::Buffer& y = memory.buffers()[first_output + o];
    if (outcome.ok())
      for (const uint8_t written : y.written) REQUIRE(written);
    if (!y.bytes.empty()) std::memcpy(data.outputs[o].bytes.data(), y.bytes.data(), y.bytes.size());
  }
  const auto asked = outcome.counters.buffers.find(weights_at);
  const ptx::Cost weights_asked = asked == outcome.counters.buffers.end() ? ptx::Cost() : asked->second;
  return {std::move(outcome), weights_asked};
}

// Runs a kernel and checks every element.
inline Asked run_rendered(const ptx::LoadedKernel& kernel, const Rendered& k, const GemmCall& call) {
  GemmData data(k.problem, call);
  const Executed executed = execute_rendered(kernel, k, call, data);
  REQUIRE_MESSAGE(executed.outcome.ok(), executed.outcome.text());
  data.check();
  return {executed.outcome.counters, executed.weights};
}

// Compiles kernels and runs each: a row, x at an odd address, NaN wherever it must not matter.
inline void run_exactly(const std::vector<Rendered>& all) {
  const auto tool = cuda_compiler();
  if (!tool) return;
  REQUIRE(!all.empty());
  const std::vector<ptx::LoadedKernel> kernels = load_rendered(*tool, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const Rendered& k = all[i];
    const uint64_t bytes = dtype_bytes(k.problem.activation);
    INFO(isa_info(k.isa).name, " ", k.schedule.describe(), " ", k.problem.signature());
    const bool sparse = k.problem.scheme == Scheme::nf4;  // whose numbers have 24 bits
    run_rendered(kernels[i], k, {.m = 1, .sparse = sparse});
    run_rendered(kernels[i], k, {.m = 5, .shift = bytes, .sparse = sparse});
    const auto gap = static_cast<int64_t>(16 / bytes);
    run_rendered(kernels[i], k, {.m = k.schedule.bm + 3, .gap = gap, .poisoned = true, .sparse = sparse});
  }
}

}  // namespace qcg::test
