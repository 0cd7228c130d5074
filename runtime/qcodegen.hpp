// The C++17 API over qcodegen.h: owning handles, and exceptions instead of status codes.
//
// Why here: it is header-only, so exceptions and standard containers never cross the boundary of the library.
//
//   qcodegen::Program program("mlp.qcg");
//   qcodegen::Context context(program, /*threads=*/4);
//   qcodegen::Tensor x(qcodegen::dtypes::bf16, {2, 256});
//   qcodegen::Tensor y = context.run({x})[program.output_index("y")];
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "qcodegen.h"

// In the global namespace, where argument-dependent lookup for qcg_dtype finds them.
inline bool operator==(const qcg_dtype& a, const qcg_dtype& b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
inline bool operator!=(const qcg_dtype& a, const qcg_dtype& b) { return !(a == b); }

namespace qcodegen {

class Error : public std::runtime_error {
 public:
  explicit Error(qcg_status status) : Error(status, qcg_last_error()) {}
  Error(qcg_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  qcg_status status() const { return status_; }

 private:
  qcg_status status_;
};

inline void check(qcg_status status) {
  if (status != QCG_OK) throw Error(status);
}

// All dtypes of programs.
namespace dtypes {
inline constexpr qcg_dtype f32{2, 32, 1}, f16{2, 16, 1}, bf16{4, 16, 1}, f64{2, 64, 1};
inline constexpr qcg_dtype i8{0, 8, 1}, i16{0, 16, 1}, i32{0, 32, 1}, i64{0, 64, 1};
inline constexpr qcg_dtype u8{1, 8, 1}, u16{1, 16, 1}, u32{1, 32, 1}, u64{1, 64, 1}, boolean{6, 8, 1};
inline constexpr qcg_dtype f8e4m3{10, 8, 1}, f8e5m2{12, 8, 1}, f8e8m0{14, 8, 1};
}  // namespace dtypes

template <class T>
constexpr qcg_dtype dtype_of() {
  static_assert(std::is_arithmetic_v<T>);
  const uint8_t code = std::is_same_v<T, bool> ? 6 : std::is_floating_point_v<T> ? 2 : std::is_signed_v<T> ? 0 : 1;
  return {code, static_cast<uint8_t>(sizeof(T) * 8), 1};
}

// A dense tensor with its own memory, which is zero at first. Copies share the memory. Error BAD_INPUT: an extent is
// negative (such as the -1 in qcg_tensor_info) or too large.
class Tensor {
 public:
  Tensor(qcg_dtype dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
    bytes_ = dtype.bits / 8;
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      const int64_t extent = shape_[axis];
      if (extent < 0 || (extent > 0 && bytes_ > PTRDIFF_MAX / static_cast<size_t>(extent)))
        throw Error(QCG_ERROR_BAD_INPUT,
                    "axis " + std::to_string(axis) + " of a tensor cannot have extent " + std::to_string(extent));
      bytes_ *= static_cast<size_t>(extent);
    }
    data_ = std::shared_ptr<std::byte[]>(new std::byte[bytes_]());
  }
  qcg_dtype dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  size_t bytes() const { return bytes_; }
  template <class T = std::byte>
  T* data() const {
    return reinterpret_cast<T*>(data_.get());
  }
  qcg_dltensor view() const {
    return {data_.get(), {1, 0}, static_cast<int32_t>(shape_.size()), dtype_, const_cast<int64_t*>(shape_.data()),
            nullptr,     0};
  }

 private:
  qcg_dtype dtype_;
  std::vector<int64_t> shape_;
  size_t bytes_ = 0;
  std::shared_ptr<std::byte[]> data_;
};

inline std::vector<qcg_dltensor> views(const std::vector<Tensor>& tensors) {
  std::vector<qcg_dltensor> out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.view());
  return out;
}

class Program {
 public:
  explicit Program(const std::string& path, const qcg_load_options& options = {}) {
    if (qcg_abi_version() != QCG_API_VERSION)
      throw Error(QCG_ERROR_UNSUPPORTED, "the library has API version " + std::to_string(qcg_abi_version()) +
                                             ", this was compiled for " + std::to_string(QCG_API_VERSION));
    qcg_program* handle = nullptr;
    check(qcg_program_load(path.c_str(), &options, &handle));
    handle_ = std::shared_ptr<qcg_program>(handle, qcg_program_free);
  }
  // A method of the program, which shares its weights and states. Error BAD_INPUT lists the names.
  Program method(const std::string& name) const {
    const qcg_program* found = nullptr;
    check(qcg_method(handle(), name.c_str(), &found));
    return Program(std::shared_ptr<const qcg_program>(handle_, found));
  }
  const qcg_program* handle() const { return handle_.get(); }
  std::string target() const { return qcg_program_target(handle()); }  // "cpu:avx2"
  int32_t n_inputs() const { return qcg_n_inputs(handle()); }
  int32_t n_outputs() const { return qcg_n_outputs(handle()); }
  int32_t n_symbols() const { return qcg_n_symbols(handle()); }
  int32_t n_states() const { return qcg_n_states(handle()); }
  qcg_tensor_info input(int32_t index) const {
    qcg_tensor_info info;
    check(qcg_input_info(handle(), index, &info));
    return info;
  }
  qcg_tensor_info output(int32_t index) const {
    qcg_tensor_info info;
    check(qcg_output_info(handle(), index, &info));
    return info;
  }
  qcg_tensor_info state(int32_t index) const {
    qcg_tensor_info info;
    check(qcg_state_info(handle(), index, &info));
    return info;
  }
  qcg_symbol symbol(int32_t index) const {
    qcg_symbol info;
    check(qcg_symbol_info(handle(), index, &info));
    return info;
  }
  // The functions below take names of the graph. Error BAD_INPUT: there is no such name; the message lists all names.
  int32_t input_index(const std::string& name) const {
    return find("input", name, n_inputs(), [&](int32_t i) { return input(i).name; });
  }
  int32_t output_index(const std::string& name) const {
    return find("output", name, n_outputs(), [&](int32_t i) { return output(i).name; });
  }
  qcg_tensor_info input(const std::string& name) const { return input(input_index(name)); }
  qcg_tensor_info output(const std::string& name) const { return output(output_index(name)); }
  qcg_symbol symbol(const std::string& name) const {
    return symbol(find("symbol", name, n_symbols(), [&](int32_t i) { return symbol(i).name; }));
  }
  std::vector<int64_t> output_shape(const std::vector<Tensor>& inputs, int32_t index) const {
    return output_shape(views(inputs), index);
  }
  std::vector<int64_t> output_shape(const std::vector<qcg_dltensor>& in, int32_t index) const {
    int32_t ndim = output(index).ndim;
    std::vector<int64_t> shape(static_cast<size_t>(ndim));
    check(qcg_output_shape(handle(), in.data(), static_cast<int32_t>(in.size()), index, shape.data(), &ndim));
    return shape;
  }
  // Allocates zeroed outputs with the shapes of a run on `inputs`.
  std::vector<Tensor> make_outputs(const std::vector<Tensor>& inputs) const {
    std::vector<Tensor> out;
    for (int32_t i = 0; i < n_outputs(); ++i) out.emplace_back(output(i).dtype, output_shape(inputs, i));
    return out;
  }
  // The bytes of memory that a run on `inputs` needs for temporaries.
  int64_t arena_bytes(const std::vector<Tensor>& inputs) const {
    const std::vector<qcg_dltensor> in = views(inputs);
    int64_t bytes = 0;
    check(qcg_arena_bytes(handle(), in.data(), static_cast<int32_t>(in.size()), &bytes));
    return bytes;
  }

 private:
  explicit Program(std::shared_ptr<const qcg_program> handle) : handle_(std::move(handle)) {}
  template <class NameOf>
  static int32_t find(const char* kind, const std::string& name, int32_t count, NameOf name_of) {
    std::string names;
    for (int32_t i = 0; i < count; ++i) {
      if (name == name_of(i)) return i;
      names += std::string(i == 0 ? "" : ", ") + name_of(i);
    }
    throw Error(QCG_ERROR_BAD_INPUT, std::string("the program has no ") + kind + " '" + name + "', it has " +
                                         (names.empty() ? "none" : names));
  }

  std::shared_ptr<const qcg_program> handle_;
};

// The tensors that a program keeps between the runs of one sequence. A state serves one run at a time. It cannot be
// copied, only cloned.
class State {
 public:
  explicit State(const Program& program) {
    qcg_state* handle = nullptr;
    check(qcg_state_create(program.handle(), &handle));
    handle_.reset(handle);
  }
  void reset() { check(qcg_state_reset(handle())); }
  State clone() const {
    qcg_state* copy = nullptr;
    check(qcg_state_clone(handle(), &copy));
    return State(copy);
  }
  // Copies a tensor to and from dense host memory.
  void read(const std::string& name, void* to, int64_t bytes) const {
    check(qcg_state_read(handle(), name.c_str(), to, bytes));
  }
  void write(const std::string& name, const void* from, int64_t bytes) {
    check(qcg_state_write(handle(), name.c_str(), from, bytes));
  }
  // A view of the state's own memory, valid as long as the state; of a CUDA program on its device. Error BAD_INPUT: a
  // run is using the state, a run has failed on it, or it has no such tensor.
  qcg_dltensor tensor(const std::string& name) const {
    qcg_dltensor view;
    check(qcg_state_tensor(handle(), name.c_str(), &view));
    return view;
  }
  qcg_state* handle() const { return handle_.get(); }

 private:
  explicit State(qcg_state* handle) { handle_.reset(handle); }
  std::unique_ptr<qcg_state, void (*)(qcg_state*)> handle_{nullptr, qcg_state_free};
};

// The threads and memory for runs of a program. A context serves one thread at a time and keeps its program alive.
class Context {
 public:
  explicit Context(const Program& program, int32_t threads = 0) : Context(program, with_threads(threads)) {}
  Context(const Program& program, const qcg_context_options& options) : program_(program) {
    qcg_context* handle = nullptr;
    check(qcg_context_create(program.handle(), &options, &handle));
    handle_ = {handle, qcg_context_free};
  }
  void run(const std::vector<qcg_dltensor>& inputs, const std::vector<qcg_dltensor>& outputs, void* stream = nullptr) {
    check(qcg_run(handle_.get(), inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(),
                  static_cast<int32_t>(outputs.size()), stream));
  }
  void run(State& state, const std::vector<qcg_dltensor>& inputs, const std::vector<qcg_dltensor>& outputs,
           void* stream = nullptr) {
    check(qcg_run_state(handle_.get(), state.handle(), inputs.data(), static_cast<int32_t>(inputs.size()),
                        outputs.data(), static_cast<int32_t>(outputs.size()), stream));
  }
  void run(State& state, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    run(state, views(inputs), views(outputs));
  }
  std::vector<Tensor> run(State& state, const std::vector<Tensor>& inputs) {
    const std::vector<Tensor> outputs = program_.make_outputs(inputs);
    run(state, inputs, outputs);
    return outputs;
  }
  // Waits for runs that were queued on streams (qcg_wait).
  void wait() { check(qcg_wait(handle_.get())); }
  // Runs a method of the program on this context's threads.
  void run(const Program& method, State& state, const std::vector<qcg_dltensor>& inputs,
           const std::vector<qcg_dltensor>& outputs, void* stream = nullptr) {
    check(qcg_run_method(handle_.get(), method.handle(), state.handle(), inputs.data(),
                         static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(outputs.size()),
                         stream));
  }
  std::vector<Tensor> run(const Program& method, State& state, const std::vector<Tensor>& inputs) {
    const std::vector<Tensor> outputs = method.make_outputs(inputs);
    run(method, state, views(inputs), views(outputs));
    return outputs;
  }
  void run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    run(views(inputs), views(outputs));
  }
  // Allocates the outputs. In a loop, pass the outputs of the previous call to the overload above instead.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    const std::vector<Tensor> outputs = program_.make_outputs(inputs);
    run(inputs, outputs);
    return outputs;
  }
  // What each step of the last run took, if the options asked for a profile. Valid until the next run.
  std::vector<qcg_step_profile> profile() const {
    std::vector<qcg_step_profile> out(static_cast<size_t>(qcg_n_profiled_steps(handle_.get())));
    for (size_t i = 0; i < out.size(); ++i) check(qcg_profiled_step(handle_.get(), static_cast<int32_t>(i), &out[i]));
    return out;
  }

 private:
  static qcg_context_options with_threads(int32_t threads) {
    qcg_context_options options = {};
    options.threads = threads;
    return options;
  }

  Program program_;
  std::unique_ptr<qcg_context, void (*)(qcg_context*)> handle_{nullptr, qcg_context_free};
};

}  // namespace qcodegen
