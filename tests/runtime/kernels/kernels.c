/* Kernels for the runtime's tests, written by hand against the ABI. Built as a module when the tests are built. */
#include <pthread.h>

#include "runtime/abi.h"

static int64_t rows(const qcg_call* call, uint32_t phase) { return (void)phase, call->params[0]; }
static int64_t no_bytes(const qcg_call* call) { return (void)call, 0; }
static float* row(const qcg_arg* arg, int64_t i) { return (float*)arg->data + i * arg->stride; }

/* args: x, y. params: m, n. y = 2x. */
static void run_double(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch) {
  (void)phase, (void)scratch;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < call->params[1]; ++j) row(&call->args[1], i)[j] = 2 * row(&call->args[0], i)[j];
}
const qcg_kernel test_double = {QCG_KERNEL_ABI, 1, rows, no_bytes, no_bytes, run_double};

/* The same for small m, marked by adding 0.5. */
static void run_double_small(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch) {
  (void)phase, (void)scratch;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < call->params[1]; ++j) row(&call->args[1], i)[j] = 2 * row(&call->args[0], i)[j] + 0.5f;
}
const qcg_kernel test_double_small = {QCG_KERNEL_ABI, 1, rows, no_bytes, no_bytes, run_double_small};

/* The same without the factor. */
static void run_copy(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch) {
  (void)phase, (void)scratch;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < call->params[1]; ++j) row(&call->args[1], i)[j] = row(&call->args[0], i)[j];
}
const qcg_kernel test_copy = {QCG_KERNEL_ABI, 1, rows, no_bytes, no_bytes, run_copy};

/* The same, and refuses where the first number is negative. */
static int64_t refuse_negative(const qcg_call* call) { return row(&call->args[0], 0)[0] < 0 ? -1 : 0; }
const qcg_kernel test_refuse_negative = {QCG_KERNEL_ABI, 1, rows, refuse_negative, no_bytes, run_copy};

/* The same, and asks that its thread be cancelled, at a point where that would happen. */
static void run_cancel(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch) {
  run_copy(call, phase, begin, end, scratch);
  pthread_cancel(pthread_self());
  pthread_testcancel();
}
const qcg_kernel test_cancel = {QCG_KERNEL_ABI, 1, rows, no_bytes, no_bytes, run_cancel};

/* args: x, weights[n], y. params: m, n. Phase 0: row sums of x to shared, through scratch. Phase 1: y = x + w + sum of
 * the sums of all rows, so that a phase that starts early is seen. */
static int64_t sums_bytes(const qcg_call* call) { return call->params[0] * (int64_t)sizeof(float); }
static int64_t row_bytes(const qcg_call* call) { return call->params[1] * (int64_t)sizeof(float); }
static void run_sums(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch) {
  const int64_t n = call->params[1];
  float* const sums = (float*)call->shared;
  float* const copy = (float*)scratch;
  for (int64_t i = begin; i < end; ++i) {
    const float* const x = row(&call->args[0], i);
    float sum = 0;
    if (phase == 0) {
      for (int64_t j = 0; j < n; ++j) copy[j] = x[j];
      for (int64_t j = 0; j < n; ++j) sum += copy[j];
      sums[i] = sum;
    } else {
      for (int64_t r = 0; r < call->params[0]; ++r) sum += sums[r];
      for (int64_t j = 0; j < n; ++j) row(&call->args[2], i)[j] = x[j] + ((const float*)call->args[1].data)[j] + sum;
    }
  }
}
const qcg_kernel test_sums = {QCG_KERNEL_ABI, 2, rows, sums_bytes, row_bytes, run_sums};

/* args: x, count (i64). params: m, n. How many rows of x begin with a number above 0. */
static int64_t one(const qcg_call* call, uint32_t phase) { return (void)call, (void)phase, 1; }
static void run_count(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch) {
  (void)phase, (void)begin, (void)end, (void)scratch;
  int64_t count = 0;
  for (int64_t i = 0; i < call->params[0]; ++i) count += row(&call->args[0], i)[0] > 0;
  *(int64_t*)call->args[1].data = count;
}
const qcg_kernel test_count = {QCG_KERNEL_ABI, 1, one, no_bytes, no_bytes, run_count};

/* args: table, ids, y. params: m, size. y[i] = table[ids[i]]. */
static void run_look_up(const qcg_call* call, uint32_t phase, int64_t begin, int64_t end, void* scratch) {
  (void)phase, (void)scratch;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t id = ((const int64_t*)call->args[1].data)[i];
    if (id < 0 || id >= call->params[1]) qcg_refuse(call, i);
    else ((float*)call->args[2].data)[i] = ((const float*)call->args[0].data)[id];
  }
}
const qcg_kernel test_look_up = {QCG_KERNEL_ABI, 1, rows, no_bytes, no_bytes, run_look_up};

/* A kernel of the first ABI, which has no fault. */
const qcg_kernel test_first_abi = {1, 1, rows, no_bytes, no_bytes, run_double};
const qcg_kernel test_other_abi = {QCG_KERNEL_ABI + 1, 1, rows, no_bytes, no_bytes, run_double};
const qcg_kernel test_incomplete = {QCG_KERNEL_ABI, 1, rows, no_bytes, 0, run_double};
