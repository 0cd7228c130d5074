// What NVIDIA's headers say of cuBLASLt, as far as cublaslt.cpp calls it: numbers, and the structs that it returns.
//
// Why here: the library is optional at run time and its headers at build time, so none of them is included. Where they
// are installed, tests/vendor/cublaslt_header.cpp compares every line with them.
//
//   api.layout_create(&layout, lt::kR16BF, rows, columns, leading);
#pragma once

#include <cstddef>
#include <cstdint>

namespace qcg::lt {

// cublasStatus_t, cublas_api.h.
enum Status : int32_t { kSuccess = 0, kNotInitialized = 1, kArchMismatch = 8, kNotSupported = 15 };

// cudaDataType_t, library_types.h.
enum DataType : int32_t { kR32F = 0, kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14, kR8F_E4M3 = 28 };

// cublasComputeType_t, cublas_api.h. kCompute32F does not round its inputs to TF32.
enum ComputeType : int32_t { kCompute32F = 68, kCompute32I = 72 };

// cublasOperation_t, cublas_api.h.
enum Operation : int32_t { kOpN = 0, kOpT = 1 };

// cublasLtMatmulDescAttributes_t, cublasLt.h, with the type of the value that is passed.
enum DescAttribute : int32_t {
  kDescTransA = 3,  // int32_t, an Operation
  kDescTransB = 4   // the same
};

// cublasLtMatmulPreferenceAttributes_t, cublasLt.h.
enum PreferenceAttribute : int32_t { kPreferenceMaxWorkspaceBytes = 1 };  // uint64_t

// cublasLtMatmulAlgo_t, cublasLt.h: 64 opaque bytes, which may be copied.
struct Algorithm {
  uint64_t data[8];
};

// cublasLtMatmulHeuristicResult_t, cublasLt.h.
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  int32_t state;  // a Status; the rest is only valid if it is kSuccess
  float waves;
  int32_t reserved[4];
};
static_assert(sizeof(Algorithm) == 64 && sizeof(HeuristicResult) == 96);

// The alignment that algorithms may assume of every matrix: default of CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_*_BYTES.
inline constexpr size_t kAlignment = 256;

// The entry points. Handles and descriptors are pointers to opaque structs, enumerations are int32_t, and cudaStream_t
// is the CUstream of the driver.
using Create = int(void** handle);
using Destroy = int(void* handle);
using DescCreate = int(void** desc, int32_t compute_type, int32_t scale_type);
using LayoutCreate = int(void** layout, int32_t type, uint64_t rows, uint64_t columns, int64_t leading);
using PreferenceCreate = int(void** preference);
using SetAttribute = int(void* descriptor, int32_t attribute, const void* value, size_t bytes);
using GetHeuristic = int(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int requested,
                         HeuristicResult* results, int* returned);
using Matmul = int(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,
                   void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                   const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream);
using GetVersion = size_t();
using StatusText = const char*(int status);

}  // namespace qcg::lt
