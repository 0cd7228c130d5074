// KernelBuilder: from rendered source to verified shared-object or cubin bytes, through the kernel cache.
//
// Why here: plan steps, tuner candidates and `--tune=off` all build the same way; no other part of codegen/ calls the
// compiler.
//
//   KernelBuilder builder(cxx, store, limits);
//   QCG_TRY(built, builder.build({{name, symbol, source, Isa::avx512}, …}));
//   if (built[0].ok()) load(built[0].bytes);
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cache/store/store.h"
#include "cache/toolchain/compile.h"
#include "cache/toolchain/toolchain.h"
#include "codegen/kernel/launch.h"
#include "codegen/kernel/target.h"

namespace qcg {

// The version that is part of every key: raise it when rendering, packing or the ABI change meaning.
inline constexpr std::string_view kGeneratorVersion = "0.1.0";

// The suffixes of a kernel's files.
struct KernelSuffixes {
  std::string_view module, source;
};
inline constexpr KernelSuffixes kSuffixes[] = {{".so", ".cpp"}, {".cubin", ".cu"}, {".hsaco", ".hip"}};  // by Device
inline const KernelSuffixes& suffixes_of(Isa isa) { return kSuffixes[static_cast<size_t>(isa_info(isa).device)]; }

struct KernelSource {
  std::string name;    // kernel_name(): log, cache listing, file name in the program
  std::string symbol;  // of the qcg_kernel it defines
  std::string source;  // one translation unit
  Isa isa = Isa::portable;
  CudaLaunch launch{};  // of a kernel for a device

  bool on_device() const { return qcg::on_device(isa); }
  std::string_view module_suffix() const { return suffixes_of(isa).module; }
  std::string_view source_suffix() const { return suffixes_of(isa).source; }
};

struct BuiltKernel {
  KernelSource source;
  std::string key;        // hex, of the cache entry
  std::string bytes;      // the shared object, cubin or code object; empty if it failed
  std::string resources;  // of a kernel for a device: "96 registers, 0 spills, 48 KiB shared"
  bool hit = false;
  double compile_s = 0;
  std::string failure;               // why it did not build: the compiler's first error line; empty if it did
  bool late = false;                 // it did not build because the compiler was not done in time
  std::optional<VendorCall> vendor;  // of a vendor's kernel (extern_kernel.h), which no compiler has built

  bool ok() const { return failure.empty() && !bytes.empty(); }
};

struct BuildCounters {
  int compiler_runs = 0;
  int cache_hits = 0;
  int late = 0;                       // kernels whose compiler was not done in time
  std::string late_why;               // of the last of them
  double compiler_s = 0;              // sum over processes
  std::map<std::string, int> misses;  // what differs from the nearest entry, and for how many kernels; if asked for
};

// The compiler of a target's kernels: NVRTC or nvcc for cuda, hipcc for hip, else g++ or clang.
Result<Toolchain> find_compiler(const Target& target, const ToolchainOptions& options);
Language language_of(Isa isa);
// What kernels for an ISA are compiled with: language standard, optimization, no contraction that the source does not
// write.
std::vector<std::string> compiler_flags(const Toolchain& toolchain, Isa isa);

class KernelBuilder {
 public:
  KernelBuilder(Toolchain cxx, Store& store, CompileLimits limits, bool explain_misses = false)
      : cxx_(std::move(cxx)), store_(store), limits_(limits), explain_misses_(explain_misses) {}

  // One result per source, in order. A source that does not compile is a result; a compiler that cannot run is an
  // Error. Error Interrupted: the limits' `cancel` was set.
  Result<std::vector<BuiltKernel>> build(std::vector<KernelSource> sources);
  const BuildCounters& counters() const { return counters_; }
  const Toolchain& toolchain() const { return cxx_; }

 private:
  Status prepare_pch(const CompileJob& job, Isa isa, size_t kernels, Pch& out);
  Status compile_missing(std::vector<BuiltKernel>& kernels, const std::vector<size_t>& missing,
                         const std::vector<std::string>& dumps);

  Toolchain cxx_;
  Store& store_;
  CompileLimits limits_;
  bool explain_misses_;
  BuildCounters counters_;
};

// Error Toolchain: why a kernel that has no other candidate did not build.
Error build_error(const BuiltKernel& kernel);

// The compiler's listing of every source. Error Toolchain if one does not compile.
Result<std::vector<std::string>> assemble(const Toolchain& cxx, const std::vector<KernelSource>& sources,
                                          const CompileLimits& limits);

}  // namespace qcg
