/* The C API: loads a program directory written by `qcodegen compile`, and runs it.
 *
 * Why here: applications ship this header's library, libqcodegen_runtime.so; they need no compiler, graph or cache.
 *
 *   qcg_program* program;
 *   qcg_context* context;
 *   if (qcg_program_load("mlp.qcg", NULL, &program) != QCG_OK) return fail(qcg_last_error());
 *   if (qcg_context_create(program, NULL, &context) != QCG_OK) return fail(qcg_last_error());
 *   if (qcg_run(context, inputs, 1, outputs, 1, NULL) != QCG_OK) return fail(qcg_last_error());
 *
 * A program is immutable, and any number of threads may use it. A context serves one thread at a time and has its own
 * worker threads. Tensors are borrowed for the call. No function throws, aborts, or changes global thread settings.
 * If a thread is cancelled (pthread_cancel) during a call, it ends after the call: the caller must still free what the
 * thread holds. A program directory is code: load only what you would also execute.
 *
 * Functions that return qcg_status return QCG_ERROR_BAD_INPUT for a pointer that is NULL and must not be, and for an
 * index that is out of range. Functions that create a handle set `*out` to NULL if they fail.
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

/* Raised by changes of this header that break existing callers. */
#define QCG_API_VERSION 1

typedef enum qcg_status {
  QCG_OK = 0,
  QCG_ERROR_BAD_INPUT = 1,   /* an argument, a tensor or the program directory is wrong or damaged */
  QCG_ERROR_UNSUPPORTED = 2, /* valid, but not on this machine or with this version of the runtime */
  QCG_ERROR_IO = 3,          /* a file cannot be read, or memory cannot be allocated */
  QCG_ERROR_INTERNAL = 4     /* a bug in qcodegen */
} qcg_status;

/* These structs have the layout of DLPack 1.0: a DLTensor* may be cast to qcg_dltensor*. */
typedef struct qcg_device {
  int32_t device_type; /* 1: CPU, 2: CUDA, 3: pinned host memory of CUDA, 10: ROCm, 11: its pinned host memory */
  int32_t device_id;   /* of memory on a device: 0 */
} qcg_device;

typedef struct qcg_dtype {
  uint8_t code;   /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10/12/14 float8 e4m3fn/e5m2/e8m0fnu */
  uint8_t bits;   /* bits of one element */
  uint16_t lanes; /* always 1 */
} qcg_dtype;

typedef struct qcg_dltensor {
  void* data;
  qcg_device device;
  int32_t ndim;
  qcg_dtype dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL means dense row-major */
  uint64_t byte_offset;
} qcg_dltensor;

typedef struct qcg_program qcg_program;
typedef struct qcg_context qcg_context;

QCG_API uint32_t qcg_abi_version(void); /* QCG_API_VERSION of the library */
QCG_API const char* qcg_version(void);  /* "0.1.0" */
/* The message of this thread's last call that did not return QCG_OK, or "" if there was none. It stays valid until the
 * thread's next such call. */
QCG_API const char* qcg_last_error(void);

/* Zero-initialize all option structs. NULL means all zeros. The library reads them only during the call. */
typedef struct qcg_load_options {
  int32_t huge_pages;     /* 1: copy the weights to huge pages (faster, but takes memory); 0: map the file */
  int32_t verify_weights; /* 1: also verify the checksum of the weights, which takes about 1 s per GB */
  const char* target;     /* of a program for several targets: "cpu:avx2", or "cpu" for the best of that device; NULL:
                             the best that this machine can run, a device before a CPU */
  uint64_t reserved[3];
} qcg_load_options;

QCG_API qcg_status qcg_program_load(const char* path, const qcg_load_options* options, qcg_program** out);
/* Contexts created from the program stay valid. NULL is accepted. */
QCG_API void qcg_program_free(qcg_program* program);
/* The target that was loaded, such as "cpu:avx2". Valid as long as the program; NULL for NULL. */
QCG_API const char* qcg_program_target(const qcg_program* program);

/* All pointers in this struct are valid as long as the program. */
typedef struct qcg_tensor_info {
  const char* name;
  qcg_dtype dtype;
  int32_t ndim;
  const int64_t* shape; /* ndim extents; -1 for an extent that depends on the inputs */
} qcg_tensor_info;

QCG_API int32_t qcg_n_inputs(const qcg_program* program); /* 0 for NULL */
QCG_API int32_t qcg_n_outputs(const qcg_program* program);
QCG_API qcg_status qcg_input_info(const qcg_program* program, int32_t index, qcg_tensor_info* out);
QCG_API qcg_status qcg_output_info(const qcg_program* program, int32_t index, qcg_tensor_info* out);

/* Computes the shape of output `index` for these inputs. The function reads their dtypes and shapes, and the
 * data of inputs that are values of symbols (qcg_symbol). Before the call, `*ndim` is the capacity of `shape` in
 * elements; after it, the rank of the output. If the capacity is too small, the function sets `*ndim` and returns
 * QCG_ERROR_BAD_INPUT. */
