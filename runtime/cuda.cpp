#include "runtime/cuda.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace qcg {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

Error no_device(std::string message) {
  return Error::unsupported("cuda", std::move(message),
                            "run on a machine with an NVIDIA GPU and its driver, or compile for --target=cpu");
}

}  // namespace

// The entry points, under the versioned names to which NVIDIA's cuda.h maps its functions. CUresult and CUdevice are
// int, CUdeviceptr is uint64_t.
struct CudaDriver::Api {
  void* library = nullptr;
  int (*init)(unsigned flags) = nullptr;
  int (*device_get_count)(int* count) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_get_name)(char* name, int length, int device) = nullptr;
  int (*device_get_attribute)(int* value, int attribute, int device) = nullptr;
  int (*context_retain)(void** context, int device) = nullptr;
  int (*context_release)(int device) = nullptr;
  int (*context_push)(void* context) = nullptr;
  int (*context_pop)(void** context) = nullptr;
  int (*context_synchronize)() = nullptr;
  int (*module_load)(void** module, const void* image) = nullptr;
  int (*module_unload)(void* module) = nullptr;
  int (*module_get_function)(void** function, void* module, const char* name) = nullptr;
  int (*function_set_attribute)(void* function, int attribute, int value) = nullptr;
  int (*memory_allocate)(uint64_t* address, size_t bytes) = nullptr;
  int (*memory_free)(uint64_t address) = nullptr;
  int (*copy_to_device)(uint64_t to, const void* from, size_t bytes) = nullptr;
  int (*copy_to_host)(void* to, uint64_t from, size_t bytes) = nullptr;
  int (*copy_within)(uint64_t to, uint64_t from, size_t bytes) = nullptr;
  int (*memory_set)(uint64_t to, unsigned char value, size_t bytes) = nullptr;
  int (*launch)(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, void* stream, void** params, void** extra) = nullptr;
  int (*error_string)(int code, const char** text) = nullptr;

  ~Api() {
    if (library) dlclose(library);
  }

  // Returns the first entry point that is missing, or null.
  const char* resolve() {
    struct Row {
      const char* name;
      void** slot;
    };
    const Row rows[] = {
        {"cuInit", reinterpret_cast<void**>(&init)},
        {"cuDeviceGetCount", reinterpret_cast<void**>(&device_get_count)},
        {"cuDeviceGet", reinterpret_cast<void**>(&device_get)},
        {"cuDeviceGetName", reinterpret_cast<void**>(&device_get_name)},
        {"cuDeviceGetAttribute", reinterpret_cast<void**>(&device_get_attribute)},
        {"cuDevicePrimaryCtxRetain", reinterpret_cast<void**>(&context_retain)},
        {"cuDevicePrimaryCtxRelease_v2", reinterpret_cast<void**>(&context_release)},
        {"cuCtxPushCurrent_v2", reinterpret_cast<void**>(&context_push)},
        {"cuCtxPopCurrent_v2", reinterpret_cast<void**>(&context_pop)},
        {"cuCtxSynchronize", reinterpret_cast<void**>(&context_synchronize)},
        {"cuModuleLoadData", reinterpret_cast<void**>(&module_load)},
        {"cuModuleUnload", reinterpret_cast<void**>(&module_unload)},
        {"cuModuleGetFunction", reinterpret_cast<void**>(&module_get_function)},
        {"cuFuncSetAttribute", reinterpret_cast<void**>(&function_set_attribute)},
        {"cuMemAlloc_v2", reinterpret_cast<void**>(&memory_allocate)},
        {"cuMemFree_v2", reinterpret_cast<void**>(&memory_free)},
        {"cuMemcpyHtoD_v2", reinterpret_cast<void**>(&copy_to_device)},
        {"cuMemcpyDtoH_v2", reinterpret_cast<void**>(&copy_to_host)},
        {"cuMemcpyDtoD_v2", reinterpret_cast<void**>(&copy_within)},
        {"cuMemsetD8_v2", reinterpret_cast<void**>(&memory_set)},
        {"cuLaunchKernel", reinterpret_cast<void**>(&launch)},
        {"cuGetErrorString", reinterpret_cast<void**>(&error_string)},
    };
    for (const Row& row : rows)
      if (!(*row.slot = dlsym(library, row.name))) return row.name;
    return nullptr;
  }

  std::string text(int code) const {
    const char* text = nullptr;
    return error_string(code, &text) == 0 && text ? text : "error " + std::to_string(code);
  }

  // The destructor restores the caller's current context.
  struct Current {
    const Api& api;
    Current(const Api& a, void* context) : api(a) { api.context_push(context); }
    ~Current() {
      void* popped = nullptr;
      api.context_pop(&popped);
    }
    Current(const Current&) = delete;
  };
};

