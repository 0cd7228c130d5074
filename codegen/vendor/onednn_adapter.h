// The C boundary between qcodegen and libqcodegen_onednn.so, the only code that includes oneDNN's headers.
//
// Why here: oneDNN is optional twice, at build and at run time. The adapter is a module of its own that links the
// vendor's library; vendor_module.cpp loads it when there is something to compare with, so qcodegen starts without
// oneDNN.
//
//   auto create = reinterpret_cast<decltype(&qcg_onednn_create)>(dlsym(module, "qcg_onednn_create"));
//   void* matmul = create(&spec, why, sizeof why);           // null: `why` says what this oneDNN lacks
//   run(matmul); read(matmul, output);
#pragma once

#include <cstdint>

#include "runtime/abi.h"

extern "C" {

// y[m, n] = eltwise( scales[n] * sum_k x[m, k] * w[n, k] + bias[n] ); dtypes are qcg::DType values.
struct QcgOneDnnMatmul {
  int64_t m, n, k;
  int32_t x_dtype, w_dtype, y_dtype;
  int32_t eltwise;             // QcgOneDnnEltwise
  const void* x;               // [m, k] row-major
  const void* w;               // [n, k] row-major; may be null for qcg_onednn_check
  const float* bias;           // [n] or null
  const float* scales;         // [n] or null; beside a float x they ask for weights decompression
  int64_t cold_bytes;          // weights are copied until they fill this much
  int64_t x_stride, y_stride;  // elements between rows, 0: no gap; qcg_onednn_create takes no gaps
};
enum QcgOneDnnEltwise : int32_t { kOneDnnNone, kOneDnnRelu, kOneDnnSwish, kOneDnnGeluErf, kOneDnnGeluTanh };

// Every entry point catches what oneDNN throws: 0 or null is failure, `why` its text, cut at why_bytes.
const char* qcg_onednn_version();                                                    // "2.6.3"
int qcg_onednn_check(const QcgOneDnnMatmul* spec, char* why, int64_t why_bytes);     // is there such a primitive?
void* qcg_onednn_create(const QcgOneDnnMatmul* spec, char* why, int64_t why_bytes);  // reorders the weights
int qcg_onednn_run(void* matmul);            // once, on the next copy of the weights
int qcg_onednn_read(void* matmul, void* y);  // [m, n] row-major
void qcg_onednn_destroy(void* matmul);

// The same as a kernel of a program, on the runtime's threads: onednn_task.h says what it is called with.
extern __attribute__((visibility("default"))) const qcg_kernel qcg_onednn_kernel;
}
