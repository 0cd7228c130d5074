// Module: a shared object whose bytes were verified, loaded.
//
// Why here: dlopen of a damaged file is a SIGBUS or silently wrong code, so the hash comes first, and what was hashed
// is what is loaded: the verified bytes go to a sealed memory file and that is opened, never the path again.
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

// The bytes of a module whose checksum is that of the manifest; `path` is for messages.
Result<std::string> read_module(const OpenedFile& file, const std::string& path, const std::string& sha256);

class Module {
 public:
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();

  // The file itself is loaded only where the system has no memory files or forbids running them.
  static Result<Module> load(const OpenedFile& file, const std::string& path, const std::string& sha256);
  // Without a checksum, for code this process has just built. `name` is for messages. A second load of the same path or
  // the same bytes is a module of its own, which plain dlopen does not promise.
  static Result<Module> load_bytes(std::string_view bytes, const std::string& name);
  static Result<Module> load_unverified(const std::string& path);

  // The exported table, checked against the ABI.
  Result<const qcg_kernel*> find_kernel(const std::string& symbol) const;

 private:
  Module(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace qcg
