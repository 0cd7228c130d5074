/* The C API: load a program directory that `qcodegen compile` wrote, and run it.
 *
 * Why here: what ships is this header and libqcodegen_runtime.so; no compiler, no graph, no cache is needed.
 *
 *   qcg_program* program;
 *   qcg_context* context;
 *   if (qcg_program_load("mlp.qcg", NULL, &program) != QCG_OK) return fail(qcg_last_error());
 *   if (qcg_context_create(program, NULL, &context) != QCG_OK) return fail(qcg_last_error());
 *   if (qcg_run(context, inputs, 1, outputs, 1, NULL) != QCG_OK) return fail(qcg_last_error());
 *
 * A program is immutable and may be used by any number of threads; a context belongs to one thread at a time and has
 * worker threads of its own. Tensors are borrowed for the call. No function throws, aborts, or changes global thread
 * settings. A thread that is cancelled (pthread_cancel) during a call ends after it, not in it: what it holds has still
 * to be freed. A program directory is code: load only what you would also execute.
 */
#ifndef QCODEGEN_H
#define QCODEGEN_H

#include <stdint.h>

#if defined(__GNUC__)
#define QCG_API __attribute__((visibility("default")))
#else
#define QCG_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a declaration below changes in a way that old callers notice. */
#define QCG_API_VERSION 1

typedef enum qcg_status {
  QCG_OK = 0,
  QCG_ERROR_BAD_INPUT = 1,   /* an argument, a tensor or the program directory is wrong or damaged */
  QCG_ERROR_UNSUPPORTED = 2, /* right, but not for this machine or this version of the runtime */
  QCG_ERROR_IO = 3,          /* a file cannot be read, or memory cannot be had */
  QCG_ERROR_INTERNAL = 4     /* a bug in qcodegen */
} qcg_status;

/* The same layout as DLTensor of DLPack 1.0: a DLTensor* may be cast. */
typedef struct qcg_device {
  int32_t device_type; /* 1: CPU, 3: pinned host memory of CUDA */
  int32_t device_id;
} qcg_device;

typedef struct qcg_dtype {
  uint8_t code;   /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10/12/14 float8 e4m3fn/e5m2/e8m0fnu */
  uint8_t bits;   /* of one element */
  uint16_t lanes; /* 1 */
} qcg_dtype;

typedef struct qcg_dltensor {
  void* data;
  qcg_device device;
  int32_t ndim;
  qcg_dtype dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: dense row-major */
  uint64_t byte_offset;
} qcg_dltensor;

typedef struct qcg_program qcg_program;
typedef struct qcg_context qcg_context;

QCG_API uint32_t qcg_abi_version(void); /* QCG_API_VERSION of the library */
QCG_API const char* qcg_version(void);  /* "0.1.0" */
/* What went wrong in this thread's last call that did not return QCG_OK; "" before. Valid until the next such call. */
QCG_API const char* qcg_last_error(void);

/* Zero-initialize options; NULL means all zeros. They are read during the call only. */
typedef struct qcg_load_options {
  int32_t huge_pages;     /* 1: copy weights to huge pages (faster, more memory); 0: map the file */
  int32_t verify_weights; /* 1: check the checksum of the weights too, about 1 s per GB */
  uint64_t reserved[4];
} qcg_load_options;

QCG_API qcg_status qcg_program_load(const char* path, const qcg_load_options* options, qcg_program** out);
/* Contexts made from it stay valid. NULL is accepted. */
QCG_API void qcg_program_free(qcg_program* program);

/* All pointers in it live as long as the program. */
typedef struct qcg_tensor_info {
  const char* name;
  qcg_dtype dtype;
  int32_t ndim;
  const int64_t* shape; /* -1: depends on the inputs */
} qcg_tensor_info;

QCG_API int32_t qcg_n_inputs(const qcg_program* program); /* 0 for NULL */
QCG_API int32_t qcg_n_outputs(const qcg_program* program);
QCG_API qcg_status qcg_input_info(const qcg_program* program, int32_t index, qcg_tensor_info* out);
QCG_API qcg_status qcg_output_info(const qcg_program* program, int32_t index, qcg_tensor_info* out);

/* The shape output `index` will have for these inputs; only their dtypes and shapes are looked at. `*ndim` is the room
 * in `shape` before the call and the rank after it. */
QCG_API qcg_status qcg_output_shape(const qcg_program* program, const qcg_dltensor* inputs, int32_t n_inputs,
                                    int32_t index, int64_t* shape, int32_t* ndim);

