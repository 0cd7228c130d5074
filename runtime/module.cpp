#include "runtime/module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <span>
#include <utility>

#include "runtime/kernel_runner.h"

namespace qcg {
namespace {

constexpr int64_t kMaxModuleBytes = int64_t{256} << 20;

// dlopen returns the already loaded library for a path that it has seen, and descriptor numbers are reused. So each
// path encodes a counter in binary, with "/" and "./" as its digits, to be unique: /proc/self/.///fd/7.
std::string unique_fd_path(int fd) {
  static std::atomic<uint64_t> count{0};
  std::string path = "/proc/self/";
  for (uint64_t n = count.fetch_add(1); n != 0; n >>= 1) path += n & 1 ? "./" : "/";
  return path + "fd/" + std::to_string(fd);
}

// The descriptor of a sealed memory file with a copy of the bytes, or -1.
FileHandle seal_in_memory(std::string_view bytes) {
  FileHandle fd(memfd_create("qcg-kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  for (size_t done = 0; fd.get() >= 0 && done < bytes.size();) {
    const ssize_t n = write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n <= 0) return FileHandle();
    done += static_cast<size_t>(n);
  }
  if (fd.get() >= 0 && fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return FileHandle();
  return fd;
}

void* open_library(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }

Error cannot_load(const std::string& name) {
  const char* reason = dlerror();
  return Error::io(name, std::string("cannot be loaded: ") + (reason != nullptr ? reason : "unknown reason"),
                   "check that it was compiled for this operating system, and that the system lets programs load code");
}

// Loads the bytes through a memory file. Returns nullptr if the system has no memory files or forbids executing them,
// or if the bytes are not a library.
void* open_bytes(std::string_view bytes) {
  // After dlopen, the mapping keeps the memory file alive without this descriptor.
  const FileHandle memory = seal_in_memory(bytes);
  return memory.get() < 0 ? nullptr : open_library(unique_fd_path(memory.get()));
}

Result<std::string> read_whole(const std::string& path, const OpenedFile& file) {
  if (file.bytes > kMaxModuleBytes)
    return Error::bad_input(path, "is larger than 256 MiB", "compile the program again");
  return read_program_file(file, path);
}

}  // namespace

Result<std::string> read_module(const OpenedFile& file, const std::string& path, const std::string& sha256) {
  QCG_TRY(content, read_whole(path, file));
  if (digest_hex(std::as_bytes(std::span(content))) != sha256)
    return Error::bad_input(path, "does not have the checksum in the manifest",
                            "the program is damaged or was changed: copy or compile it again");
  return content;
}

Module::Module(Module&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

Module& Module::operator=(Module&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  return *this;
}

Module::~Module() {
  if (handle_ != nullptr) dlclose(handle_);
}

Result<Module> Module::load(const OpenedFile& file, const std::string& path, const std::string& sha256) {
  QCG_TRY(content, read_module(file, path, sha256));
  void* handle = open_bytes(content);
  if (handle == nullptr) handle = open_library(unique_fd_path(file.fd.get()));
  if (handle == nullptr) return cannot_load(path);
  return Module(handle, path);
}

Result<Module> Module::load_bytes(std::string_view bytes, const std::string& name) {
  void* handle = open_bytes(bytes);
  if (handle == nullptr) return cannot_load(name);
  return Module(handle, name);
}

Result<Module> Module::load_unverified(const std::string& path) {
  QCG_TRY(file, open_program_file(path));
  QCG_TRY(content, read_whole(path, file));
  void* handle = open_bytes(content);
  if (handle == nullptr) handle = open_library(path);
  if (handle == nullptr) return cannot_load(path);
  return Module(handle, path);
}

Result<const qcg_kernel*> Module::find_kernel(const std::string& symbol) const {
  const auto* kernel = static_cast<const qcg_kernel*>(dlsym(handle_, symbol.c_str()));
  if (kernel == nullptr) return Error::bad_input(path_, "does not export " + symbol, "compile the program again");
  QCG_CHECK(check_kernel(*kernel, path_ + ": " + symbol));
  return kernel;
}

}  // namespace qcg
