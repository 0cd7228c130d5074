// Rendered kernels to cubins, to PTX, and into the executor.
//
// Why here: linears and all other kernels of a device are compiled alike.
//
//   const std::vector<ptx::LoadedKernel> kernels = load_sources(*tool, sources);
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cache/toolchain/compile.h"
#include "codegen/build/build.h"
#include "codegen/kernel/support_headers.h"
#include "tests/cuda/ptx/executor.h"

namespace qcg::test {

inline std::vector<CompileResult> compile_sources(const Toolchain& tool, const std::vector<KernelSource>& sources,
                                                  OutputKind output) {
  std::vector<CompileJob> jobs;
  for (const KernelSource& source : sources) {
    CompileJob& job = jobs.emplace_back();
    job.language = language_of(source.isa);
    job.output = output;
    job.sources = {{"kernel" + std::string(source.source_suffix()), source.source}};
    for (const SourceFile& header : support_headers(source.isa)) job.headers.push_back({header.name, header.text});
    job.flags = compiler_flags(tool, source.isa);
    if (output == OutputKind::assembly && job.language == Language::cuda)
      job.flags.push_back(tool.kind == ToolKind::nvrtc ? "--generate-line-info" : "-lineinfo");
  }
  auto results = compile_all(tool, jobs, {.timeout_s = 300, .memory_mb = 0});
  REQUIRE_MESSAGE(results.ok(), results.error().to_string());
  for (size_t i = 0; i < sources.size(); ++i)
    REQUIRE_MESSAGE((*results)[i].ok(), sources[i].name, "\n", (*results)[i].log);
  return std::move(*results);
}

inline std::vector<ptx::LoadedKernel> load_sources(const Toolchain& tool, const std::vector<KernelSource>& sources) {
  std::vector<std::string> texts;
  for (CompileResult& r : compile_sources(tool, sources, OutputKind::assembly)) texts.push_back(std::move(r.bytes));
  auto kernels = ptx::load_kernels(texts);
  REQUIRE_MESSAGE(kernels.ok(), kernels.error().to_string());
  return std::move(*kernels);
}

}  // namespace qcg::test
