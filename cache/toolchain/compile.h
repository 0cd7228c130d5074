// compile_all: compiles sources to shared objects, assembly or cubins, with several compilers at a time.
//
// Why here: no other code starts a compiler. Sources are written to a private temporary directory, which is the
// compiler's working directory, so no path of the user reaches its arguments. Flags come from the caller's table. A
// source that does not compile gives a result with a log; a compiler that cannot be started gives an Error.
//
// CPU seconds of g++ 12 for eight AVX-512 microkernels that include immintrin.h and cstdint:
//
//                                     plain  with ensure_pch
//   one process per kernel            2.87   0.53   the default, with a Pch: isolates failures, one cache entry each
//   one g++, eight sources            2.67   0.39
//   two sources of four, in parallel  0.82   0.23
//   one source with all eight         0.46   0.18   one bad kernel makes all of them fail
//
//   CompileJob job{.sources = {{"kernel.cpp", text}}, .flags = kernel_flags(cxx), .pch = &pch};
//   QCG_TRY(results, compile_all(cxx, {&job, 1}, {.timeout_s = 60}));
//   if (results[0].ok()) publish(results[0].bytes);
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/store/store.h"
#include "cache/toolchain/toolchain.h"

namespace qcg {

class ScratchDir;

// Assembly of CUDA is PTX. A cubin of HIP is a code object.
enum class OutputKind { shared_object, assembly, cubin, precompiled_header };

struct SourceText {
  std::string name;  // relative path without ".." ("kernel.cpp", "quant/int4.h"); never a shell word
  std::string text;
};

// A precompiled header of this process: a verified copy in a scratch directory.
struct Pch {
  std::vector<std::string> flags;  // compiles add these flags to use it; empty if there is none
  bool hit = false;                // it came from the store
  double seconds = 0;              // time to compile it, if it did not come from the store
  std::shared_ptr<const ScratchDir> dir;
};

struct CompileJob {
  Language language = Language::cpp;
  std::vector<SourceText> sources;  // several sources become one shared object
  std::vector<SourceText> headers;  // written beside the sources, for #include "…"
  std::vector<std::string> flags;
  OutputKind output = OutputKind::shared_object;
  const Pch* pch = nullptr;  // made with the same flags
};

// The resources of one kernel of a CUDA or HIP compile, as reported by ptxas -v or by clang.
struct CudaUsage {
  std::string kernel;
  int registers = 0, spill_store_bytes = 0, spill_load_bytes = 0, shared_bytes = 0;
  int scratch_bytes = 0;  // of a lane of a HIP kernel: spills, and arrays that are not in registers
  int spilled_bytes() const { return spill_store_bytes + spill_load_bytes + scratch_bytes; }
};

struct CompileResult {
  std::string bytes;  // the output file; empty unless ok()
  std::string log;    // the compiler's output, including warnings
  double seconds = 0;
  int exit_status = 0;
  int starts = 0;          // how often the compiler was started: 2 after a timeout
  bool timed_out = false;  // it timed out also alone, or was not tried alone because other jobs had timed out alone
  bool cancelled = false;
  long max_rss_kb = 0;
  std::vector<CudaUsage> cuda;  // or HIP

  bool ok() const { return exit_status == 0 && !timed_out && !cancelled && !bytes.empty(); }
};

struct CompileLimits {
  double timeout_s = 120;  // per job; a job that times out beside others is started once more, alone
  long memory_mb = 4096;   // address space of one compiler process
  int jobs = 0;            // 0: as many as cores and memory allow
  long need_mb = 500;      // expected memory of one job, which limits the number of jobs
  std::string temp_root;   // empty: default_temp_root()
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(size_t done, size_t of)> on_done;  // after each job, by one thread at a time
};

// The message for a result that timed out: "g++ did not finish within 120 s".
std::string late_message(const Toolchain& toolchain, const CompileLimits& limits);
inline constexpr const char* kLateHelp = "use fewer --jobs, or compile while the machine is less busy";

// Returns one result per job, in order. Error Toolchain: the compiler cannot be started, or a flag is refused, such as
// -ffast-math, which changes results, or -march=native, whose code the key would not determine. Error Io: no space.
Result<std::vector<CompileResult>> compile_all(const Toolchain& toolchain, std::span<const CompileJob> jobs,
                                               const CompileLimits& limits = {});

// The number of jobs to run at a time: min(requested or cores, available memory / need_mb), at least 1.
int parallel_jobs(const CompileLimits& limits);

// The compiler's arguments for a job, without the program and the precompiled header; for keys and messages.
std::vector<std::string> compile_arguments(const Toolchain& toolchain, const CompileJob& job);

// Returns a precompiled header for `header_text` with exactly these flags, from the store or compiled now (26 MB in the
// store). `headers` are the files that it includes with quotes. If the compiler cannot make it, the result has no
// flags, and compiles take longer. So it is with MissingPch::skip where the store has none.
enum class MissingPch { make, skip };
Result<Pch> ensure_pch(const Toolchain& toolchain, const std::string& header_text, std::span<const SourceText> headers,
                       const std::vector<std::string>& flags, Store& store, const CompileLimits& limits = {},
                       MissingPch missing = MissingPch::make);

// Parses the "ptxas info" lines of a log.
std::vector<CudaUsage> parse_cuda_usage(const std::string& log);
// Parses clang's remarks "kernel-resource-usage".
std::vector<CudaUsage> parse_hip_usage(const std::string& log);

}  // namespace qcg
