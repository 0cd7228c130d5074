// compile_all: sources in, shared objects (or assembly, or cubins) out, several compilers at a time.
//
// Why here: this is the only place that starts a compiler. Sources are written under a private temporary directory that
// is the compiler's working directory, so no path of the user reaches its arguments; flags come from the caller's
// table. A source that does not compile is a result with a log, a compiler that cannot be started is an Error.
//
// What a compile costs, CPU seconds of g++ 12 for eight AVX-512 microkernels that include immintrin.h and cstdint:
//
//                                     plain  with ensure_pch
//   one process per kernel            2.87   0.53   isolates failures, one cache entry each: the default, with a Pch
//   one g++, eight sources            2.67   0.39
//   two sources of four, in parallel  0.82   0.23
//   one source with all eight         0.46   0.18   one bad kernel takes the others with it
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

enum class OutputKind { shared_object, assembly, cubin, precompiled_header };  // assembly of CUDA is PTX

struct SourceText {
  std::string name;  // relative path without ".." ("kernel.cpp", "quant/w8.h"); never a shell word
  std::string text;
};

// A precompiled header as this process uses it: a verified copy in its own scratch directory.
struct Pch {
  std::vector<std::string> flags;  // what a compile adds to use it; empty where there is none
  bool hit = false;                // it came from the store
  double seconds = 0;              // to compile it, if it did not
  std::shared_ptr<const ScratchDir> dir;
};

struct CompileJob {
  Language language = Language::cpp;
  std::vector<SourceText> sources;  // several sources become one shared object
  std::vector<SourceText> headers;  // written beside the sources, found by #include "…"
  std::vector<std::string> flags;
  OutputKind output = OutputKind::shared_object;
  const Pch* pch = nullptr;  // must have been made with the same flags
};

// One kernel of a CUDA compile, from ptxas -v.
struct CudaUsage {
  std::string kernel;
  int registers = 0, spill_store_bytes = 0, spill_load_bytes = 0, shared_bytes = 0;
};

struct CompileResult {
  std::string bytes;  // the output file; empty unless ok()
  std::string log;    // what the compiler said, warnings too
  double seconds = 0;
  int exit_status = 0;
  int starts = 0;          // of the compiler: 2 where it was late once
  bool timed_out = false;  // also alone; or not started any more, because the compiler was late with others alone
  bool cancelled = false;
  long max_rss_kb = 0;
  std::vector<CudaUsage> cuda;

  bool ok() const { return exit_status == 0 && !timed_out && !cancelled && !bytes.empty(); }
};

struct CompileLimits {
  double timeout_s = 120;  // of one compiler; one that is late beside others is started once more, alone
  long memory_mb = 4096;  // address space of one compiler process
  int jobs = 0;           // 0: as many as cores and memory allow
  long need_mb = 500;     // memory one job is expected to need: bounds the number of jobs
  std::string temp_root;  // empty: default_temp_root()
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(size_t done, size_t of)> on_done;  // after each job, by one thread at a time
};

// "g++ did not finish within 120 s": of a result that timed out.
std::string late_message(const Toolchain& toolchain, const CompileLimits& limits);
inline constexpr const char* kLateHelp = "use fewer --jobs, or compile while the machine has less to do";

// One result per job, in order. Errors: Toolchain if the compiler cannot be started or a flag is refused
// (-ffast-math and its parts, -march=native: they would make results or keys lie), Io if there is no room to work.
Result<std::vector<CompileResult>> compile_all(const Toolchain& toolchain, std::span<const CompileJob> jobs,
                                               const CompileLimits& limits = {});

// Jobs to run at once: min(requested or cores, available memory / need), at least 1.
int parallel_jobs(const CompileLimits& limits);

// The compiler's arguments for a job, without the program and the precompiled header: for keys and to show a person.
std::vector<std::string> compile_arguments(const Toolchain& toolchain, const CompileJob& job);

// A precompiled header for `header_text` under exactly these flags, from the store or made now (26 MB in the store).
// `headers` are what it includes with quotes. Where the compiler cannot do it, the result has no flags and compiles
// just take longer.
Result<Pch> ensure_pch(const Toolchain& toolchain, const std::string& header_text, std::span<const SourceText> headers,
                       const std::vector<std::string>& flags, Store& store, const CompileLimits& limits = {});

// "ptxas info" lines of a log.
std::vector<CudaUsage> parse_cuda_usage(const std::string& log);

}  // namespace qcg
