#include "runtime/cuda.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>
#include <vector>

namespace qcg {
namespace {

// The words of a driver's messages, and the names of its library, the newest first.
struct DriverText {
  std::string_view where, vendor;
  std::vector<const char*> libraries;
  const char* help;
};
const DriverText& text_of(DeviceApi api) {
  static const DriverText cuda = {"cuda",
                                  "NVIDIA",
                                  {"libcuda.so.1"},
                                  "run on a machine with an NVIDIA GPU and its driver, or compile for --target=cpu"};
  static const DriverText hip = {"hip",
                                 "AMD",
                                 {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
                                 "run on a machine with an AMD GPU and ROCm's runtime, or compile for --target=cpu"};
  return api == DeviceApi::hip ? hip : cuda;
}

Error no_device(DeviceApi api, std::string message) {
  return Error::unsupported(std::string(text_of(api).where), std::move(message), text_of(api).help);
}

// The first library that opens; else null and, in `reason`, what the linker says of the first.
void* open_driver_library(DeviceApi api, std::string& reason) {
  for (const char* name : text_of(api).libraries) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    const char* const error = dlerror();
    if (reason.empty()) reason = error ? error : name;
  }
  return nullptr;
}

}  // namespace

// The entry points, under the versioned names to which NVIDIA's cuda.h maps its functions, and HIP's of the same type.
// CUresult and CUdevice are int, CUdeviceptr is uint64_t, as a pointer is passed.
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
  int (*module_load)(void** module, const void* image) = nullptr;
  int (*module_unload)(void* module) = nullptr;
  int (*module_get_function)(void** function, void* module, const char* name) = nullptr;
  int (*function_set_attribute)(void* function, int attribute, int value) = nullptr;
  int (*memory_allocate)(uint64_t* address, size_t bytes) = nullptr;
  int (*memory_free)(uint64_t address) = nullptr;
  int (*copy_to_device)(uint64_t to, const void* from, size_t bytes) = nullptr;
  int (*copy_to_device_on)(uint64_t to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*copy_to_host)(void* to, uint64_t from, size_t bytes) = nullptr;
  int (*copy_within)(uint64_t to, uint64_t from, size_t bytes) = nullptr;
  int (*memory_set)(uint64_t to, unsigned char value, size_t bytes) = nullptr;
  int (*launch)(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, void* stream, void** params, void** extra) = nullptr;
  int (*stream_create)(void** stream, unsigned flags) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  int (*stream_synchronize)(void* stream) = nullptr;
  int (*stream_wait_event)(void* stream, void* event, unsigned flags) = nullptr;
  int (*stream_begin_capture)(void* stream, int mode) = nullptr;
  int (*stream_end_capture)(void* stream, void** graph) = nullptr;
  int (*graph_instantiate)(void** executable, void* graph, unsigned long long flags) = nullptr;
  int (*graph_destroy)(void* graph) = nullptr;
  int (*graph_launch)(void* executable, void* stream) = nullptr;
  int (*graph_executable_destroy)(void* executable) = nullptr;
  int (*event_create)(void** event, unsigned flags) = nullptr;
  int (*event_destroy)(void* event) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;
  int (*event_synchronize)(void* event) = nullptr;
  int (*event_elapsed)(float* ms, void* from, void* to) = nullptr;
  int (*error_string)(int code, const char** text) = nullptr;  // CUDA alone
  const char* (*hip_error_string)(int code) = nullptr;         // HIP alone, as is the next
  int (*hip_device_properties)(void* properties, int device) = nullptr;

  ~Api() {
    if (library) dlclose(library);
  }