Result<std::shared_ptr<CudaDriver>> CudaDriver::load() {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  auto api = std::make_unique<Api>();
  api->library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!api->library) {
    const char* reason = dlerror();
    return no_device(std::string("there is no NVIDIA driver here: ") + (reason ? reason : kLibrary));
  }
  if (const char* missing = api->resolve())
    return no_device(std::string("the NVIDIA driver is too old: ") + kLibrary + " has no " + missing);
  if (const int code = api->init(0)) return no_device("the NVIDIA driver does not start: " + api->text(code));
  int count = 0;
  if (const int code = api->device_get_count(&count); code || count == 0)
    return no_device(code ? "no NVIDIA device: " + api->text(code) : "the NVIDIA driver finds no device");
  std::shared_ptr<CudaDriver> driver(new CudaDriver);
  driver->api_ = std::move(api);
  Api& a = *driver->api_;
  QCG_CHECK(driver->check(a.device_get(&driver->device_, 0), "cuDeviceGet"));
  char name[256] = {};
  QCG_CHECK(driver->check(a.device_get_name(name, sizeof name - 1, driver->device_), "cuDeviceGetName"));
  int major = 0, minor = 0;
  QCG_CHECK(driver->check(a.device_get_attribute(&major, kMajor, driver->device_), "cuDeviceGetAttribute"));
  QCG_CHECK(driver->check(a.device_get_attribute(&minor, kMinor, driver->device_), "cuDeviceGetAttribute"));
  QCG_CHECK(driver->check(a.context_retain(&driver->context_, driver->device_), "cuDevicePrimaryCtxRetain"));
  driver->device_name_ = name;
  driver->capability_ = major * 10 + minor;
  return driver;
}

std::string CudaDriver::why_lacks(std::string_view isa) const {
  constexpr std::string_view kPrefix = "sm_";
  int needed = 0;
  const char* const end = isa.data() + isa.size();
  const char* const digits = isa.data() + std::min(isa.size(), kPrefix.size());
  const char* const rest = std::from_chars(digits, end, needed).ptr;
  const bool is_exact = std::string_view(rest, end) == "a";
  if (!isa.starts_with(kPrefix) || rest == digits || (rest != end && !is_exact))
    return "architecture '" + std::string(isa) + "' is not known to this version";
  const bool fits =
      is_exact ? capability_ == needed : capability_ / 10 == needed / 10 && capability_ % 10 >= needed % 10;
  if (fits) return {};
  return "the device is a " + device_name_ + " of compute capability " + std::to_string(capability_ / 10) + "." +
         std::to_string(capability_ % 10) + ", which does not run " + std::string(isa);
}

CudaDriver::~CudaDriver() {
  if (context_) api_->context_release(device_);
}

Status CudaDriver::check(int code, std::string_view what) const {
  if (code == 0) return {};
  return Error::io("cuda device " + std::to_string(device_), std::string(what) + ": " + api_->text(code),
                   "see the driver's messages in the system log");
}

Result<CudaKernel> CudaDriver::load_kernel(std::string_view cubin, const std::string& symbol) {
  const Api::Current current(*api_, context_);
  void* module = nullptr;
  const std::string image(cubin);  // a copy ends with NUL, in case the driver reads beyond a damaged ELF image
  if (const int code = api_->module_load(&module, image.c_str()))
    return Error::bad_input(symbol, "the driver refuses this cubin on " + device_name_ + ": " + api_->text(code),
                            "compile again for this device (sm_" + std::to_string(capability_) + ")");
  CudaKernel kernel;
  kernel.module = std::shared_ptr<void>(module, [self = shared_from_this()](void* m) {
    const Api::Current scope(*self->api_, self->context_);
    self->api_->module_unload(m);
  });
  if (api_->module_get_function(&kernel.function, module, symbol.c_str()))
    return Error::bad_input(symbol, "the cubin has no such kernel", "compile again: program and kernels do not match");
  return kernel;
}

