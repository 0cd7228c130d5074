// Module: a loaded shared object whose bytes were verified.
//
// Why here: dlopen of a damaged file causes a SIGBUS or runs wrong code, so the bytes are hashed first. The hashed
// bytes are exactly the loaded ones: they go to a sealed memory file, which dlopen opens instead of the path.
//
//   QCG_TRY(module, Module::load(file, path, sha256));
//   QCG_TRY(kernel, module.find_kernel("qcg_kernel_0"));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/abi.h"
#include "runtime/memory.h"

namespace qcg {

// Reads a module and checks that it has the manifest's checksum `sha256`; `path` is only for messages.
Result<std::string> read_module(const OpenedFile& file, const std::string& path, const std::string& sha256);

class Module {
 public:
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();

  // Loads the file itself only if the system has no memory files or forbids executing them.
  static Result<Module> load(const OpenedFile& file, const std::string& path, const std::string& sha256);
  // Without a checksum, for code that this process has just built. `name` is only for messages. A second load of the
  // same path or bytes gives a separate module, which plain dlopen does not guarantee.
  static Result<Module> load_bytes(std::string_view bytes, const std::string& name);
  static Result<Module> load_unverified(const std::string& path);

  // The exported kernel table, after check_kernel(). Error BadInput: the module does not export `symbol`.
  Result<const qcg_kernel*> find_kernel(const std::string& symbol) const;

 private:
  Module(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace qcg