QCG_API qcg_status qcg_output_shape(const qcg_program* program, const qcg_dltensor* inputs, int32_t n_inputs,
                                    int32_t index, int64_t* shape, int32_t* ndim);

/* Computes how many bytes of memory a run needs for temporaries with these inputs. The function reads what
 * qcg_output_shape reads. */
QCG_API qcg_status qcg_arena_bytes(const qcg_program* program, const qcg_dltensor* inputs, int32_t n_inputs,
                                   int64_t* bytes);

/* A symbol is a size that is known only when the program runs; it has a value from `min` to `max`. An input determines
 * it: extent `axis` of input `input` is coefficient * symbol + constant, and terms of other symbols if it has any.
 * Where `axis` is -1, the only element of that input is the value. `name` is valid as long as the program. */
typedef struct qcg_symbol {
  const char* name;
  int64_t min, max;
  int32_t input, axis; /* input -1: no input determines the symbol; its value is `min` if that is `max`, else a run
                          computes it */
  int64_t coefficient, constant;
} qcg_symbol;

QCG_API int32_t qcg_n_symbols(const qcg_program* program); /* 0 for NULL */
QCG_API qcg_status qcg_symbol_info(const qcg_program* program, int32_t index, qcg_symbol* out);

typedef struct qcg_context_options {
  int32_t threads; /* including the caller, at most 4096; 0: as many as the CPUs that this process may use;
                      1: no workers */
  int32_t spin_us; /* microseconds that idle workers spin before they sleep; 0: 80; negative: they sleep at once */
  int32_t profile; /* 1: time every step of every run, see qcg_profiled_step; it costs about 0.1 us per step */
  int32_t reserved_word;
  uint64_t reserved[3];
} qcg_context_options;

/* Starts threads - 1 workers, which end with the context. If several contexts run at the same time, give each of them a
 * share of the CPUs instead of the default. */
QCG_API qcg_status qcg_context_create(const qcg_program* program, const qcg_context_options* options,
                                      qcg_context** out);
QCG_API void qcg_context_free(qcg_context* context);

/* Runs the program. The caller allocates the outputs. Outputs must not overlap each other or an input: for dense
 * tensors an overlap is QCG_ERROR_BAD_INPUT, for strided tensors it is not detected. Any strides and alignment are
 * accepted; tensors with dense rows are fastest. Outputs are complete on return.
 *
 * Each tensor of a CUDA (HIP) program is in host memory, or in the memory of device 0: device {2, 0} ({10, 0}), with a
 * device address in `data`. What is on the device is used in place, and the host does not see it; the rest is copied.
 * A tensor on the device must be aligned to its element. It must be dense; a matrix that only linears and row
 * quantization use may have a row stride. Otherwise the run is QCG_ERROR_UNSUPPORTED, as it is for memory of another
 * device, and for any device memory given to a CPU program. An input whose value is a symbol's (qcg_symbol) must be in
 * host memory, else the run is QCG_ERROR_BAD_INPUT.
 *
 * A value that the program looks up with, such as a token id, and that is out of range is QCG_ERROR_BAD_INPUT: the
 * message names the tensor, the value and the range, no other memory is accessed, and the outputs are undefined. So is
 * a size that the run computes and that is out of range.
 *
 * `stream` is NULL, or a CUstream (cudaStream_t, hipStream_t) of device 0 for a CUDA (HIP) program. NULL: outputs are
 * complete on return. A stream: the run starts after all work that is on the stream. If all outputs are on the device
 * and the context does not profile, the run is queued: it returns at once, and outputs are complete when the stream has
 * done its work. Page-locked inputs in host memory must not change before that. If an output is in host memory, the run
 * waits, as does one that computes sizes. Queued runs of a context or of a state are executed one after the other, on
 * whatever streams. qcg_wait reports what fails in a queued run; the stream may have been destroyed by then. A stream
 * that is being captured is not supported. */
QCG_API qcg_status qcg_run(qcg_context* context, const qcg_dltensor* inputs, int32_t n_inputs,
                           const qcg_dltensor* outputs, int32_t n_outputs, void* stream);

/* Waits for the runs that the context has queued on streams. An error of one of them, such as a token id out of range,
 * is returned here, or by the context's next run that is not queued, which then does not start. The message names the
 * step but not the run. The outputs of all runs queued since the last wait are undefined then, and so are their states until
 * qcg_state_reset. Returns at once if nothing is queued. qcg_context_free waits, too. */
QCG_API qcg_status qcg_wait(qcg_context* context);

