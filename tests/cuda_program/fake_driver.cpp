// The entry points of libcuda.so.1 that runtime/cuda.cpp uses, under their versioned names.
#include "tests/cuda_program/fake_driver.h"

#include <cstring>

namespace {
qcg::test::FakeDriver* g_driver = nullptr;  // the test's; nobody else loads this library
constexpr int kInvalid = 1, kNotFound = 500;
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
  constexpr int kMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
  *value = attribute == kMajor ? g_driver->capability() / 10 : g_driver->capability() % 10;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  QCG_BEGIN;
  *context = g_driver;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void**) { return 0; }
int cuCtxSynchronize() {
  QCG_BEGIN;
  return 0;
}
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
  return g_driver->launch(function, {gx, gy, gz}, bx, shared, parameters[0]);
}
int cuGetErrorString(int, const char** text) {
  *text = "the executor's error";
  return 0;
}

}  // extern "C"
