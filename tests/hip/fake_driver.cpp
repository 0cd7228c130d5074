// A stand-in for AMD's driver: the entry points of tests/cuda_program/fake_driver.cpp under HIP's names, and those that
// HIP alone has.
#define cuInit hipInit
#define cuDeviceGetCount hipGetDeviceCount
#define cuDeviceGetName hipDeviceGetName
#define cuDeviceGet hipDeviceGet
#define cuDevicePrimaryCtxRetain hipDevicePrimaryCtxRetain
#define cuDevicePrimaryCtxRelease_v2 hipDevicePrimaryCtxRelease
#define cuCtxPushCurrent_v2 hipCtxPushCurrent
#define cuCtxPopCurrent_v2 hipCtxPopCurrent
#define cuModuleLoadData hipModuleLoadData
#define cuModuleUnload hipModuleUnload
#define cuModuleGetFunction hipModuleGetFunction
#define cuMemAlloc_v2 hipMalloc
#define cuMemFree_v2 hipFree
#define cuMemcpyHtoD_v2 hipMemcpyHtoD
#define cuMemcpyHtoDAsync_v2 hipMemcpyHtoDAsync
#define cuMemcpyDtoH_v2 hipMemcpyDtoH
#define cuMemcpyDtoD_v2 hipMemcpyDtoD
#define cuMemsetD8_v2 hipMemsetD8
#define cuLaunchKernel hipModuleLaunchKernel
#define cuStreamCreate hipStreamCreateWithFlags
#define cuStreamDestroy_v2 hipStreamDestroy
#define cuStreamSynchronize hipStreamSynchronize
#define cuStreamWaitEvent hipStreamWaitEvent
#define cuStreamBeginCapture_v2 hipStreamBeginCapture
#define cuStreamEndCapture hipStreamEndCapture
#define cuGraphInstantiateWithFlags hipGraphInstantiateWithFlags
#define cuGraphDestroy hipGraphDestroy
#define cuGraphExecDestroy hipGraphExecDestroy
#define cuGraphLaunch hipGraphLaunch
#define cuEventCreate hipEventCreateWithFlags
#define cuEventDestroy_v2 hipEventDestroy
#define cuEventRecord hipEventRecord
#define cuEventSynchronize hipEventSynchronize
#define cuEventElapsedTime hipEventElapsedTime
#include "tests/cuda_program/fake_driver.cpp"

extern "C" {

int hipGetDeviceProperties(void* properties, int) {
  QCG_BEGIN;
  // As HIP 5: the name, numbers, and the architecture somewhere behind them.
  std::memset(properties, 0, 512);
  std::strcpy(static_cast<char*>(properties), "gfx emulator");
  std::strcpy(static_cast<char*>(properties) + 400, g_driver->architecture());
  return 0;
}
const char* hipGetErrorString(int) { return "the executor's error"; }

}  // extern "C"