/* A state holds the tensors that a program keeps between the runs of one sequence (KV caches, running sums). A context
 * has threads and a state has memory, so one context can serve many sequences:
 *
 *   qcg_state* state;
 *   if (qcg_state_create(program, &state) != QCG_OK) return fail(qcg_last_error());
 *   if (qcg_run_state(context, state, inputs, 1, outputs, 1, NULL) != QCG_OK) return fail(qcg_last_error());
 *
 * Any thread may use a state, but only one run at a time. A call on a state that is being run or reset returns
 * QCG_ERROR_BAD_INPUT, and so does a run or a reset of a state that is being read. A run that fails before its first
 * step, for example because of a wrong tensor, does not change the state. A run that fails later leaves the state
 * undefined: then all calls except qcg_state_reset and qcg_state_free return QCG_ERROR_BAD_INPUT. Calls on a state wait
 * for the queued runs that use it, except qcg_state_tensor. */
typedef struct qcg_state qcg_state;

QCG_API int32_t qcg_n_states(const qcg_program* program); /* number of state tensors; 0 for NULL */
QCG_API qcg_status qcg_state_info(const qcg_program* program, int32_t index, qcg_tensor_info* out);

/* Creates a state with the initial values. A program without state has an empty state. The state stays valid after the
 * program is freed. */
QCG_API qcg_status qcg_state_create(const qcg_program* program, qcg_state** out);
/* Sets all tensors to their initial values. */
QCG_API qcg_status qcg_state_reset(qcg_state* state);
/* Creates another state with the same values, for example for two sequences with the same prefix. Several threads may
 * clone one state at the same time. */
QCG_API qcg_status qcg_state_clone(const qcg_state* state, qcg_state** out);
QCG_API void qcg_state_free(qcg_state* state); /* NULL is accepted. Must not be called during a run */
/* Fills `*view` with a dense view of the state's own memory of the tensor `name`. The caller may read or write that
 * memory while no run uses the state. `data` and `shape` do not change until the state is freed. The state of a CUDA
 * program is on its device: then `device` is {2, 0}, and `data` is a device address. */
QCG_API qcg_status qcg_state_tensor(qcg_state* state, const char* name, qcg_dltensor* view);
/* Copies the tensor `name` to or from host memory: dense, row-major and of `bytes` bytes, which is QCG_ERROR_BAD_INPUT
 * if the tensor has another number of them. */
QCG_API qcg_status qcg_state_read(const qcg_state* state, const char* name, void* to, int64_t bytes);
QCG_API qcg_status qcg_state_write(qcg_state* state, const char* name, const void* from, int64_t bytes);

/* Runs the program like qcg_run, and updates `state` in place. `state` must be of the context's program. Inputs and
 * outputs must not overlap it. A program with state needs this function: qcg_run returns QCG_ERROR_BAD_INPUT for it. */
QCG_API qcg_status qcg_run_state(qcg_context* context, qcg_state* state, const qcg_dltensor* inputs, int32_t n_inputs,
                                 const qcg_dltensor* outputs, int32_t n_outputs, void* stream);

/* A program may have several methods, such as encode and decode. They share weights and states. Each method is a
 * program of its own for all functions that take a const qcg_program*, such as qcg_input_info and qcg_output_shape; the
 * program itself is its first method. `*out` belongs to the program, and must not be freed. */
QCG_API int32_t qcg_n_methods(const qcg_program* program); /* 1 for a program without named methods; 0 for NULL */
/* NULL: `index` is out of range, or the program has no named methods. Valid as long as the program. */
QCG_API const char* qcg_method_name(const qcg_program* program, int32_t index);
QCG_API qcg_status qcg_method(const qcg_program* program, const char* name, const qcg_program** out);

/* Runs a method of the context's program, on the context's threads, like qcg_run_state. `state` may be a state of any
 * method. It may be NULL if the program has no state. */
QCG_API qcg_status qcg_run_method(qcg_context* context, const qcg_program* method, qcg_state* state,
                                  const qcg_dltensor* inputs, int32_t n_inputs, const qcg_dltensor* outputs,
                                  int32_t n_outputs, void* stream);

/* What one step of a run took, in microseconds. The pointers are valid until the context runs again or is freed. */
typedef struct qcg_step_profile {
  const char* name;        /* of the step, as `qcodegen inspect` lists it */
  const char* kernel;      /* the file in the program directory that ran: "kernels/....so" */
  double begin_us;         /* from the begin of the first step */
  double us;               /* with what it takes to start threads and to wait for them */
  double bytes;            /* read and written once; 0: unknown. bytes / us / 1000 is the rate in GB/s */
  int32_t n_threads;       /* elements of thread_us: the threads of the context */
  const double* thread_us; /* what each thread spent in the kernel; all 0 on a device */
} qcg_step_profile;

/* The steps of the context's last run, of whatever method. 0: the context does not profile, no run has finished since
 * it was created, or the last one failed. */
QCG_API int32_t qcg_n_profiled_steps(const qcg_context* context);
QCG_API qcg_status qcg_profiled_step(const qcg_context* context, int32_t index, qcg_step_profile* out);

#ifdef __cplusplus
}
#endif
#endif
