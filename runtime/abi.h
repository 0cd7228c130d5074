/* The kernel ABI: what a generated kernel exports and what the runtime passes to it. Plain C, no includes but stdint.
 *
 * Why here: this file is the only thing runtime/ and generated code share; it is compiled into both.
 *
 * A kernel is a pure function over a range of work items of one phase. The runtime runs the phases in order with a
 * barrier between them, splits [0, items) over its threads as it likes, and gives every thread its own scratch.
 * No threads, allocation, globals or I/O inside; floating-point and tile state are the caller's on return.
 *
 *   extern "C" const qcg_kernel qcg_kernel_0 = {QCG_KERNEL_ABI, 2, items, shared_bytes, scratch_bytes, run};
 */
#ifndef QCG_RUNTIME_ABI_H
#define QCG_RUNTIME_ABI_H
#include <stdint.h>

/* ABI 2 appended qcg_call.fault to ABI 1, so kernels of either run on this runtime. */
#define QCG_KERNEL_ABI 2
#define QCG_OLDEST_KERNEL_ABI 1

/* One tensor. Rank-2 kernels read stride: elements from one row to the next. */
typedef struct qcg_arg {
  void* data;
  int64_t stride;
} qcg_arg;

typedef struct qcg_call {
  const qcg_arg* args;   /* in the order the kernel's source states */
  const int64_t* params; /* run-time integers; params[0] is m for GEMM and row kernels */
  void* shared;          /* shared_bytes(call) bytes, 64-byte aligned, the same for all threads and phases */
  int64_t* fault;        /* INT64_MAX at first; see qcg_refuse */
} qcg_call;

/* For kernels that use numbers which they read as positions: reports that number `position` (from 0, row-major) is out
 * of range. The kernel must not use that number, and may go on with others. The runtime runs no further phase or step,
 * and the run is an error that names the number. Of several positions the least is kept, so that the message does not
 * depend on the number of threads. */
static inline void qcg_refuse(const qcg_call* call, int64_t position) {
  int64_t least = __atomic_load_n(call->fault, __ATOMIC_RELAXED);
  while (position < least &&
         !__atomic_compare_exchange_n(call->fault, &least, position, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

typedef struct qcg_kernel {
  uint32_t abi;    /* QCG_KERNEL_ABI */
  uint32_t phases; /* >= 1 */
  int64_t (*items)(const qcg_call* call, uint32_t phase);
  int64_t (*shared_bytes)(const qcg_call* call);
  int64_t (*scratch_bytes)(const qcg_call* call); /* per thread, 64-byte aligned */
  void (*run)(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch);
} qcg_kernel;

#endif