Result<CudaBuffer> CudaDriver::allocate(size_t bytes) {
  const Api::Current current(*api_, context_);
  CudaBuffer buffer;
  QCG_CHECK(check(api_->memory_allocate(&buffer.address_, bytes ? bytes : 1),
                  "allocating " + std::to_string(bytes) + " bytes"));
  buffer.bytes_ = bytes;
  buffer.driver_ = shared_from_this();
  return buffer;
}

Status CudaDriver::copy_in(const CudaBuffer& to, const void* from, size_t bytes) {
  if (bytes > to.bytes_) return Error::internal("CudaDriver::copy_in", "more bytes than the buffer has");
  return copy_in_at(to.data(), from, bytes);
}

Status CudaDriver::copy_in_at(void* to, const void* from, size_t bytes) {
  const Api::Current current(*api_, context_);
  return bytes ? check(api_->copy_to_device(reinterpret_cast<uint64_t>(to), from, bytes), "copying to the device")
               : Status();
}

Status CudaDriver::copy_out(void* to, const CudaBuffer& from, size_t bytes) {
  if (bytes > from.bytes_) return Error::internal("CudaDriver::copy_out", "more bytes than the buffer has");
  return copy_out_at(to, from.data(), bytes);
}

Status CudaDriver::copy_out_at(void* to, const void* address, size_t bytes) {
  const Api::Current current(*api_, context_);
  return bytes ? check(api_->copy_to_host(to, reinterpret_cast<uint64_t>(address), bytes), "copying from the device")
               : Status();
}

Status CudaDriver::copy_on_device(void* to, const void* from, size_t bytes) {
  const Api::Current current(*api_, context_);
  return bytes ? check(api_->copy_within(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes),
                       "copying on the device")
               : Status();
}

Status CudaDriver::clear(const CudaBuffer& buffer) {
  const Api::Current current(*api_, context_);
  return buffer.bytes_ ? check(api_->memory_set(buffer.address_, 0, buffer.bytes_), "clearing device memory")
                       : Status();
}

Status CudaDriver::launch(const CudaKernel& kernel, const CudaGrid& grid, const void* args, size_t args_bytes) {
  if (grid.grid_x == 0 || grid.grid_y == 0) return {};
  QCG_CHECK(launch_on(nullptr, kernel, grid, args, args_bytes));
  const Api::Current current(*api_, context_);
  return check(api_->context_synchronize(), "running a kernel");
}

Status CudaDriver::launch_on(void* stream, const CudaKernel& kernel, const CudaGrid& grid, const void* args,
                             size_t args_bytes) {
  constexpr int kMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (args_bytes > 4096) return Error::internal("CudaDriver::launch", "kernel parameters beyond 4 KiB");
  if (grid.grid_x == 0 || grid.grid_y == 0) return {};
  const Api::Current current(*api_, context_);
  // A kernel must request more than 48 KiB of shared memory explicitly.
  if (grid.shared_bytes > 48 << 10)
    QCG_CHECK(
        check(api_->function_set_attribute(kernel.function, kMaxDynamicShared, static_cast<int>(grid.shared_bytes)),
              "asking for " + std::to_string(grid.shared_bytes) + " bytes of shared memory"));
  void* params[] = {const_cast<void*>(args)};
  return check(api_->launch(kernel.function, grid.grid_x, grid.grid_y, 1, grid.threads, 1, 1, grid.shared_bytes, stream,
                            params, nullptr),
               "launching a kernel");
}

CudaBuffer& CudaBuffer::operator=(CudaBuffer&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

CudaBuffer::~CudaBuffer() {
  if (!driver_) return;
  const CudaDriver::Api::Current current(*driver_->api_, driver_->context_);
  driver_->api_->memory_free(address_);
}

}  // namespace qcg
