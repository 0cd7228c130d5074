#include "cache/toolchain/nvrtc.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <vector>

#include "cache/store/scratch.h"

namespace qcg {

namespace {

// The used part of nvrtc.h, whose C interface has been stable since CUDA 11.
using Program = void*;
struct Api {
  void* handle = nullptr;
  std::string path;
  int (*version)(int*, int*) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
};

template <class F>
bool resolve(void* handle, const char* name, F& out) {
  out = reinterpret_cast<F>(dlsym(handle, name));
  return out != nullptr;
}

bool load(const std::string& file, Api& api) {
  api.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!api.handle) return false;
  bool whole =
      resolve(api.handle, "nvrtcVersion", api.version) && resolve(api.handle, "nvrtcCreateProgram", api.create) &&
      resolve(api.handle, "nvrtcCompileProgram", api.compile) &&
      resolve(api.handle, "nvrtcGetProgramLogSize", api.log_size) &&
      resolve(api.handle, "nvrtcGetProgramLog", api.log) && resolve(api.handle, "nvrtcGetCUBINSize", api.cubin_size) &&
      resolve(api.handle, "nvrtcGetCUBIN", api.cubin) && resolve(api.handle, "nvrtcGetPTXSize", api.ptx_size) &&
      resolve(api.handle, "nvrtcGetPTX", api.ptx);
  if (!whole) {
    dlclose(api.handle);
    return false;
  }
  link_map* map = nullptr;
  char* resolved = dlinfo(api.handle, RTLD_DI_LINKMAP, &map) == 0 ? ::realpath(map->l_name, nullptr) : nullptr;
  api.path = resolved ? resolved : file;
  std::free(resolved);
  return true;
}

std::vector<std::string> places(const std::string& nvcc_path) {
  std::vector<std::string> files;
  for (const auto& folder : cuda_library_folders(nvcc_path))
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"})
      files.push_back(folder + name);
  return files;
}

// Loads the library once, before any fork, so that children only call functions that are already mapped.
const Api* shared_api(const std::string& nvcc_path) {
  static std::mutex mutex;
  static Api api;
  std::lock_guard lock(mutex);
  if (api.handle) return &api;
  for (const auto& file : places(nvcc_path))
    if (load(file, api)) return &api;
  api = {};
  return nullptr;
}

std::string find_headers(const std::string& library, const std::string& nvcc_path) {
  std::vector<std::string> roots = {library.substr(0, library.rfind('/')) + "/.."};
  if (size_t bin = nvcc_path.rfind("/bin/"); bin != std::string::npos) roots.push_back(nvcc_path.substr(0, bin));
  roots.push_back("/usr/local/cuda");
  roots.push_back("/usr");
  for (const auto& root : roots)
    for (const char* include : {"/include", "/targets/x86_64-linux/include"})
      if (char* dir = ::realpath((root + include).c_str(), nullptr)) {
        std::string found = dir;
        std::free(dir);
        if (::access((found + "/cuda_bf16.h").c_str(), R_OK) == 0) return found;
      }
  return {};
}

void print_log(const Api& api, Program program) {
  size_t size = 0;
  if (api.log_size(program, &size) || size < 2) return;
  std::string log(size, '\0');
  if (api.log(program, log.data()) == 0) (void)real_file_system().write_all(1, std::string_view(log.data(), size - 1));
}

}  // namespace

std::vector<std::string> cuda_library_folders(const std::string& nvcc_path) {
  std::vector<std::string> folders = {""};  // where the dynamic linker looks
  if (size_t bin = nvcc_path.rfind("/bin/"); bin != std::string::npos)
    for (const char* lib : {"/lib64/", "/lib/"}) folders.push_back(nvcc_path.substr(0, bin) + lib);
  for (const char* lib : {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"}) folders.push_back(lib);
  return folders;
}

Result<NvrtcLibrary> find_nvrtc_library(const std::string& nvcc_path) {
  const Api* api = shared_api(nvcc_path);
  if (!api)
    return Error::toolchain("libnvrtc", "was found neither by the dynamic linker nor in /usr/local/cuda",
                            "install the CUDA toolkit, or compile for a cpu target");
  int major = 0, minor = 0;
  if (api->version(&major, &minor)) return Error::toolchain(api->path, "does not report its version", "reinstall it");
  return NvrtcLibrary{api->path, std::to_string(major) + "." + std::to_string(minor),
                      find_headers(api->path, nvcc_path)};
}

int run_nvrtc(const Toolchain& toolchain, const CompileJob& job, const std::string& output_file) {
  const Api* api = shared_api({});
  if (!api || job.sources.size() != 1) return 126;
  std::vector<const char*> header_texts, header_names, options;
  for (const auto& header : job.headers) {
    header_texts.push_back(header.text.c_str());
    header_names.push_back(header.name.c_str());
  }
  const std::vector<std::string> arguments = compile_arguments(toolchain, job);
  for (const auto& argument : arguments) options.push_back(argument.c_str());

  Program program = nullptr;
  if (api->create(&program, job.sources[0].text.c_str(), job.sources[0].name.c_str(),
                  static_cast<int>(job.headers.size()), header_texts.data(), header_names.data()))
    return 126;
  const int status = api->compile(program, static_cast<int>(options.size()), options.data());
  print_log(*api, program);
  if (status) return 1;
  const bool ptx = job.output == OutputKind::assembly;
  size_t size = 0;
  if ((ptx ? api->ptx_size : api->cubin_size)(program, &size) || size == 0) return 1;
  std::string bytes(size, '\0');
  if ((ptx ? api->ptx : api->cubin)(program, bytes.data())) return 1;
  if (ptx && bytes.back() == '\0') bytes.pop_back();
  return real_file_system().create_file(output_file, bytes, 0600) ? 1 : 0;
}

}  // namespace qcg
