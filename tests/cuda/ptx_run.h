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

#include "cache/toolchain/compile.h"
#include "codegen/build/build.h"
#include "codegen/kernel/support_headers.h"
#include "gemm_case.h"
#include "runtime/abi.h"
#include "tests/cuda/ptx/executor.h"

namespace qcg::test {

struct Rendered {
  Problem problem;
  CudaSchedule schedule;
  Isa isa;
};

inline CompileJob cuda_job(const Toolchain& tool, const Rendered& k, OutputKind output) {
  auto source = render_gemm_cuda(k.problem, k.schedule, "qcg_kernel");
  REQUIRE_MESSAGE(source.ok(), source.error().to_string());
  CompileJob job;
  job.language = Language::cuda;
  job.output = output;
  job.sources = {{"kernel.cu", *source}};
  for (const SourceFile& header : support_headers(k.isa)) job.headers.push_back({header.name, header.text});
  job.flags = compiler_flags(tool, k.isa);
  if (output == OutputKind::assembly)
    job.flags.push_back(tool.kind == ToolKind::nvrtc ? "--generate-line-info" : "-lineinfo");
  return job;
}

inline std::vector<CompileResult> compile_rendered(const Toolchain& tool, const std::vector<Rendered>& kernels,
                                                   OutputKind output) {
  std::vector<CompileJob> jobs;
  for (const Rendered& k : kernels) jobs.push_back(cuda_job(tool, k, output));
  auto results = compile_all(tool, jobs, {.timeout_s = 300, .memory_mb = 0});
  REQUIRE_MESSAGE(results.ok(), results.error().to_string());
  for (size_t i = 0; i < kernels.size(); ++i)
    REQUIRE_MESSAGE((*results)[i].ok(), kernel_name(kernels[i].problem, kernels[i].schedule), "\n", (*results)[i].log);
  return std::move(*results);
}

inline std::vector<ptx::LoadedKernel> load_rendered(const Toolchain& tool, const std::vector<Rendered>& all) {
  std::vector<std::string> texts;
  for (CompileResult& r : compile_rendered(tool, all, OutputKind::assembly)) texts.push_back(std::move(r.bytes));
  auto kernels = ptx::load_kernels(texts);
  REQUIRE_MESSAGE(kernels.ok(), kernels.error().to_string());
  return std::move(*kernels);
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

// Runs a kernel and checks every element.
inline Asked run_rendered(const ptx::LoadedKernel& kernel, const Rendered& k, const GemmCall& call) {
  const Problem& p = k.problem;
  GemmData data(p, call);
  ptx::GlobalMemory memory = kernel.memory();
  std::vector<qcg_arg> args;
  auto add = [&](const std::string& name, const GemmData::Bytes& b, ptx::Access access, uint64_t shift) {
    const uint64_t address = memory.add(name, as_bytes(b.bytes), access, shift).address;
    args.push_back({reinterpret_cast<void*>(address), b.stride});
  };
  for (const GemmData::Bytes& x : data.xs) add("x", x, ptx::Access::input, call.shift);
  for (const GemmData::Bytes* of_rows : {&data.x_scale, &data.x_zero})
    if (of_rows->count()) add("of rows", *of_rows, ptx::Access::input, 0);
  for (const GemmData::Bytes& o : data.operands) add("operand", o, ptx::Access::input, 0);
  GemmData::Bytes weights;
  weights.bytes = data.packed;
  add("weights", weights, ptx::Access::input, 0);
  const uint64_t weights_at = reinterpret_cast<uint64_t>(args.back().data) >> ptx::kBufferShift;
  const size_t first_output = memory.buffers().size();
  for (const GemmData::Bytes& o : data.outputs) add("output", o, ptx::Access::output, 0);
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
  const auto asked = outcome.counters.buffers.find(weights_at);
  return {outcome.counters, asked == outcome.counters.buffers.end() ? ptx::Cost() : asked->second};
}

}  // namespace qcg::test
