/* y = x . w^T with int4 weights in tinygemm's layout, through qcg_cuda_int4pack_mm.
 *
 *   int4pack            prints y[0][0..7], which are 1024, on CUDA device 0
 *
 * The library opens the CUDA driver by itself. This example links the driver to allocate memory, so it starts only
 * where one is installed.
 */
#include <cuda.h>
#include <qcg_int4pack.h>
#include <stdio.h>
#include <stdlib.h>

enum { kM = 1, kN = 64, kK = 1024, kGroup = 128, kInner = 8 };

static void check(CUresult code, const char* what) {
  const char* text = NULL;
  if (code == CUDA_SUCCESS) return;
  cuGetErrorString(code, &text);
  fprintf(stderr, "%s: %s\n", what, text ? text : "unknown");
  exit(1);
}

/* Device memory with the 16- or 32-bit `word` in all its elements. */
static CUdeviceptr fill(size_t elements, size_t bits, unsigned word) {
  CUdeviceptr memory;
  check(cuMemAlloc(&memory, elements * bits / 8), "cuMemAlloc");
  check(bits == 16 ? cuMemsetD16(memory, (unsigned short)word, elements) : cuMemsetD32(memory, word, elements),
        "cuMemset");
  return memory;
}

static qcg_dltensor view(CUdeviceptr memory, qcg_dtype dtype, int64_t* shape, int32_t rank) {
  const qcg_dltensor tensor = {(void*)memory, {2, 0}, rank, dtype, shape, NULL, 0};
  return tensor;
}

int main(void) {
  const qcg_dtype bf16 = {4, 16, 1}, i32 = {0, 32, 1};
  int64_t x_shape[] = {kM, kK}, w_shape[] = {kN / 8, kK / (16 * kInner), 32, kInner / 2};
  int64_t s_shape[] = {kK / kGroup, kN, 2}, y_shape[] = {kM, kN};
  CUcontext context;
  CUdevice device;
  unsigned short y[kM * kN];
  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");

  /* x is 1, all codes are 8, which is 0, and scale and zero are 1: every weight is (8 - 8) * 1 + 1. */
  const CUdeviceptr out = fill(kM * kN, 16, 0);
  const qcg_dltensor x = view(fill(kM * kK, 16, 0x3f80), bf16, x_shape, 2);
  const qcg_dltensor w = view(fill(kN * kK / 8, 32, 0x88888888u), i32, w_shape, 4);
  const qcg_dltensor scale_and_zero = view(fill(kK / kGroup * kN * 2, 16, 0x3f80), bf16, s_shape, 3);
  const qcg_dltensor product = view(out, bf16, y_shape, 2);
  if (qcg_cuda_int4pack_mm(&x, &w, kGroup, &scale_and_zero, &product, NULL) != QCG_OK) {
    fprintf(stderr, "%s\n", qcg_cuda_int4pack_error());
    return 1;
  }
  check(cuMemcpyDtoH(y, out, sizeof y), "cuMemcpyDtoH");
  for (int i = 0; i < 8; ++i) {
    const union {
      unsigned bits;
      float value;
    } element = {(unsigned)y[i] << 16};
    printf("%g%c", element.value, i < 7 ? ' ' : '\n');
  }
  return 0;
}
