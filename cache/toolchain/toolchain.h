// Toolchain: finds the compiler and identifies it.
//
// Why here: an entry may be reused only if it was made by programs with the same bytes. So a fingerprint identifies a
// compiler: version text, resolved path, and size and SHA-256 of the driver, cc1plus, as and ld (for clang, of the
// driver, its libraries, as and ld). Times are no part of it.
//
//   QCG_TRY(cxx, find_cxx({.cxx = flag_value, .env_cxx = getenv_value}));
//   key.add("toolchain", cxx.fingerprint);
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace qcg {

enum class Language { cpp, cuda, hip };
enum class ToolKind { gcc, clang, nvcc, nvrtc, hipcc };

inline constexpr int kMinGcc = 11;
inline constexpr int kMinClang = 14;
inline constexpr int kMinHipClang = 14;  // the first that reports what kernels use

// A file as it was when its contents were read; all zero where there was none. Comparing it takes microseconds.
struct FileStamp {
  std::string path;  // links are followed
  uint64_t device = 0, inode = 0;
  int64_t size = 0, changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

struct Toolchain {
  std::string path;  // the program to start; for nvrtc the library
  ToolKind kind = ToolKind::gcc;
  std::string version;  // "12.2.0"
  int major = 0;
  std::string fingerprint;       // SHA-256
  std::string include_dir;       // the directory of CUDA's headers, for nvrtc
  std::string identity;          // the ingredients of the fingerprint, one line each; for people and tests
  std::vector<FileStamp> parts;  // whose contents are part of it
};

struct ToolchainOptions {
  std::string cxx;      // --cxx: a path or a name on PATH; if set, nothing else is tried
  std::string env_cxx;  // QCG_CXX, read by the caller; if set and cxx is empty, nothing else is tried
  std::string path;     // the folders in which programs are looked up; empty: PATH
  const std::atomic<bool>* cancel = nullptr;  // once set, a running query is ended with error Interrupted
};

std::string tool_kind_name(ToolKind kind);

// Finds g++ >= 11 or clang++ >= 14: --cxx, then QCG_CXX, then g++, g++-NN, clang++, clang++-NN on the path, newest
// first. The result is kept until one of its parts changes. Error Toolchain: there is none.
Result<Toolchain> find_cxx(const ToolchainOptions& options = {});

// Finds nvcc on the path or in /usr/local/cuda/bin.
Result<Toolchain> find_nvcc(const ToolchainOptions& options = {});

// Finds libnvrtc by its soname, in /usr/local/cuda, or beside nvcc.
Result<Toolchain> find_nvrtc(const ToolchainOptions& options = {});

// Finds NVRTC, which starts ten times faster, else nvcc.
Result<Toolchain> find_cuda(const ToolchainOptions& options = {});

// Where libraries of CUDA lie, as find_nvrtc looks for its own: prefixes of a file's name. The first, "", leaves the search
// to the dynamic linker.
std::vector<std::string> cuda_library_folders(const ToolchainOptions& options = {});

// Finds hipcc on the path or in /opt/rocm/bin. Error Toolchain: there is none, or the clang that it starts is older than
// kMinHipClang.
Result<Toolchain> find_hipcc(const ToolchainOptions& options = {});

// The flags of every generated C++ kernel, which come before the ISA's flags: optimization, visibility, strict floating
// point. Like all flags, they are part of the key.
std::vector<std::string> kernel_flags(const Toolchain& toolchain);

}  // namespace qcg
