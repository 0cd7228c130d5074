// A compile job for kernels of one ISA, with the precompiled header that all such jobs of a test program share.
//
// Why here: the intrinsics' headers cost as much as a kernel, and these tests compile hundreds of kernels.
//
//   CompileJob job = new_job(cxx, Isa::avx2);
//   job.sources[0].text += kernel;               // after the #include lines
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "cache/store/store.h"
#include "cache/toolchain/compile.h"
#include "cache/toolchain/toolchain.h"
#include "codegen/kernel/support_headers.h"
#include "codegen/kernel/target.h"

namespace qcg::test {

// Whether tiles of AMX are emulated on the AVX-512 that their kernels also use.
inline bool emulates_amx() {
  return !why_isa_unavailable(Isa::amx).empty() && why_isa_unavailable(Isa::avx512bf16).empty();
}

// flags_of: whose instructions the compiler may use; more: flags after those of the target table.
inline CompileJob new_job(const Toolchain& cxx, Isa isa, Isa flags_of, const std::vector<std::string>& more = {}) {
  CompileJob job;
  const std::string includes = include_lines(isa);
  for (const SourceFile& header : support_headers(isa)) job.headers.push_back({header.name, header.text});
  job.sources = {{"kernel.cpp", includes}};
  job.flags = kernel_flags(cxx);
  for (const std::string& flag : kernel_flags(flags_of)) job.flags.push_back(flag);
  job.flags.insert(job.flags.end(), more.begin(), more.end());

  static std::map<std::string, Pch> headers;
  const auto [entry, is_new] = headers.try_emplace(fmt::format("{} {}", includes, fmt::join(job.flags, " ")));
  if (is_new) {
    Store store = Store::none();
    auto made = ensure_pch(cxx, includes, job.headers, job.flags, store);
    REQUIRE_MESSAGE(made.ok(), "no precompiled header");
    entry->second = std::move(*made);
  }
  job.pch = &entry->second;
  return job;
}

inline CompileJob new_job(const Toolchain& cxx, Isa isa) { return new_job(cxx, isa, isa); }

inline CompileJob new_emulated_job(const Toolchain& cxx) {
  return new_job(cxx, Isa::amx, Isa::avx512bf16, {"-O1", "-DQCG_EMULATE_AMX"});
}

}  // namespace qcg::test
