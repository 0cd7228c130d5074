#include <pthread.h>

#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/program.h"
#include "runtime/qcodegen.h"
#include "runtime/state.h"

using namespace qcg;

// The handles. They store shapes, because qcg_tensor_info points to them.
struct qcg_program {
  std::shared_ptr<const Program> program;
  std::vector<std::vector<int64_t>> input_shapes, output_shapes;
  std::vector<std::unique_ptr<qcg_program>> others;  // methods; the program is the first one
};

struct qcg_context {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Context> context;
  std::map<const Program*, std::unique_ptr<Context>> others;  // of other methods, on the same threads
  std::vector<TensorView> inputs, outputs;                    // kept between runs to avoid an allocation per call
  const Context* profiled = nullptr;                          // of the last run, if it was profiled and succeeded
  const Program* profiled_program = nullptr;
  std::vector<double> thread_us;  // of that run: by step, then by thread
};

struct qcg_state {
  std::shared_ptr<const Program> program;
  std::unique_ptr<State> state;
};

namespace {

// A plain array, because recording an error must not fail.
thread_local char last_error[2048] = "";

qcg_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::BadInput:
    case ErrorCode::CacheCorrupt:
    case ErrorCode::Usage: return QCG_ERROR_BAD_INPUT;
    case ErrorCode::Unsupported:
    case ErrorCode::Toolchain: return QCG_ERROR_UNSUPPORTED;
    case ErrorCode::Io: return QCG_ERROR_IO;
    case ErrorCode::Interrupted:
    case ErrorCode::Internal: break;
  }
  return QCG_ERROR_INTERNAL;
}

// Runs a function that returns Status, and turns exceptions into error codes.
template <class Fn>
qcg_status to_status(Fn& fn) noexcept {
  try {
    const Status status = fn();
    if (status.ok()) return QCG_OK;
    std::snprintf(last_error, sizeof last_error, "%s", status.error().to_string().c_str());
    return status_of(status.error().code);
  } catch (const std::bad_alloc&) {
    std::snprintf(last_error, sizeof last_error, "error[Io]: out of memory");
    return QCG_ERROR_IO;
  } catch (...) {
    std::snprintf(last_error, sizeof last_error, "error[Internal]: unexpected exception");
    return QCG_ERROR_INTERNAL;
  }
}

// Runs `fn` with cancellation of the calling thread disabled. A cancellation unwinds the stack like an exception that
// must not be caught, and would leave the pool's locks taken. A pending cancellation takes effect after the call. With
// asynchronous cancellation this is the last line, so this function must have nothing to destroy and must not be
// noexcept.
template <class Fn>
auto without_cancellation(Fn fn) {
  int before = PTHREAD_CANCEL_ENABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  const auto result = fn();
  pthread_setcancelstate(before, nullptr);
  return result;
}

template <class Fn>
qcg_status guard(Fn fn) {
  return without_cancellation([&] { return to_status(fn); });
}

// Also without cancellation, because destructors join threads and unload libraries.
template <class T>
void free_handle(T* handle) {
  without_cancellation([&] { return delete handle, 0; });
}

Error bad_argument(const char* name, const char* message) { return Error::bad_input(name, message, "see qcodegen.h"); }

qcg_dtype to_c(DType dtype) {
  const DTypeInfo& info = dtype_info(dtype);
  return {info.dlpack_code, static_cast<uint8_t>(info.bytes * 8), 1};
}

Result<DType> from_c(qcg_dtype dtype, const std::string& where) {
  for (const DTypeInfo& row : kDTypes)
    if (row.dlpack_code == dtype.code && row.bytes * 8 == dtype.bits && dtype.lanes == 1) return row.dtype;
  return Error::unsupported(where,
                            "has DLPack dtype code " + std::to_string(dtype.code) + " with " +
                                std::to_string(dtype.bits) + " bits × " + std::to_string(dtype.lanes) + " lanes",
                            "see qcg_input_info for the dtypes of this program");
}

