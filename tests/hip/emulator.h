// HIP kernels on a CPU: 64 lanes a wave, threads as fibers, products of matrices with gfx90a's layout of lanes.
//
// Why here: no machine of the project has a device of AMD, and a kernel's source says what each lane does. What runs is that
// source, compiled by g++ with tests/hip/emulated/amdgcn.cuh in place of the device's instructions.
//
//   auto kernels = emulate(sources);                         // of HIP KernelSources
//   const Status status = kernels[0].run({.blocks = 2, .column_tiles = 1}, launch, parameter);
//
// A block whose threads wait for one another in vain is an error. run() executes the threads of a wave in ascending and in
// descending order; where the two leave other bytes, a barrier is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/build/build.h"
#include "tests/cuda/ptx/fibers.h"

namespace qcg::test {

// Memory of a device: bytes between bytes that no kernel may touch.
class DeviceMemory {
 public:
  // `shift`: bytes by which the address misses a multiple of 256.
  std::byte* add(std::span<const std::byte> bytes, uint64_t shift = 0);
  // Of what add() gave, whether the bytes around it are as they were.
  bool is_intact(size_t buffer) const;
  std::span<std::byte> bytes(size_t buffer);
  size_t count() const { return buffers_.size(); }
  std::vector<std::vector<std::byte>> copy() const;
  void restore(const std::vector<std::vector<std::byte>>& copy);

 private:
  struct Buffer {
    std::vector<std::byte> all;
    size_t begin = 0, bytes = 0;
  };
  std::vector<Buffer> buffers_;
};

// A bug that a test seeds: the first `from` of the kernel or of a header becomes `to`.
struct HeaderChange {
  std::string file, from, to;  // "kernel" is the source
};

class EmulatedKernel {
 public:
  // The kernel's one parameter, as its bytes; those that the kernel's type does not have are left out. Errors: deadlock,
  // bytes around a buffer that changed, results that depend on the order of threads.
  Status run(uint32_t blocks, const CudaLaunch& launch, std::vector<std::byte> parameter, DeviceMemory& memory) const;
  // The same once, on any memory, unchecked.
  Status run_once(uint32_t blocks, const CudaLaunch& launch, std::span<const std::byte> parameter,
                  ptx::Order order = ptx::Order::ascending) const;
  size_t parameter_bytes() const;

 private:
  friend std::vector<EmulatedKernel> emulate(const std::vector<KernelSource>&, const HeaderChange&);
  std::string name_;
  std::shared_ptr<void> library_;
};

// Fails the test if a source does not compile.
std::vector<EmulatedKernel> emulate(const std::vector<KernelSource>& sources, const HeaderChange& change = {});

}  // namespace qcg::test
