// A stand-in for NVIDIA's driver: libcuda.so.1 whose entry points ask an object of the test. tests/hip has one for AMD's.
//
// Why here: a whole CUDA program (load, upload, launch, copy back) runs without a device, its kernels in the executor of
// PTX (tests/cuda/ptx). A library that a test has opened under this name is the one that runtime/cuda.cpp finds.
//
//   class Device : public FakeDriver { … };
//   auto* use = reinterpret_cast<void (*)(FakeDriver*)>(dlsym(library, "qcg_use_fake_driver"));  use(&device);
#pragma once

#include <cstddef>
#include <cstdint>

namespace qcg::test {

class FakeDriver {
 public:
  virtual int begin(const char* entry_point) = 0;  // other than 0: the entry point fails so
  virtual int capability() { return 0; }           // of CUDA: 80, 90
  virtual int most_shared_bytes() { return 227 << 10; }
  virtual const char* architecture() { return ""; }  // of HIP: "gfx90a:xnack-"
  virtual void* load(const void* image) = 0;         // null: no such module
  virtual void* function(void* module, const char* name) = 0;
  virtual uint64_t allocate(size_t bytes) = 0;
  virtual void free(uint64_t address) = 0;
  virtual int copy_in(uint64_t to, const void* from, size_t bytes) = 0;
  virtual int copy_out(void* to, uint64_t from, size_t bytes) = 0;
  virtual bool is_queue(void*) { return false; }       // a stream whose work is done when someone waits for it
  virtual void on_stream(void*) {}                     // of the launch or the graph that follows
  virtual void synchronize(void*) {}                   // a stream
  virtual size_t parameter_bytes(void*) { return 0; }  // of a function whose launches are recorded or queued
  // Of programs with state alone.
  virtual int copy_within(uint64_t, uint64_t, size_t) { return 999; }
  virtual int set(uint64_t, uint8_t, size_t) { return 999; }
  virtual int launch(void* function, const uint32_t (&grid)[3], uint32_t threads, uint32_t shared,
                     const void* parameter) = 0;

 protected:
  ~FakeDriver() = default;
};

}  // namespace qcg::test
