// C++ over qcodegen.h: handles that free themselves, and errors that are exceptions of the caller's own code.
//
// Why here: header-only, so that only the C API is a binary interface. C++17.
//
//   qcodegen::Program program("mlp.qcg");
//   qcodegen::Context context(program, /*threads=*/4);
//   qcodegen::Tensor x(qcodegen::dtype_of<float>(), {2, 256});
//   qcodegen::Tensor y(qcodegen::dtype_of<float>(), program.output_shape({x}, 0));
//   context.run({x}, {y});
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

template <class T>
constexpr qcg_dtype dtype_of() {
  static_assert(std::is_arithmetic_v<T>);
  const uint8_t code = std::is_same_v<T, bool> ? 6 : std::is_floating_point_v<T> ? 2 : std::is_signed_v<T> ? 0 : 1;
  return {code, static_cast<uint8_t>(sizeof(T) * 8), 1};
}

// A dense tensor that owns its memory. Copies share it. Error BAD_INPUT: an extent that no memory has, as the -1 of
// qcg_tensor_info.
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
    handle_ = {handle, qcg_program_free};
  }
  const qcg_program* handle() const { return handle_.get(); }
  int32_t n_inputs() const { return qcg_n_inputs(handle()); }
  int32_t n_outputs() const { return qcg_n_outputs(handle()); }
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
  std::vector<int64_t> output_shape(const std::vector<Tensor>& inputs, int32_t index) const {
    const std::vector<qcg_dltensor> in = views(inputs);
    int32_t ndim = output(index).ndim;
    std::vector<int64_t> shape(static_cast<size_t>(ndim));
    check(qcg_output_shape(handle(), in.data(), static_cast<int32_t>(in.size()), index, shape.data(), &ndim));
    return shape;
  }

 private:
  std::shared_ptr<qcg_program> handle_;
};

// For one thread at a time. Keeps what it needs of the program alive.
class Context {
 public:
  explicit Context(const Program& program, int32_t threads = 0) {
    qcg_context_options options = {};
    options.threads = threads;
    qcg_context* handle = nullptr;
    check(qcg_context_create(program.handle(), &options, &handle));
    handle_ = {handle, qcg_context_free};
  }
  void run(const std::vector<qcg_dltensor>& inputs, const std::vector<qcg_dltensor>& outputs, void* stream = nullptr) {
    check(qcg_run(handle_.get(), inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(),
                  static_cast<int32_t>(outputs.size()), stream));
  }
  void run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    run(views(inputs), views(outputs));
  }

 private:
  std::unique_ptr<qcg_context, void (*)(qcg_context*)> handle_{nullptr, qcg_context_free};
};

}  // namespace qcodegen
