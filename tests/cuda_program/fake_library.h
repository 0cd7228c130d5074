// The stand-in for a driver in place of the driver's library, as long as an object lives.
//
//   const FakeLibrary library(device, "libcuda.so.1");
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <string>

#include "tests/cuda_program/fake_driver.h"
#include "tests/paths.h"

namespace qcg::test {

class FakeLibrary {
 public:
  explicit FakeLibrary(FakeDriver& device, const std::string& name = "libcuda.so.1")
      : library_(dlopen((binary_dir() + "/tests/fake/" + name).c_str(), RTLD_NOW)) {
    REQUIRE_MESSAGE(library_, dlerror());
    use(&device);
  }
  ~FakeLibrary() { use(nullptr), dlclose(library_); }  // which may leave it loaded
  FakeLibrary(const FakeLibrary&) = delete;

 private:
  void use(FakeDriver* device) {
    reinterpret_cast<void (*)(FakeDriver*)>(dlsym(library_, "qcg_use_fake_driver"))(device);
  }
  void* library_;
};

}  // namespace qcg::test