/* The bytes of memory that hold a run's temporaries with these inputs; only their dtypes and shapes are looked at. */
QCG_API qcg_status qcg_arena_bytes(const qcg_program* program, const qcg_dltensor* inputs, int32_t n_inputs,
                                   int64_t* bytes);

/* A size that is known when the program runs, from `min` to `max`. Inputs determine it: extent `axis` of input `input`
 * is coefficient * symbol + constant. `name` lives as long as the program. */
typedef struct qcg_symbol {
  const char* name;
  int64_t min, max;
  int32_t input, axis; /* -1: no input determines it; it is then `min` */
  int64_t coefficient, constant;
} qcg_symbol;

QCG_API int32_t qcg_n_symbols(const qcg_program* program); /* 0 for NULL */
QCG_API qcg_status qcg_symbol_info(const qcg_program* program, int32_t index, qcg_symbol* out);

typedef struct qcg_context_options {
  int32_t threads; /* including the caller; 0: the CPUs this process may use; 1: no worker is started;
                      at most 4096 */
  int32_t spin_us; /* how long idle workers spin before they sleep; 0: 80 us; negative: they sleep at once */
  uint64_t reserved[4];
} qcg_context_options;

/* Starts threads - 1 workers, which end with the context: several contexts that run at once want a share of the CPUs
 * each, not the default. */
QCG_API qcg_status qcg_context_create(const qcg_program* program, const qcg_context_options* options,
                                      qcg_context** out);
QCG_API void qcg_context_free(qcg_context* context);

/* Outputs are the caller's memory and must not overlap each other or an input: QCG_ERROR_BAD_INPUT where dense tensors
 * do, unnoticed where others do. Any strides and alignment are accepted; dense rows are fastest. All memory is the
 * host's, for CUDA programs too. Outputs are complete on return. `stream` is for a later version: NULL. */
QCG_API qcg_status qcg_run(qcg_context* context, const qcg_dltensor* inputs, int32_t n_inputs,
                           const qcg_dltensor* outputs, int32_t n_outputs, void* stream);

/* State: the tensors that a program keeps between runs (KV caches, running sums), of one sequence. A context has the
 * threads, a state has the memory, so that one context serves many sequences:
 *
 *   qcg_state* state;
 *   if (qcg_state_create(program, &state) != QCG_OK) return fail(qcg_last_error());
 *   if (qcg_run_state(context, state, inputs, 1, outputs, 1, NULL) != QCG_OK) return fail(qcg_last_error());
 *
 * Any thread may use a state, one run at a time: a call on a state that is running, being reset or (to write) being read is
 * QCG_ERROR_BAD_INPUT. A run that fails before it starts, because a tensor is wrong, leaves the state as it was. One that
 * fails later leaves it undefined: all calls but qcg_state_reset and qcg_state_free are then QCG_ERROR_BAD_INPUT. */
typedef struct qcg_state qcg_state;

QCG_API int32_t qcg_n_states(const qcg_program* program); /* tensors; 0 for NULL and for programs without state */
QCG_API qcg_status qcg_state_info(const qcg_program* program, int32_t index, qcg_tensor_info* out);

/* Holds the initial values. A program without state has an empty one. States stay valid when the program is freed. */
QCG_API qcg_status qcg_state_create(const qcg_program* program, qcg_state** out);
/* The initial values again. */
QCG_API qcg_status qcg_state_reset(qcg_state* state);
/* Another state with the same values: of two sequences with one prefix. Clones may be made side by side. */
QCG_API qcg_status qcg_state_clone(const qcg_state* state, qcg_state** out);
QCG_API void qcg_state_free(qcg_state* state); /* NULL is accepted; not during a run */
/* Fills `*view` with the state's own memory of a tensor, dense, to save it or to write another value into it while no run
 * uses it. `data` and `shape` are the same, and valid, until the state is freed. */
QCG_API qcg_status qcg_state_tensor(qcg_state* state, const char* name, qcg_dltensor* view);

/* As qcg_run, of which a program with state is QCG_ERROR_BAD_INPUT. `state` is of the same program, and is updated in
 * place. Inputs and outputs must not overlap it. */
QCG_API qcg_status qcg_run_state(qcg_context* context, qcg_state* state, const qcg_dltensor* inputs, int32_t n_inputs,
                                 const qcg_dltensor* outputs, int32_t n_outputs, void* stream);

#ifdef __cplusplus
}
#endif
#endif
