#include "cache/toolchain/toolchain.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "cache/store/file_system.h"
#include "cache/store/sha256.h"
#include "cache/toolchain/nvrtc.h"
#include "cache/toolchain/process.h"

namespace qcg {

namespace {

constexpr int kProbeSeconds = 20;
const char kInstallCxx[] = "install one with `apt-get install g++`, or name one with --cxx or QCG_CXX";
const char kInstallHip[] = "install one with `apt-get install hipcc`, or compile for a cpu target";
const char kInstallCuda[] = "install the CUDA toolkit (nvcc or libnvrtc), or compile for a cpu target";

std::string real_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  std::string result = resolved ? resolved : path;
  std::free(resolved);
  return result;
}

// The output of a program for the option `question`, such as --version; empty if it fails. Error Toolchain: it does not
// answer in time.
Result<std::string> ask(const std::string& program, const std::string& question, const ToolchainOptions& options) {
  auto answer = run_process({.argv = {program, question},
                             .environment = tool_environment(),
                             .timeout_s = kProbeSeconds,
                             .cancel = options.cancel});
  if (!answer.ok()) return std::string();
  if (answer->cancelled) return Error::interrupted();
  if (answer->timed_out)
    return Error::toolchain(program,
                            "did not answer to " + question + " within " + std::to_string(kProbeSeconds) + " s",
                            "check this program, or name another compiler with --cxx or QCG_CXX");
  return answer->exit_status == 0 ? answer->output : std::string();
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The first dotted number after `marker`, as in "gcc version 12.2.0".
std::string version_after(const std::string& text, const std::string& marker) {
  size_t at = text.find(marker);
  if (at == std::string::npos) return {};
  at = text.find_first_of("0123456789", at + marker.size());
  if (at == std::string::npos) return {};
  return text.substr(at, text.find_first_not_of("0123456789.", at) - at);
}

FileStamp stamp_of(const std::string& path) {
  FileStamp out{.path = path};
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return out;
  out.device = info.st_dev, out.inode = info.st_ino;
  out.size = info.st_size;
  out.changed_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  return out;
}

// Collects what identifies a toolchain. A missing part is recorded as missing, so that installing it changes the
// identity.
class Identity {
 public:
  void add(const std::string& name, const std::string& value) { text_ += name + ": " + value + "\n"; }

  void add_program(const std::string& name, const std::string& found) {
    parts_.push_back(stamp_of(found));  // first: what changes while it is read has changed afterwards
    const std::string path = real_path(found);
    auto hash = sha256_file(path);
    add(name, path + " sha256 " + (hash.ok() ? hash.value() : "unreadable"));
  }

  // A library of a hundred megabytes is identified by its size and its first 64 KiB, which contain the linker's build
  // id, a hash of the contents.
  void add_library(const std::string& found) {
    parts_.push_back(stamp_of(found));
    const std::string path = real_path(found);
    FileSystem fs;
    OwnedFd fd(fs.open_at(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must not wait
    struct stat info;
    std::string head(1 << 16, '\0');
    ssize_t n = fd && fs.fstat(fd.get(), &info) == 0 ? fs.read(fd.get(), head.data(), head.size()) : -1;
    if (n < 0) return add("library", path + " unreadable");
    head.resize(static_cast<size_t>(n));
    add("library", path + " " + std::to_string(info.st_size) + " bytes, head sha256 " + sha256_hex(head));
  }

  void finish(Toolchain& toolchain) {
    toolchain.identity = text_;
    toolchain.fingerprint = sha256_hex(text_);
    toolchain.parts = std::move(parts_);
  }

 private:
  std::string text_;
  std::vector<FileStamp> parts_;
};

// The path of a program that the driver would start, found as the driver finds it.
Result<std::string> part_of(const Toolchain& toolchain, const std::string& part, const ToolchainOptions& options) {
  QCG_TRY(answer, ask(toolchain.path, "-print-prog-name=" + part, options));
  answer = first_line(answer);
  return answer.empty() ? answer : find_program(answer, options.path);
}

// The libraries that contain clang, of which Debian's driver is a small program. They lie in lib or lib64 beside the
// folder of the driver, or in a folder of lib that is named after the machine.
std::set<std::string> clang_libraries(const std::string& driver) {
  const std::string prefix = driver.substr(0, driver.rfind('/')) + "/../", lib = real_path(prefix + "lib");
  std::set<std::string> folders = {lib, real_path(prefix + "lib64")}, out;
  std::vector<std::string> names;
  (void)FileSystem().list_dir(lib, names);
  for (const auto& name : names)
    if (name.ends_with("-linux-gnu")) folders.insert(real_path(lib + "/" + name));
  for (const auto& folder : folders) {
    (void)FileSystem().list_dir(folder, names);
    for (const auto& name : names)
      if ((name.starts_with("libclang-cpp.so") || name.starts_with("libLLVM")) && name.find(".so") != std::string::npos)
        out.insert(real_path(folder + "/" + name));
  }
  return out;
}

Status fingerprint_cxx(Toolchain& toolchain, const std::string& version_text, const ToolchainOptions& options) {
  Identity identity;
  identity.add("version", tool_kind_name(toolchain.kind) + " " + toolchain.version);
  identity.add("version text", "sha256 " + sha256_hex(version_text));
  identity.add_program("driver", toolchain.path);
  std::vector<std::string> parts = {"as", "ld"};
  if (toolchain.kind == ToolKind::gcc) parts.insert(parts.begin(), {"cc1plus", "collect2"});
  for (const auto& part : parts) {
    QCG_TRY(program, part_of(toolchain, part, options));
    if (program.empty()) identity.add(part, "none");
    else identity.add_program(part, program);
  }
  if (toolchain.kind == ToolKind::clang)
    for (const auto& library : clang_libraries(real_path(toolchain.path))) identity.add_library(library);
  identity.finish(toolchain);
  return {};
}

Result<Toolchain> probe_cxx(const std::string& program, const ToolchainOptions& options) {
  Toolchain toolchain{.path = program};
  QCG_TRY(text, ask(program, "-v", options));
  if (text.empty()) return Error::toolchain(program, "does not answer to -v like a compiler", kInstallCxx);
  if (std::string v = version_after(text, "clang version"); !v.empty()) {
    toolchain.kind = ToolKind::clang;
    toolchain.version = v;
  } else {
    toolchain.kind = ToolKind::gcc;
    toolchain.version = version_after(text, "gcc version");
  }
  toolchain.major = std::atoi(toolchain.version.c_str());
  const int least = toolchain.kind == ToolKind::gcc ? kMinGcc : kMinClang;
  if (toolchain.major < least) {
    std::string found = toolchain.version.empty() ? "is neither g++ nor clang++" : "is version " + toolchain.version;
    return Error::toolchain(program, found + "; g++ >= 11 or clang++ >= 14 is needed", kInstallCxx);
  }
  QCG_CHECK(fingerprint_cxx(toolchain, text, options));
  return toolchain;
}

std::vector<std::string> names_to_try() {
  std::vector<std::string> names = {"g++"};
  for (int n = 20; n >= kMinGcc; --n) names.push_back("g++-" + std::to_string(n));
  names.push_back("clang++");
  for (int n = 25; n >= kMinClang; --n) names.push_back("clang++-" + std::to_string(n));
  return names;
}

Result<Toolchain> search_cxx(const ToolchainOptions& options) {
  const std::string& named = options.cxx.empty() ? options.env_cxx : options.cxx;
  if (!named.empty()) {
    std::string program = find_program(named, options.path);
    if (program.empty())
      return Error::toolchain(named,
                              std::string("the compiler named by ") + (options.cxx.empty() ? "QCG_CXX" : "--cxx") +
                                  " does not exist or is not executable",
                              kInstallCxx);
    return probe_cxx(program, options);
  }
  std::string refused;
  for (const auto& name : names_to_try()) {
    std::string program = find_program(name, options.path);
    if (program.empty()) continue;
    auto toolchain = probe_cxx(program, options);
    if (toolchain.ok() || toolchain.error().code == ErrorCode::Interrupted) return toolchain;
    refused += (refused.empty() ? "; found but not usable: " : ", ") + program + " " + toolchain.error().message;
  }
  return Error::toolchain("", "no C++ compiler was found on PATH" + refused, kInstallCxx);
}

Result<Toolchain> search_nvcc(const ToolchainOptions& options) {
  std::string program = find_program("nvcc", options.path);
  if (program.empty()) program = find_program("/usr/local/cuda/bin/nvcc", options.path);
  if (program.empty()) return Error::toolchain("nvcc", "is neither on PATH nor in /usr/local/cuda/bin", kInstallCuda);
  QCG_TRY(text, ask(program, "--version", options));
  Toolchain toolchain{.path = program, .kind = ToolKind::nvcc, .version = version_after(text, "release")};
  toolchain.major = std::atoi(toolchain.version.c_str());
  if (!toolchain.major) return Error::toolchain(program, "does not answer to --version like nvcc", kInstallCuda);
  Identity identity;
  identity.add("version", "nvcc " + toolchain.version);
  identity.add("version text", "sha256 " + sha256_hex(text));  // its build number also identifies cicc and ptxas
  identity.add_program("driver", program);
  // nvcc preprocesses with the host compiler.
  if (std::string host = find_program("g++", options.path); !host.empty()) identity.add_program("host compiler", host);
  identity.finish(toolchain);
  return toolchain;
}

// Empty: it is not on the path.
std::string real_nvcc(const std::string& path) {
  const std::string program = find_program("nvcc", path);
  return program.empty() ? "" : real_path(program);
}

Result<Toolchain> search_nvrtc(const ToolchainOptions& options) {
  auto library = find_nvrtc_library(real_nvcc(options.path));
  if (!library.ok()) return library.error();
  Toolchain toolchain{.path = library->path, .kind = ToolKind::nvrtc, .version = library->version};
  toolchain.major = std::atoi(toolchain.version.c_str());
  toolchain.include_dir = library->include_dir;
  Identity identity;
  identity.add("version", "nvrtc " + library->version);
  identity.add_library(toolchain.path);
  const std::string folder = toolchain.path.substr(0, toolchain.path.rfind('/'));
  std::vector<std::string> names;
  (void)FileSystem().list_dir(folder, names);
  for (const auto& name : names)
    if (name.starts_with("libnvrtc-builtins.so")) identity.add_library(folder + "/" + name);
  identity.add("headers", toolchain.include_dir);
  for (const char* header : {"cuda_fp16.h", "cuda_fp16.hpp", "cuda_bf16.h", "cuda_bf16.hpp"})
    if (!toolchain.include_dir.empty()) identity.add_program(header, toolchain.include_dir + "/" + header);
  identity.finish(toolchain);
  return toolchain;
}

// hipcc is a script: the clang that it names is identified, too, by its version text and its driver.
Result<Toolchain> search_hipcc(const ToolchainOptions& options) {
  std::string program = find_program("hipcc", options.path);
  if (program.empty()) program = find_program("/opt/rocm/bin/hipcc", options.path);
  if (program.empty()) return Error::toolchain("hipcc", "is neither on PATH nor in /opt/rocm/bin", kInstallHip);
  QCG_TRY(text, ask(program, "--version", options));
  Toolchain toolchain{.path = program, .kind = ToolKind::hipcc, .version = version_after(text, "HIP version")};
  toolchain.major = std::atoi(toolchain.version.c_str());
  const int clang = std::atoi(version_after(text, "clang version").c_str());
  if (toolchain.version.empty() || clang == 0)
    return Error::toolchain(program, "does not answer to --version like hipcc", kInstallHip);
  if (clang < kMinHipClang)
    return Error::toolchain(
        program, "starts clang " + std::to_string(clang) + "; clang >= " + std::to_string(kMinHipClang) + " is needed",
        kInstallHip);
  Identity identity;
  identity.add("version", "hipcc " + toolchain.version);
  identity.add("version text", "sha256 " + sha256_hex(text));
  identity.add_program("driver", program);
  const size_t at = text.find("InstalledDir: ");
  const std::string folder = at == std::string::npos ? "" : first_line(text.substr(at + std::strlen("InstalledDir: ")));
  for (const std::string& name : {"clang-" + std::to_string(clang), std::string("clang")})
    if (const std::string found = find_program(folder + "/" + name, options.path); !found.empty()) {
      identity.add_program("clang", found);
      break;
    }
  identity.finish(toolchain);
  return toolchain;
}

// A process identifies a compiler once, because that takes about 50 ms: several starts of it, and the hashes of its
// programs. A process that lives for days does so again after an upgrade.
template <class Search>
Result<Toolchain> remember(const std::string& what, ToolchainOptions options, Search search) {
  static std::mutex mutex;
  static std::map<std::string, Toolchain> known;
  if (options.path.empty()) options.path = search_path();
  const std::string question = what + '\n' + options.cxx + '\n' + options.env_cxx + '\n' + options.path;
  std::lock_guard lock(mutex);
  if (auto found = known.find(question); found != known.end()) {
    const auto is_same = [](const FileStamp& part) { return part == stamp_of(part.path); };
    if (std::ranges::all_of(found->second.parts, is_same)) return found->second;
    known.erase(found);
  }
  Result<Toolchain> answer = search(options);
  if (answer.ok()) known.emplace(question, answer.value());
  return answer;
}

}  // namespace

std::string tool_kind_name(ToolKind kind) {
  switch (kind) {
    case ToolKind::gcc: return "gcc";
    case ToolKind::clang: return "clang";
    case ToolKind::nvcc: return "nvcc";
    case ToolKind::nvrtc: return "nvrtc";
    case ToolKind::hipcc: return "hipcc";
  }
  return "unknown";
}

Result<Toolchain> find_cxx(const ToolchainOptions& options) { return remember("cxx", options, search_cxx); }

Result<Toolchain> find_nvcc(const ToolchainOptions& options) { return remember("nvcc", options, search_nvcc); }

Result<Toolchain> find_nvrtc(const ToolchainOptions& options) { return remember("nvrtc", options, search_nvrtc); }

Result<Toolchain> find_hipcc(const ToolchainOptions& options) { return remember("hipcc", options, search_hipcc); }

Result<Toolchain> find_cuda(const ToolchainOptions& options) {
  auto nvrtc = find_nvrtc(options);
  return nvrtc.ok() ? nvrtc : find_nvcc(options);
}

std::vector<std::string> cuda_library_folders(const ToolchainOptions& options) {
  return cuda_library_folders(real_nvcc(options.path.empty() ? search_path() : options.path));
}

std::vector<std::string> kernel_flags(const Toolchain& toolchain) {
  // No contraction: results must not depend on which products the compiler fuses; kernels write their FMAs explicitly.
  // No errno: sqrt and similar functions stay instructions.
  std::vector<std::string> flags = {
      "-std=c++20",      "-O3",       "-fPIC",          "-fvisibility=hidden", "-ffp-contract=off",
      "-fno-math-errno", "-fno-rtti", "-fno-exceptions"};
  // STB_GNU_UNIQUE symbols make dlclose do nothing.
  if (toolchain.kind == ToolKind::gcc) flags.push_back("-fno-gnu-unique");
  return flags;
}

}  // namespace qcg