  // Returns the first entry point that is missing, or null.
  const char* resolve(DeviceApi which) {
    struct Row {
      const char *cuda, *hip;  // null: the driver has no such function
      void** slot;
    };
    const Row rows[] = {
        {"cuInit", "hipInit", reinterpret_cast<void**>(&init)},
        {"cuDeviceGetCount", "hipGetDeviceCount", reinterpret_cast<void**>(&device_get_count)},
        {"cuDeviceGet", "hipDeviceGet", reinterpret_cast<void**>(&device_get)},
        {"cuDeviceGetName", "hipDeviceGetName", reinterpret_cast<void**>(&device_get_name)},
        {"cuDeviceGetAttribute", nullptr, reinterpret_cast<void**>(&device_get_attribute)},
        {"cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain", reinterpret_cast<void**>(&context_retain)},
        {"cuDevicePrimaryCtxRelease_v2", "hipDevicePrimaryCtxRelease", reinterpret_cast<void**>(&context_release)},
        {"cuCtxPushCurrent_v2", "hipCtxPushCurrent", reinterpret_cast<void**>(&context_push)},
        {"cuCtxPopCurrent_v2", "hipCtxPopCurrent", reinterpret_cast<void**>(&context_pop)},
        {"cuModuleLoadData", "hipModuleLoadData", reinterpret_cast<void**>(&module_load)},
        {"cuModuleUnload", "hipModuleUnload", reinterpret_cast<void**>(&module_unload)},
        {"cuModuleGetFunction", "hipModuleGetFunction", reinterpret_cast<void**>(&module_get_function)},
        {"cuFuncSetAttribute", nullptr, reinterpret_cast<void**>(&function_set_attribute)},
        {"cuMemAlloc_v2", "hipMalloc", reinterpret_cast<void**>(&memory_allocate)},
        {"cuMemFree_v2", "hipFree", reinterpret_cast<void**>(&memory_free)},
        {"cuMemcpyHtoD_v2", "hipMemcpyHtoD", reinterpret_cast<void**>(&copy_to_device)},
        {"cuMemcpyDtoH_v2", "hipMemcpyDtoH", reinterpret_cast<void**>(&copy_to_host)},
        {"cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", reinterpret_cast<void**>(&copy_to_device_on)},
        {"cuMemcpyDtoD_v2", "hipMemcpyDtoD", reinterpret_cast<void**>(&copy_within)},
        {"cuMemsetD8_v2", "hipMemsetD8", reinterpret_cast<void**>(&memory_set)},
        {"cuLaunchKernel", "hipModuleLaunchKernel", reinterpret_cast<void**>(&launch)},
        {"cuStreamCreate", "hipStreamCreateWithFlags", reinterpret_cast<void**>(&stream_create)},
        {"cuStreamDestroy_v2", "hipStreamDestroy", reinterpret_cast<void**>(&stream_destroy)},
        {"cuStreamSynchronize", "hipStreamSynchronize", reinterpret_cast<void**>(&stream_synchronize)},
        {"cuStreamWaitEvent", "hipStreamWaitEvent", reinterpret_cast<void**>(&stream_wait_event)},
        {"cuStreamBeginCapture_v2", "hipStreamBeginCapture", reinterpret_cast<void**>(&stream_begin_capture)},
        {"cuStreamEndCapture", "hipStreamEndCapture", reinterpret_cast<void**>(&stream_end_capture)},
        {"cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags", reinterpret_cast<void**>(&graph_instantiate)},
        {"cuGraphDestroy", "hipGraphDestroy", reinterpret_cast<void**>(&graph_destroy)},
        {"cuGraphLaunch", "hipGraphLaunch", reinterpret_cast<void**>(&graph_launch)},
        {"cuGraphExecDestroy", "hipGraphExecDestroy", reinterpret_cast<void**>(&graph_executable_destroy)},
        {"cuEventCreate", "hipEventCreateWithFlags", reinterpret_cast<void**>(&event_create)},
        {"cuEventDestroy_v2", "hipEventDestroy", reinterpret_cast<void**>(&event_destroy)},
        {"cuEventRecord", "hipEventRecord", reinterpret_cast<void**>(&event_record)},
        {"cuEventSynchronize", "hipEventSynchronize", reinterpret_cast<void**>(&event_synchronize)},
        {"cuEventElapsedTime", "hipEventElapsedTime", reinterpret_cast<void**>(&event_elapsed)},
        {"cuGetErrorString", nullptr, reinterpret_cast<void**>(&error_string)},
        {nullptr, "hipGetErrorString", reinterpret_cast<void**>(&hip_error_string)},
        {nullptr, "hipGetDeviceProperties", reinterpret_cast<void**>(&hip_device_properties)},
    };
    for (const Row& row : rows) {
      const char* const name = which == DeviceApi::hip ? row.hip : row.cuda;
      if (name && !(*row.slot = dlsym(library, name))) return name;
    }
    return nullptr;
  }

