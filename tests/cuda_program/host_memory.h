// HostMemory: a stand-in for a driver whose device's memory is the host's.
//
// Why here: several tests give such a device kernels of their own, or none.
#pragma once

#include <cstdlib>
#include <cstring>

#include "tests/cuda_program/fake_driver.h"

namespace qcg::test {

class HostMemory : public FakeDriver {
 public:
  int begin(const char*) override { return 0; }
  int capability() override { return 80; }
  void* load(const void*) override { return this; }
  uint64_t allocate(size_t bytes) override { return reinterpret_cast<uint64_t>(std::calloc(bytes, 1)); }
  void free(uint64_t address) override { std::free(at(address)); }
  int copy_in(uint64_t to, const void* from, size_t bytes) override { return std::memcpy(at(to), from, bytes), 0; }
  int copy_out(void* to, uint64_t from, size_t bytes) override { return std::memcpy(to, at(from), bytes), 0; }
  int copy_within(uint64_t to, uint64_t from, size_t bytes) override {
    return std::memmove(at(to), at(from), bytes), 0;
  }
  int set(uint64_t to, uint8_t value, size_t bytes) override { return std::memset(at(to), value, bytes), 0; }

 private:
  static void* at(uint64_t address) { return reinterpret_cast<void*>(address); }
};

}  // namespace qcg::test
