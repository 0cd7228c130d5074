// NVRTC, loaded at run time: CUDA source to cubin in 50 ms. Private to cache/.
//
// Why here: it is a compiler like the others, reached through a library instead of a program. A compile runs in a
// forked child, so that a crash, a hang or a lack of memory in it is a result and not our end.
//
//   QCG_TRY(library, find_nvrtc_library(nvcc_path));
#pragma once

#include <string>

#include "base/result.h"
#include "cache/toolchain/compile.h"

namespace qcg {

struct NvrtcLibrary {
  std::string path;  // resolved
  std::string version;
  std::string include_dir;  // of cuda_bf16.h; empty if not found
};

Result<NvrtcLibrary> find_nvrtc_library(const std::string& nvcc_path);

// Compiles the job's one source into `output_file`. The log goes to stdout; returns an exit status. Runs in the child.
int run_nvrtc(const Toolchain& toolchain, const CompileJob& job, const std::string& output_file);

}  // namespace qcg