// Converts tensors to views. It reads no tensor if their number is wrong, because the array may then be shorter.
Status to_views(const qcg_dltensor* tensors, int32_t count, size_t wanted, const char* what, const Program& program,
                std::vector<TensorView>& views) {
  if (count < 0 || (count > 0 && tensors == nullptr)) return bad_argument(what, "is NULL or has a negative count");
  QCG_CHECK(check_count(what, count, wanted));
  views.clear();
  for (int32_t i = 0; i < count; ++i) {
    const qcg_dltensor& t = tensors[i];
    const std::string where = std::string(what) + "[" + std::to_string(i) + "]";
    QCG_TRY(on_device, is_on_device(where, t.device.device_type, t.device.device_id, program.device_type()));
    if (t.ndim < 0 || (t.ndim > 0 && t.shape == nullptr)) return bad_argument(where.c_str(), "has no shape");
    QCG_TRY(dtype, from_c(t.dtype, where));
    const size_t rank = static_cast<size_t>(t.ndim);
    TensorView view{nullptr, dtype, {t.shape, rank}, {}, on_device};
    if (t.data != nullptr) view.data = static_cast<std::byte*>(t.data) + t.byte_offset;
    if (t.strides != nullptr) view.strides = {t.strides, rank};
    views.push_back(view);
  }
  return {};
}

Status inputs_to_views(const qcg_program* program, const qcg_dltensor* inputs, int32_t count,
                       std::vector<TensorView>& views) {
  return to_views(inputs, count, program->input_shapes.size(), "inputs", *program->program, views);
}

Status fill_info(const std::vector<ProgramManifest::Tensor>& tensors, const std::vector<std::vector<int64_t>>& shapes,
                 int32_t index, qcg_tensor_info* out) {
  if (out == nullptr) return bad_argument("out", "is NULL");
  if (index < 0 || static_cast<size_t>(index) >= tensors.size()) return bad_argument("index", "is out of range");
  const size_t i = static_cast<size_t>(index);
  *out = {tensors[i].name.c_str(), to_c(tensors[i].dtype), static_cast<int32_t>(shapes[i].size()), shapes[i].data()};
  return {};
}

std::unique_ptr<qcg_program> make_handle(std::shared_ptr<const Program> program) {
  auto handle = std::make_unique<qcg_program>();
  for (const auto& input : program->manifest().inputs) handle->input_shapes.push_back(Program::static_shape(input));
  for (const auto& output : program->manifest().outputs) handle->output_shapes.push_back(Program::static_shape(output));
  handle->program = std::move(program);
  return handle;
}

// The context for this method, on the threads of the one that the caller made.
Result<Context*> context_of(qcg_context& context, const std::shared_ptr<const Program>& method) {
  if (method == context.program) return context.context.get();
  if (!method->shares_state_with(*context.program)) return bad_argument("method", "is of another program");
  if (const auto found = context.others.find(method.get()); found != context.others.end()) return found->second.get();
  QCG_TRY(made, Context::create(method, {.pool = context.context->pool(), .profile = context.context->profiles()}));
  return context.others.emplace(method.get(), std::move(made)).first->second.get();
}

void keep_profile(qcg_context& context, const Context& runner, const Program& program) {
  context.thread_us.clear();
  for (const StepProfile& step : runner.last_profile().steps)
    for (int thread = 0; thread < runner.threads(); ++thread) context.thread_us.push_back(step.busy_us(thread));
  context.profiled = &runner;
  context.profiled_program = &program;
}

// Runs with `state`, or without a state if it is null; Context::run checks whether the program needs one. `method`
// null: that of the context.
Status run(qcg_context* context, const qcg_program* method, qcg_state* state, const qcg_dltensor* inputs,
           int32_t n_inputs, const qcg_dltensor* outputs, int32_t n_outputs, void* stream) {
  if (context == nullptr) return bad_argument("context", "is NULL");
  context->profiled = nullptr;
  const std::shared_ptr<const Program>& program = method != nullptr ? method->program : context->program;
  QCG_TRY(runner, context_of(*context, program));
  const ProgramManifest& manifest = program->manifest();
  QCG_CHECK(to_views(inputs, n_inputs, manifest.inputs.size(), "inputs", *program, context->inputs));
  QCG_CHECK(to_views(outputs, n_outputs, manifest.outputs.size(), "outputs", *program, context->outputs));
  QCG_CHECK(state != nullptr ? runner->run(*state->state, context->inputs, context->outputs, stream)
                             : runner->run(context->inputs, context->outputs, stream));
  if (runner->profiles()) keep_profile(*context, *runner, *program);
  return {};
}

