// A stand-in for cuBLASLt: libcublasLt.so.13 whose entry points check what they are given and multiply in host memory.
//
// Why here: transposition, leading dimensions, types and sizes of attributes show in the product, on a machine without a
// device. It takes any transposition and leading dimension, so that a wrong one gives wrong numbers.
//
//   FakeCublasLt fake;
//   use(&fake);                       // qcg_use_fake_cublaslt of the opened library
//   fake.fail = "cublasLtMatmul";     // the entry point that fails from now on
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace qcg::test {

struct FakeCublasLt {
  std::string fail;                  // an entry point
  int fail_code = 14;                // CUBLAS_STATUS_INTERNAL_ERROR
  int offered = 3;                   // algorithms, of which the second has failed
  int requested = 0;                 // of the last call
  int alive = 0;                     // handles and descriptors
  std::vector<std::string> refused;  // why arguments were not valid
  bool wrong = false;                // sums are doubled
  int products = 0;
  void* stream = nullptr;  // of the last product
  uint64_t algorithm = 0;  // of the last product
  size_t workspace = 0;    // of the preference
  // Where the host finds what is at an address of the device.
  std::function<std::byte*(void*)> host = [](void* address) { return static_cast<std::byte*>(address); };
};

}  // namespace qcg::test
