// A device for other processes than the test's: libcuda.so.1 whose memory is the host's and whose kernels do nothing.
//
// Why here: the tool opens a driver in processes of its own, where no test is that could execute kernels.
//
// $QCG_HOST_DEVICE_LOG names a file that gets the stream of each launch.
//
//   run_program({"/usr/bin/env", "LD_LIBRARY_PATH=" + binary_dir() + "/tests/host_device", cli_path(), "bench", …});
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_program/fake_driver.h"

extern "C" void qcg_use_fake_driver(qcg::test::FakeDriver* driver);

namespace {

class HostDevice : public qcg::test::FakeDriver {
 public:
  HostDevice() { qcg_use_fake_driver(this); }
  int begin(const char*) override { return 0; }
  int capability() override { return 80; }
  void* load(const void*) override { return this; }
  void* function(void* module, const char*) override { return module; }
  uint64_t allocate(size_t bytes) override { return reinterpret_cast<uint64_t>(std::calloc(bytes, 1)); }
  void free(uint64_t address) override { std::free(at(address)); }
  int copy_in(uint64_t to, const void* from, size_t bytes) override { return std::memcpy(at(to), from, bytes), 0; }
  int copy_out(void* to, uint64_t from, size_t bytes) override { return std::memcpy(to, at(from), bytes), 0; }
  int copy_within(uint64_t to, uint64_t from, size_t bytes) override {
    return std::memmove(at(to), at(from), bytes), 0;
  }
  int set(uint64_t to, uint8_t value, size_t bytes) override { return std::memset(at(to), value, bytes), 0; }
  void on_stream(void* stream) override {
    const char* const path = std::getenv("QCG_HOST_DEVICE_LOG");
    std::FILE* const file = path ? std::fopen(path, "a") : nullptr;
    if (!file) return;
    std::fprintf(file, "%zu\n", reinterpret_cast<size_t>(stream));
    std::fclose(file);
  }
  int launch(void*, const uint32_t (&)[3], uint32_t, uint32_t, const void*) override { return 0; }

 private:
  static void* at(uint64_t address) { return reinterpret_cast<void*>(address); }
} g_device;

}  // namespace
