/* Loads a program that `qcodegen compile` wrote, feeds it a ramp, and prints the first values of every output.
 *
 *   cc run_program.c $(pkg-config --cflags --libs qcodegen) -o run_program
 *   ./run_program mlp.qcg 4          symbolic extents (rows, batch) become 4; 1 without the argument
 */
#include <qcodegen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxTensors = 64, kMaxRank = 16 };

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, qcg_last_error());
  return 1;
}

/* bf16 is the upper half of a float; small multiples of 1/8 need no rounding in either 16-bit type. */
static void store(void* data, int64_t i, qcg_dtype dtype, float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (dtype.code == 2 && dtype.bits == 32) ((float*)data)[i] = value;
  else if (dtype.code == 2 && dtype.bits == 64) ((double*)data)[i] = value;
  else if (dtype.code == 2 && dtype.bits == 16)
    ((uint16_t*)data)[i] =
        value == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff));
  else if (dtype.code == 4) ((uint16_t*)data)[i] = (uint16_t)(bits >> 16);
  else if (dtype.bits == 8) ((int8_t*)data)[i] = (int8_t)(value * 8);
  else if (dtype.bits == 32) ((int32_t*)data)[i] = (int32_t)(value * 8);
  else if (dtype.bits == 64) ((int64_t*)data)[i] = (int64_t)(value * 8);
}

static double load(const void* data, int64_t i, qcg_dtype dtype) {
  float value = 0;
  if (dtype.code == 2 && dtype.bits == 32) return ((const float*)data)[i];
  if (dtype.code == 2 && dtype.bits == 64) return ((const double*)data)[i];
  if (dtype.code == 2 && dtype.bits == 16) { /* subnormals print as 0 */
    const uint32_t h = ((const uint16_t*)data)[i];
    const uint32_t bits =
        (h & 0x8000) << 16 | ((h & 0x7c00) == 0 ? 0 : ((h >> 10 & 0x1f) + 112) << 23 | (h & 0x3ff) << 13);
    memcpy(&value, &bits, 4);
  } else if (dtype.code == 4) {
    const uint32_t bits = (uint32_t)((const uint16_t*)data)[i] << 16;
    memcpy(&value, &bits, 4);
  } else if (dtype.bits == 8) {
    return ((const int8_t*)data)[i];
  } else if (dtype.bits == 32) {
    return ((const int32_t*)data)[i];
  } else if (dtype.bits == 64) {
    return (double)((const int64_t*)data)[i];
  }
  return value;
}

/* A dense tensor with memory of its own. */
static qcg_dltensor make_tensor(qcg_dtype dtype, int32_t ndim, const int64_t* shape, int64_t* count) {
  qcg_dltensor t = {NULL, {1, 0}, ndim, dtype, malloc(kMaxRank * sizeof(int64_t)), NULL, 0};
  *count = 1;
  for (int32_t axis = 0; axis < ndim; ++axis) *count *= t.shape[axis] = shape[axis];
  t.data = calloc((size_t)*count + 1, dtype.bits / 8);
  return t;
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: %s PROGRAM.qcg [SYMBOLIC_EXTENT]\n", argv[0]), 2;
  const int64_t symbolic = argc > 2 ? atoll(argv[2]) : 1;
  qcg_program* program;
  qcg_context* context;
  qcg_dltensor inputs[kMaxTensors], outputs[kMaxTensors];
  qcg_tensor_info info;
  int64_t count;

  if (qcg_program_load(argv[1], NULL, &program) != QCG_OK) return fail("load");
  if (qcg_context_create(program, NULL, &context) != QCG_OK) return fail("context");
  const int32_t n_inputs = qcg_n_inputs(program), n_outputs = qcg_n_outputs(program);
  if (n_inputs > kMaxTensors || n_outputs > kMaxTensors) return fprintf(stderr, "too many tensors\n"), 1;

  for (int32_t i = 0; i < n_inputs; ++i) {
    int64_t shape[kMaxRank];
    if (qcg_input_info(program, i, &info) != QCG_OK) return fail("input");
    for (int32_t axis = 0; axis < info.ndim; ++axis) shape[axis] = info.shape[axis] < 0 ? symbolic : info.shape[axis];
    inputs[i] = make_tensor(info.dtype, info.ndim, shape, &count);
    for (int64_t e = 0; e < count; ++e) store(inputs[i].data, e, info.dtype, (float)(e % 17 - 8) / 8);
  }
  for (int32_t i = 0; i < n_outputs; ++i) {
    int64_t shape[kMaxRank];
    int32_t ndim = kMaxRank;
    if (qcg_output_info(program, i, &info) != QCG_OK) return fail("output");
    if (qcg_output_shape(program, inputs, n_inputs, i, shape, &ndim) != QCG_OK) return fail("output shape");
    outputs[i] = make_tensor(info.dtype, ndim, shape, &count);
  }

  if (qcg_run(context, inputs, n_inputs, outputs, n_outputs, NULL) != QCG_OK) return fail("run");

  for (int32_t i = 0; i < n_outputs; ++i) {
    qcg_output_info(program, i, &info);
    printf("%s [", info.name);
    count = 1;
    for (int32_t axis = 0; axis < outputs[i].ndim; ++axis) {
      printf(axis ? ", %lld" : "%lld", (long long)outputs[i].shape[axis]);
      count *= outputs[i].shape[axis];
    }
    printf("]:");
    for (int64_t e = 0; e < count && e < 8; ++e) printf(" %g", load(outputs[i].data, e, info.dtype));
    printf("\n");
    free(outputs[i].data), free(outputs[i].shape);
  }
  for (int32_t i = 0; i < n_inputs; ++i) free(inputs[i].data), free(inputs[i].shape);
  qcg_context_free(context);
  qcg_program_free(program);
  return 0;
}
