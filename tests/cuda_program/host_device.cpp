// A device for other processes than the test's: libcuda.so.1 whose memory is the host's and whose kernels do nothing.
//
// Why here: the tool opens a driver in processes of its own, where no test is that could execute kernels.
//
// $QCG_HOST_DEVICE_LOG names a file that gets the stream of each launch.
//
//   run_program({"/usr/bin/env", "LD_LIBRARY_PATH=" + binary_dir() + "/tests/host_device", cli_path(), "bench", …});
#include <cstdio>
#include <cstdlib>

#include "tests/cuda_program/host_memory.h"

extern "C" void qcg_use_fake_driver(qcg::test::FakeDriver* driver);

namespace {

class HostDevice : public qcg::test::HostMemory {
 public:
  HostDevice() { qcg_use_fake_driver(this); }
  void* function(void* module, const char*) override { return module; }
  void on_stream(void* stream) override {
    const char* const path = std::getenv("QCG_HOST_DEVICE_LOG");
    std::FILE* const file = path ? std::fopen(path, "a") : nullptr;
    if (!file) return;
    std::fprintf(file, "%zu\n", reinterpret_cast<size_t>(stream));
    std::fclose(file);
  }
  int launch(void*, const uint32_t (&)[3], uint32_t, uint32_t, const void*) override { return 0; }
} g_device;

}  // namespace
