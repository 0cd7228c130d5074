// NVRTC, loaded at run time: compiles a CUDA source to a cubin in 50 ms. Private to cache/.
//
// Why here: NVRTC is a compiler like the others, but a library instead of a program. Each compile runs in a forked
// child, so that a crash, a hang or a lack of memory is a result and does not end our process.
//
//   QCG_TRY(library, find_nvrtc_library(nvcc_path));
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cache/toolchain/compile.h"

namespace qcg {

struct NvrtcLibrary {
  std::string path;  // with symbolic links resolved
  std::string version;
  std::string include_dir;  // the directory of cuda_bf16.h; empty if not found
};

// Where libraries of CUDA lie: prefixes of a file's name. The first, "", leaves the search to the dynamic linker.
std::vector<std::string> cuda_library_folders(const std::string& nvcc_path);

Result<NvrtcLibrary> find_nvrtc_library(const std::string& nvcc_path);

// Compiles the job's one source to `output_file`, in the child. Writes the log to stdout and returns an exit status.
int run_nvrtc(const Toolchain& toolchain, const CompileJob& job, const std::string& output_file);

}  // namespace qcg
