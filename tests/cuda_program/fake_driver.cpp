// The entry points of libcuda.so.1 that runtime/cuda.cpp uses, under their versioned names.
#include "tests/cuda_program/fake_driver.h"

#include <chrono>
#include <cstring>
#include <vector>

namespace {
qcg::test::FakeDriver* g_driver = nullptr;  // the test's; nobody else loads this library
constexpr int kInvalid = 1, kNotFound = 500;
using Clock = std::chrono::steady_clock;
struct Launch {
  void* function;
  uint32_t grid[3];
  uint32_t threads, shared;
  std::vector<unsigned char> parameter;
};
using Recording = std::vector<Launch>;
Recording* g_recording = nullptr;
}  // namespace

#define QCG_BEGIN \
  if (const int code = g_driver->begin(__func__)) return code

extern "C" {

void qcg_use_fake_driver(qcg::test::FakeDriver* driver) { g_driver = driver; }

int cuInit(unsigned) {
  QCG_BEGIN;
  return 0;
}
int cuDeviceGetCount(int* count) {
  QCG_BEGIN;
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int) {
  QCG_BEGIN;
  *device = 0;
  return 0;
}
int cuDeviceGetName(char* name, int length, int) {
  QCG_BEGIN;
  std::strncpy(name, "executor of PTX", static_cast<size_t>(length));
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  QCG_BEGIN;
  switch (attribute) {                    // CU_DEVICE_ATTRIBUTE_*
    case 13: return *value = 1000000, 0;  // clock in kHz
    case 16: return *value = 4, 0;        // multiprocessors
    case 38: return *value = 1 << 20, 0;  // bytes of L2
    case 75: return *value = g_driver->capability() / 10, 0;
    case 76: return *value = g_driver->capability() % 10, 0;
    default: return kInvalid;
  }
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  QCG_BEGIN;
  *context = g_driver;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void**) { return 0; }
int cuModuleLoadData(void** module, const void* image) {
  QCG_BEGIN;
  return (*module = g_driver->load(image)) ? 0 : kInvalid;
}
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  QCG_BEGIN;
  return (*function = g_driver->function(module, name)) ? 0 : kNotFound;
}
int cuFuncSetAttribute(void*, int, int) {
  QCG_BEGIN;
  return 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  QCG_BEGIN;
  *address = g_driver->allocate(bytes);
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  g_driver->free(address);
  return 0;
}
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  QCG_BEGIN;
  return g_driver->copy_in(to, from, bytes);
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  QCG_BEGIN;
  return g_driver->copy_out(to, from, bytes);
}
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
  QCG_BEGIN;
  return g_driver->copy_within(to, from, bytes);
}
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) {
  QCG_BEGIN;
  return g_driver->set(to, value, bytes);
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned, unsigned,
                   unsigned shared, void* stream, void** parameters, void**) {
  QCG_BEGIN;
  g_driver->on_stream(stream);
  if (g_recording) {
    const auto* bytes = static_cast<const unsigned char*>(parameters[0]);
    g_recording->push_back({function, {gx, gy, gz}, bx, shared, {bytes, bytes + g_driver->parameter_bytes(function)}});
    return 0;
  }
  return g_driver->launch(function, {gx, gy, gz}, bx, shared, parameters[0]);
}

// Launches while a stream is captured are kept, and made at each launch of the graph.
int cuStreamCreate(void** stream, unsigned) {
  QCG_BEGIN;
  *stream = new int;
  return 0;
}
int cuStreamDestroy_v2(void* stream) { return delete static_cast<int*>(stream), 0; }
int cuStreamSynchronize(void* stream) {
  QCG_BEGIN;
  g_driver->synchronize(stream);
  return 0;
}
int cuStreamBeginCapture_v2(void*, int) {
  QCG_BEGIN;
  return g_recording = new Recording, 0;
}
int cuStreamEndCapture(void*, void** graph) {
  *graph = g_recording;
  g_recording = nullptr;
  QCG_BEGIN;
  return 0;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  QCG_BEGIN;
  *executable = new Recording(*static_cast<Recording*>(graph));
  return 0;
}
int cuGraphDestroy(void* graph) { return delete static_cast<Recording*>(graph), 0; }
int cuGraphExecDestroy(void* executable) { return delete static_cast<Recording*>(executable), 0; }
int cuGraphLaunch(void* executable, void* stream) {
  QCG_BEGIN;
  g_driver->on_stream(stream);
  for (const Launch& l : *static_cast<Recording*>(executable))
    if (const int code =
            g_driver->launch(l.function, {l.grid[0], l.grid[1], l.grid[2]}, l.threads, l.shared, l.parameter.data()))
      return code;
  return 0;
}
// Events have the time of the host.
int cuEventCreate(void** event, unsigned) {
  QCG_BEGIN;
  *event = new Clock::time_point;
  return 0;
}
int cuEventDestroy_v2(void* event) { return delete static_cast<Clock::time_point*>(event), 0; }
int cuEventRecord(void* event, void*) {
  QCG_BEGIN;
  *static_cast<Clock::time_point*>(event) = Clock::now();
  return 0;
}
int cuEventSynchronize(void*) {
  QCG_BEGIN;
  return 0;
}
int cuEventElapsedTime(float* ms, void* from, void* to) {
  QCG_BEGIN;
  *ms = std::chrono::duration<float, std::milli>(*static_cast<Clock::time_point*>(to) -
                                                 *static_cast<Clock::time_point*>(from))
            .count();
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "the executor's error";
  return 0;
}

}  // extern "C"