  std::string text(int code) const {
    const char* text = hip_error_string ? hip_error_string(code) : nullptr;
    if (text) return text;
    return error_string && error_string(code, &text) == 0 && text ? text : "error " + std::to_string(code);
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

Result<std::shared_ptr<CudaDriver>> CudaDriver::load(DeviceApi which) {
  const std::string vendor(text_of(which).vendor);
  auto api = std::make_unique<Api>();
  std::string reason;
  api->library = open_driver_library(which, reason);
  if (!api->library) return no_device(which, "there is no " + vendor + " driver here: " + reason);
  if (const char* missing = api->resolve(which))
    return no_device(which, "the " + vendor + " driver is too old: it has no " + missing);
  if (const int code = api->init(0))
    return no_device(which, "the " + vendor + " driver does not start: " + api->text(code));
  int count = 0;
  if (const int code = api->device_get_count(&count); code || count == 0)
    return no_device(
        which, code ? "no " + vendor + " device: " + api->text(code) : "the " + vendor + " driver finds no device");
  std::shared_ptr<CudaDriver> driver(new CudaDriver);
  driver->which_ = which;
  driver->api_ = std::move(api);
  Api& a = *driver->api_;
  QCG_CHECK(driver->check(a.device_get(&driver->device_, 0), "the first device"));
  char name[256] = {};
  QCG_CHECK(driver->check(a.device_get_name(name, sizeof name - 1, driver->device_), "the name of the device"));
  driver->device_name_ = name;
  QCG_CHECK(which == DeviceApi::hip ? driver->find_architecture() : driver->find_capability());
  QCG_CHECK(driver->check(a.context_retain(&driver->context_, driver->device_), "the context of the device"));
  return driver;
}

Status CudaDriver::find_capability() {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  constexpr int kMostShared = 97;          // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
  int major = 0, minor = 0;
  QCG_CHECK(check(api_->device_get_attribute(&major, kMajor, device_), "cuDeviceGetAttribute"));
  QCG_CHECK(check(api_->device_get_attribute(&minor, kMinor, device_), "cuDeviceGetAttribute"));
  capability_ = major * 10 + minor;
  return check(api_->device_get_attribute(&most_shared_bytes_, kMostShared, device_), "cuDeviceGetAttribute");
}

// The struct that HIP fills differs between its versions, but every one has the name, such as "gfx90a:sramecc+:xnack-".
Status CudaDriver::find_architecture() {
  constexpr std::string_view kPrefix = "gfx";
  std::vector<char> properties(size_t{16} << 10);  // of HIP 6: 1,472 bytes
  QCG_CHECK(check(api_->hip_device_properties(properties.data(), device_), "hipGetDeviceProperties"));
  // Behind the device's name, which may have the same letters.
  const auto from = properties.begin() + static_cast<std::ptrdiff_t>(std::min(size_t{256}, properties.size()));
  const auto at = std::search(from, properties.end(), kPrefix.begin(), kPrefix.end());
  const auto end =
      std::find_if(at, properties.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  architecture_ = std::string(at, end);
  return {};
}

std::string CudaDriver::why_lacks(std::string_view isa) const {
  if (which_ == DeviceApi::hip)
    return isa == architecture_
               ? ""
               : "the device is a " + device_name_ + " (" + architecture_ + "), which does not run " + std::string(isa);
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
  return Error::io(std::string(text_of(which_).where) + " device " + std::to_string(device_),
                   std::string(what) + ": " + api_->text(code), "see the driver's messages in the system log");
}

Result<CudaKernel> CudaDriver::load_kernel(std::string_view cubin, const std::string& symbol) {
  const Api::Current current(*api_, context_);
  void* module = nullptr;
  const std::string image(cubin);  // a copy ends with NUL, in case the driver reads beyond a damaged ELF image
  if (const int code = api_->module_load(&module, image.c_str()))
    return Error::bad_input(symbol, "the driver refuses this module on " + device_name_ + ": " + api_->text(code),
                            "compile again for this device (" +
                                (which_ == DeviceApi::hip ? architecture_ : "sm_" + std::to_string(capability_)) + ")");
  CudaKernel kernel;
  kernel.module = std::shared_ptr<void>(module, [self = shared_from_this()](void* m) {
    const Api::Current scope(*self->api_, self->context_);
    self->api_->module_unload(m);
  });
  if (api_->module_get_function(&kernel.function, module, symbol.c_str()))
    return Error::bad_input(symbol, "the module has no such kernel", "compile again: program and kernels do not match");
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

Status CudaDriver::copy_in_on(void* stream, void* to, const void* from, size_t bytes) {
  const Api::Current current(*api_, context_);
  return bytes ? check(api_->copy_to_device_on(reinterpret_cast<uint64_t>(to), from, bytes, stream),
                       "copying to the device")
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
  return synchronize(nullptr);
}

Status CudaDriver::synchronize(void* stream) {
  const Api::Current current(*api_, context_);
  return check(api_->stream_synchronize(stream), "running kernels");
}

Status CudaDriver::launch_on(void* stream, const CudaKernel& kernel, const CudaGrid& grid, const void* args,
                             size_t args_bytes) {
  constexpr int kMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (args_bytes > 4096) return Error::internal("CudaDriver::launch", "kernel parameters beyond 4 KiB");
  if (grid.grid_x == 0 || grid.grid_y == 0) return {};
  const Api::Current current(*api_, context_);
  // A kernel of CUDA must request more than 48 KiB of shared memory explicitly.
  if (which_ == DeviceApi::cuda && grid.shared_bytes > 48 << 10)
    QCG_CHECK(
        check(api_->function_set_attribute(kernel.function, kMaxDynamicShared, static_cast<int>(grid.shared_bytes)),
              "asking for " + std::to_string(grid.shared_bytes) + " bytes of shared memory"));
  void* params[] = {const_cast<void*>(args)};
  return check(api_->launch(kernel.function, grid.grid_x, grid.grid_y, 1, grid.threads, 1, 1, grid.shared_bytes, stream,
                            params, nullptr),
               "launching a kernel");
}

Result<CudaProperties> CudaDriver::properties() const {
  if (which_ == DeviceApi::hip) return Error::unsupported("hip", "its properties are not read", "use NVIDIA's driver");
  constexpr int kClock_kHz = 13, kMultiprocessors = 16, kL2Bytes = 38;  // CU_DEVICE_ATTRIBUTE_*
  int clock = 0, multiprocessors = 0, l2 = 0;
  QCG_CHECK(check(api_->device_get_attribute(&clock, kClock_kHz, device_), "cuDeviceGetAttribute"));
  QCG_CHECK(check(api_->device_get_attribute(&multiprocessors, kMultiprocessors, device_), "cuDeviceGetAttribute"));
  QCG_CHECK(check(api_->device_get_attribute(&l2, kL2Bytes, device_), "cuDeviceGetAttribute"));
  return CudaProperties{multiprocessors, clock * 1e3, l2};
}

Result<CudaStream> CudaDriver::create_stream() {
  constexpr unsigned kNonBlocking = 1;  // the default stream does not wait for it
  const Api::Current current(*api_, context_);
  void* stream = nullptr;
  QCG_CHECK(check(api_->stream_create(&stream, kNonBlocking), "creating a stream"));
  return CudaStream(stream, [self = shared_from_this()](void* s) {
    const Api::Current scope(*self->api_, self->context_);
    self->api_->stream_destroy(s);
  });
}

Result<CudaEvent> CudaDriver::create_event() {
  constexpr unsigned kWithoutTime = 2;
  const Api::Current current(*api_, context_);
  void* event = nullptr;
  QCG_CHECK(check(api_->event_create(&event, kWithoutTime), "creating an event"));
  return CudaEvent(event, [self = shared_from_this()](void* e) {
    const Api::Current scope(*self->api_, self->context_);
    self->api_->event_destroy(e);
  });
}

Status CudaDriver::record_event(const CudaEvent& event, void* stream) {
  const Api::Current current(*api_, context_);
  return check(api_->event_record(event.get(), stream), "recording an event");
}

Status CudaDriver::wait_for(const CudaEvent& event) {
  const Api::Current current(*api_, context_);
  return check(api_->event_synchronize(event.get()), "running kernels");
}

Status CudaDriver::order_after(const CudaEvent& event, void* stream) {
  const Api::Current current(*api_, context_);
  return check(api_->stream_wait_event(stream, event.get(), 0), "ordering a stream after an event");
}

Result<CudaGraph> CudaDriver::record(const CudaStream& stream, const std::function<Status()>& launches) {
  constexpr int kThreadLocal = 1;  // other threads may call the driver meanwhile
  const Api::Current current(*api_, context_);
  QCG_CHECK(check(api_->stream_begin_capture(stream.get(), kThreadLocal), "recording launches"));
  const Status launched = launches();
  void* recorded = nullptr;
  const Status ended = check(api_->stream_end_capture(stream.get(), &recorded), "recording launches");
  void* graph = nullptr;
  Status made = launched.ok() ? ended : launched;
  if (made.ok()) made = check(api_->graph_instantiate(&graph, recorded, 0), "making a graph of launches");
  if (recorded) api_->graph_destroy(recorded);
  QCG_CHECK(made);
  return CudaGraph(graph, [self = shared_from_this()](void* g) {
    const Api::Current scope(*self->api_, self->context_);
    self->api_->graph_executable_destroy(g);
  });
}

Status CudaDriver::replay(const CudaGraph& graph, void* stream) {
  const Api::Current current(*api_, context_);
  return check(api_->graph_launch(graph.get(), stream), "launching a graph");
}

Result<double> CudaDriver::time(const CudaStream& stream, const std::function<Status()>& work) {
  const Api::Current current(*api_, context_);
  struct Event {
    const Api& api;
    void* handle = nullptr;
    ~Event() {
      if (handle) api.event_destroy(handle);
    }
  } begin{*api_}, end{*api_};
  QCG_CHECK(check(api_->event_create(&begin.handle, 0), "creating an event"));
  QCG_CHECK(check(api_->event_create(&end.handle, 0), "creating an event"));
  QCG_CHECK(check(api_->event_record(begin.handle, stream.get()), "recording an event"));
  QCG_CHECK(work());
  QCG_CHECK(check(api_->event_record(end.handle, stream.get()), "recording an event"));
  QCG_CHECK(check(api_->event_synchronize(end.handle), "running a kernel"));
  float ms = 0;
  QCG_CHECK(check(api_->event_elapsed(&ms, begin.handle, end.handle), "reading the device's clock"));
  return ms * 1e-3;
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