// Waits for the runs of all methods, also if those of one have failed: the first error.
Status wait_for_all(qcg_context& context) {
  Status status = context.context->wait();
  for (const auto& [method, other] : context.others)
    if (const Status waited = other->wait(); status.ok()) status = waited;
  return status;
}

Status check_state_copy(const qcg_state* state, const char* name, const void* host, int64_t bytes) {
  if (state == nullptr || name == nullptr) return bad_argument(state == nullptr ? "state" : "name", "is NULL");
  return host == nullptr && bytes > 0 ? Status(bad_argument("host memory", "is NULL")) : Status();
}

}  // namespace

extern "C" {

uint32_t qcg_abi_version(void) { return QCG_API_VERSION; }
const char* qcg_version(void) { return QCG_VERSION_STRING; }
const char* qcg_last_error(void) { return last_error; }

qcg_status qcg_program_load(const char* path, const qcg_load_options* options, qcg_program** out) {
  return guard([&]() -> Status {
    if (out != nullptr) *out = nullptr;
    if (path == nullptr || out == nullptr) return bad_argument(path == nullptr ? "path" : "out", "is NULL");
    LoadOptions load;
    if (options != nullptr) {
      load.weights = options->huge_pages != 0 ? WeightsMode::huge_pages : WeightsMode::map;
      load.verify_weights = options->verify_weights != 0;
      if (options->target != nullptr) load.target = options->target;
    }
    QCG_TRY(program, Program::load(path, load));
    auto handle = make_handle(program);
    for (const auto& method : Program::methods(program))
      if (method != program) handle->others.push_back(make_handle(method));
    *out = handle.release();
    return {};
  });
}

void qcg_program_free(qcg_program* program) { free_handle(program); }

const char* qcg_program_target(const qcg_program* program) {
  return program == nullptr ? nullptr : program->program->manifest().target.c_str();
}

int32_t qcg_n_inputs(const qcg_program* program) {
  return program == nullptr ? 0 : static_cast<int32_t>(program->input_shapes.size());
}
int32_t qcg_n_outputs(const qcg_program* program) {
  return program == nullptr ? 0 : static_cast<int32_t>(program->output_shapes.size());
}

qcg_status qcg_input_info(const qcg_program* program, int32_t index, qcg_tensor_info* out) {
  return guard([&]() -> Status {
    if (program == nullptr) return bad_argument("program", "is NULL");
    return fill_info(program->program->manifest().inputs, program->input_shapes, index, out);
  });
}

qcg_status qcg_output_info(const qcg_program* program, int32_t index, qcg_tensor_info* out) {
  return guard([&]() -> Status {
    if (program == nullptr) return bad_argument("program", "is NULL");
    return fill_info(program->program->manifest().outputs, program->output_shapes, index, out);
  });
}

qcg_status qcg_output_shape(const qcg_program* program, const qcg_dltensor* inputs, int32_t n_inputs, int32_t index,
                            int64_t* shape, int32_t* ndim) {
  return guard([&]() -> Status {
    if (program == nullptr || ndim == nullptr) return bad_argument(program == nullptr ? "program" : "ndim", "is NULL");
    if (index < 0 || index >= qcg_n_outputs(program)) return bad_argument("index", "is out of range");
    std::vector<TensorView> views;
    QCG_CHECK(inputs_to_views(program, inputs, n_inputs, views));
    QCG_TRY(shapes, program->program->output_shapes(views));
    const auto& found = shapes[static_cast<size_t>(index)];
    const int32_t room = *ndim;
    *ndim = static_cast<int32_t>(found.size());
    if (room < *ndim || (shape == nullptr && *ndim > 0))
      return bad_argument("shape", "has too little room: *ndim is what it needs");
    std::copy(found.begin(), found.end(), shape);
    return {};
  });
}

int32_t qcg_n_symbols(const qcg_program* program) {
  return program == nullptr ? 0 : static_cast<int32_t>(program->program->manifest().symbols.size());
}

qcg_status qcg_symbol_info(const qcg_program* program, int32_t index, qcg_symbol* out) {
  return guard([&]() -> Status {
    if (program == nullptr || out == nullptr) return bad_argument(program == nullptr ? "program" : "out", "is NULL");
    if (index < 0 || index >= qcg_n_symbols(program)) return bad_argument("index", "is out of range");
    const ProgramManifest& manifest = program->program->manifest();
    const ProgramManifest::Symbol& symbol = manifest.symbols[static_cast<size_t>(index)];
    *out = {symbol.name.c_str(), symbol.min, symbol.max, -1, -1, 0, 0};
    for (const ProgramManifest::Binding& b : manifest.bindings)
      if (b.symbol == index)
        *out = {symbol.name.c_str(), symbol.min, symbol.max, b.input, b.axis, b.coefficient, b.constant};
    return {};
  });
}

qcg_status qcg_arena_bytes(const qcg_program* program, const qcg_dltensor* inputs, int32_t n_inputs, int64_t* bytes) {
  return guard([&]() -> Status {
    if (program == nullptr || bytes == nullptr)
      return bad_argument(program == nullptr ? "program" : "bytes", "is NULL");
    std::vector<TensorView> views;
    QCG_CHECK(inputs_to_views(program, inputs, n_inputs, views));
    QCG_TRY(values, program->program->bind_symbols(views));
    QCG_TRY(found, arena_bytes(program->program->manifest(), values));
    *bytes = found;
    return {};
  });
}

qcg_status qcg_context_create(const qcg_program* program, const qcg_context_options* options, qcg_context** out) {
  return guard([&]() -> Status {
    if (out != nullptr) *out = nullptr;
    if (program == nullptr || out == nullptr) return bad_argument(program == nullptr ? "program" : "out", "is NULL");
    ContextOptions create;
    if (options != nullptr) {
      if (options->threads < 0) return bad_argument("options->threads", "is negative");
      create.threads = options->threads;
      if (options->spin_us != 0) create.spin_us = options->spin_us < 0 ? 0 : options->spin_us;
      create.profile = options->profile != 0;
    }
    QCG_TRY(context, Context::create(program->program, create));
    *out = new qcg_context{.program = program->program, .context = std::move(context)};
    return {};
  });
}

void qcg_context_free(qcg_context* context) { free_handle(context); }

qcg_status qcg_run(qcg_context* context, const qcg_dltensor* inputs, int32_t n_inputs, const qcg_dltensor* outputs,
                   int32_t n_outputs, void* stream) {
  return guard(
      [&]() -> Status { return run(context, nullptr, nullptr, inputs, n_inputs, outputs, n_outputs, stream); });
}

qcg_status qcg_wait(qcg_context* context) {
  return guard([&]() -> Status {
    if (context == nullptr) return bad_argument("context", "is NULL");
    return wait_for_all(*context);
  });
}

int32_t qcg_n_states(const qcg_program* program) {
  return program == nullptr ? 0 : static_cast<int32_t>(program->program->manifest().states.size());
}

qcg_status qcg_state_info(const qcg_program* program, int32_t index, qcg_tensor_info* out) {
  return guard([&]() -> Status {
    if (program == nullptr || out == nullptr) return bad_argument(program == nullptr ? "program" : "out", "is NULL");
    if (index < 0 || index >= qcg_n_states(program)) return bad_argument("index", "is out of range");
    const auto& state = program->program->manifest().states[static_cast<size_t>(index)];
    *out = {state.name.c_str(), to_c(state.dtype), static_cast<int32_t>(state.shape.size()), state.shape.data()};
    return {};
  });
}

qcg_status qcg_state_create(const qcg_program* program, qcg_state** out) {
  return guard([&]() -> Status {
    if (out != nullptr) *out = nullptr;
    if (program == nullptr || out == nullptr) return bad_argument(program == nullptr ? "program" : "out", "is NULL");
    QCG_TRY(state, State::create(program->program));
    *out = new qcg_state{program->program, std::move(state)};
    return {};
  });
}

qcg_status qcg_state_reset(qcg_state* state) {
  return guard([&]() -> Status {
    if (state == nullptr) return bad_argument("state", "is NULL");
    return state->state->reset();
  });
}

qcg_status qcg_state_clone(const qcg_state* state, qcg_state** out) {
  return guard([&]() -> Status {
    if (out != nullptr) *out = nullptr;
    if (state == nullptr || out == nullptr) return bad_argument(state == nullptr ? "state" : "out", "is NULL");
    QCG_TRY(copy, state->state->clone());
    *out = new qcg_state{state->program, std::move(copy)};
    return {};
  });
}

void qcg_state_free(qcg_state* state) { free_handle(state); }

qcg_status qcg_state_tensor(qcg_state* state, const char* name, qcg_dltensor* view) {
  return guard([&]() -> Status {
    if (state == nullptr || name == nullptr || view == nullptr)
      return bad_argument(state == nullptr ? "state" : name == nullptr ? "name" : "view", "is NULL");
    QCG_TRY(found, state->state->tensor(name));
    // The shape of a DLTensor is not const, but callers do not write to it.
    *view = {found.data,
             {state->state->program().device_type(), 0},
             static_cast<int32_t>(found.shape.size()),
             to_c(found.dtype),
             const_cast<int64_t*>(found.shape.data()),
             nullptr,
             0};
    return {};
  });
}

qcg_status qcg_state_read(const qcg_state* state, const char* name, void* to, int64_t bytes) {
  return guard([&]() -> Status {
    QCG_CHECK(check_state_copy(state, name, to, bytes));
    return state->state->read(name, to, bytes);
  });
}

qcg_status qcg_state_write(qcg_state* state, const char* name, const void* from, int64_t bytes) {
  return guard([&]() -> Status {
    QCG_CHECK(check_state_copy(state, name, from, bytes));
    return state->state->write(name, from, bytes);
  });
}

qcg_status qcg_run_state(qcg_context* context, qcg_state* state, const qcg_dltensor* inputs, int32_t n_inputs,
                         const qcg_dltensor* outputs, int32_t n_outputs, void* stream) {
  return guard([&]() -> Status {
    if (state == nullptr) return bad_argument("state", "is NULL");
    return run(context, nullptr, state, inputs, n_inputs, outputs, n_outputs, stream);
  });
}

int32_t qcg_n_methods(const qcg_program* program) {
  return program == nullptr ? 0 : 1 + static_cast<int32_t>(program->others.size());
}

const char* qcg_method_name(const qcg_program* program, int32_t index) {
  if (index < 0 || index >= qcg_n_methods(program)) return nullptr;
  const qcg_program& method = index == 0 ? *program : *program->others[static_cast<size_t>(index) - 1];
  const std::string& name = method.program->manifest().method;
  return name.empty() ? nullptr : name.c_str();
}

qcg_status qcg_method(const qcg_program* program, const char* name, const qcg_program** out) {
  return guard([&]() -> Status {
    if (out != nullptr) *out = nullptr;
    if (program == nullptr || name == nullptr || out == nullptr)
      return bad_argument(program == nullptr ? "program" : name == nullptr ? "name" : "out", "is NULL");
    QCG_TRY(method, Program::method(program->program, name));
    *out = program;
    for (const auto& other : program->others)
      if (other->program == method) *out = other.get();
    return {};
  });
}

qcg_status qcg_run_method(qcg_context* context, const qcg_program* method, qcg_state* state, const qcg_dltensor* inputs,
                          int32_t n_inputs, const qcg_dltensor* outputs, int32_t n_outputs, void* stream) {
  return guard([&]() -> Status {
    if (method == nullptr) return bad_argument("method", "is NULL");
    return run(context, method, state, inputs, n_inputs, outputs, n_outputs, stream);
  });
}

int32_t qcg_n_profiled_steps(const qcg_context* context) {
  if (context == nullptr || context->profiled == nullptr) return 0;
  return static_cast<int32_t>(context->profiled->last_profile().steps.size());
}

qcg_status qcg_profiled_step(const qcg_context* context, int32_t index, qcg_step_profile* out) {
  return guard([&]() -> Status {
    if (context == nullptr || out == nullptr) return bad_argument(context == nullptr ? "context" : "out", "is NULL");
    if (index < 0 || index >= qcg_n_profiled_steps(context)) return bad_argument("index", "is out of range");
    const size_t i = static_cast<size_t>(index), threads = static_cast<size_t>(context->profiled->threads());
    const StepProfile& profile = context->profiled->last_profile().steps[i];
    const ProgramManifest::Step& step = context->profiled_program->manifest().steps[i];
    *out = {step.name.c_str(),
            step.kernels[profile.kernel].module.c_str(),
            profile.begin_us,
            profile.us,
            profile.bytes,
            context->profiled->threads(),
            context->thread_us.data() + i * threads};
    return {};
  });
}

}  // extern "C"
