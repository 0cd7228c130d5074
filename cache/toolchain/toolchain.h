// Toolchain: which compiler there is, and what identifies it.
//
// Why here: an entry may be reused only if the programs that made it are the same bytes, so a compiler is known by a
// fingerprint: version text, resolved path, and size and SHA-256 of the driver, cc1plus, as and ld (for clang of the
// driver, its libraries, as and ld). Times are never part of it.
//
//   QCG_TRY(cxx, find_cxx({.cxx = flag_value, .env_cxx = getenv_value}));
//   key.add("toolchain", cxx.fingerprint);
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/result.h"

namespace qcg {

enum class Language { cpp, cuda };
enum class ToolKind { gcc, clang, nvcc, nvrtc };

inline constexpr int kMinGcc = 11;
inline constexpr int kMinClang = 14;

struct Toolchain {
  std::string path;  // the program as it is started; for nvrtc the library
  ToolKind kind = ToolKind::gcc;
  std::string version;  // "12.2.0"
  int major = 0;
  std::string fingerprint;  // SHA-256
  std::string include_dir;  // of CUDA's headers, for nvrtc
  std::string identity;     // what the fingerprint was made of, one line per ingredient, for `doctor` and key dumps
};

struct ToolchainOptions {
  std::string cxx;      // --cxx: a path or a name on PATH; if set, nothing else is tried
  std::string env_cxx;  // QCG_CXX, read by the caller: likewise
  std::string path;     // where programs are looked up; empty: PATH
  const std::atomic<bool>* cancel = nullptr;  // set while a program is being asked: it is ended, error Interrupted
};

std::string tool_kind_name(ToolKind kind);

// g++ >= 11 or clang++ >= 14: --cxx, then QCG_CXX, then g++, g++-NN, clang++, clang++-NN on the path, newest first.
// The answer is kept for the life of the process. Toolchain error with the remedy if there is none.
Result<Toolchain> find_cxx(const ToolchainOptions& options = {});

// nvcc on the path or in /usr/local/cuda/bin.
Result<Toolchain> find_nvcc(const ToolchainOptions& options = {});

// libnvrtc by its soname, in /usr/local/cuda, or beside nvcc.
Result<Toolchain> find_nvrtc(const ToolchainOptions& options = {});

// NVRTC if present (ten times quicker to start), else nvcc.
Result<Toolchain> find_cuda(const ToolchainOptions& options = {});

// The flags every generated C++ kernel is built with, before the ISA's: optimization, visibility, strict floating
// point. Part of the key, as all flags are.
std::vector<std::string> kernel_flags(const Toolchain& toolchain);

}  // namespace qcg
