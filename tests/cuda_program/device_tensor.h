// Tensors in the memory of the executor's device, as callers of the C API and the C++ header pass them.
#pragma once

#include "runtime/qcodegen.hpp"
#include "tests/cuda_program/executed_device.h"

namespace qcg::test {

using Values = std::vector<std::byte>;

// Memory of the device that a caller allocates, and a tensor in it.
struct DeviceTensor {
  std::vector<int64_t> shape, strides;
  qcg_dltensor view = {};

  // `bytes` become its memory; the tensor is dense, unless strides are given.
  DeviceTensor(ExecutedDevice& device, qcg_dtype dtype, std::vector<int64_t> of, const Values& bytes,
               std::vector<int64_t> steps = {})
      : shape(std::move(of)), strides(std::move(steps)) {
    const uint64_t address = device.allocate(bytes.size());
    device.copy_in(address, bytes.data(), bytes.size());
    view = {reinterpret_cast<void*>(address),           {2, 0}, static_cast<int32_t>(shape.size()), dtype, shape.data(),
            strides.empty() ? nullptr : strides.data(), 0};
  }
  DeviceTensor(const DeviceTensor&) = delete;
};

inline qcg_dltensor on_host(qcg_dtype dtype, std::vector<int64_t>& shape, Values& bytes) {
  return {bytes.data(), {1, 0}, static_cast<int32_t>(shape.size()), dtype, shape.data(), nullptr, 0};
}

inline Values bytes_at(ExecutedDevice& device, const qcg_dltensor& view, size_t bytes) {
  Values out(bytes);
  REQUIRE(device.copy_out(out.data(), reinterpret_cast<uint64_t>(view.data), bytes) == 0);
  return out;
}

inline Values bytes_of(const Tensor& t) { return {t.bytes().begin(), t.bytes().end()}; }

// What fails, and with what status.
template <class Fn>
std::pair<qcg_status, std::string> failure(Fn fn) {
  try {
    fn();
  } catch (const qcodegen::Error& error) {
    return {error.status(), error.what()};
  }
  return {QCG_OK, ""};
}

// examples/llama_mlp_int8 with inputs and what eager torch gave.
struct Mlp : ExecutedProgram {
  Tensor x, y;

  explicit Mlp(const Toolchain& tool, Isa isa = Isa::sm_80) : ExecutedProgram(tool, kMlp, isa) {
    const auto [inputs, expected] = read_example(kMlp + "/m5");
    x = inputs.tensors.begin()->second, y = expected.tensors.begin()->second;
  }
  void check_output(const Values& bytes) const {
    compare(Tensor::from_bytes(y.dtype, y.shape, bytes), y, bounds_of(y.dtype));
  }
};

// The same with a context, the input on the device and memory for the output there.
struct LoadedMlp : Mlp {
  qcodegen::Program program;
  std::unique_ptr<qcodegen::Context> context;
  qcg_dtype dtype;
  size_t y_bytes;
  DeviceTensor device_x, device_y;

  explicit LoadedMlp(const Toolchain& tool)
      : Mlp(tool),
        program(path),
        context(std::make_unique<qcodegen::Context>(program, 1)),
        dtype(program.input(0).dtype),
        y_bytes(bytes_of(y).size()),
        device_x(device, dtype, x.shape, bytes_of(x)),
        device_y(device, dtype, y.shape, Values(y_bytes)) {}
  void run(void* stream) { context->run({device_x.view}, {device_y.view}, stream); }
  Values output() { return bytes_at(device, device_y.view, y_bytes); }
};

// Inputs of a run and memory for its outputs, all on the device, and what eager torch gave.
struct DeviceExample {
  ExecutedDevice& device;
  const qcodegen::Program& program;
  Example example;
  std::deque<DeviceTensor> tensors;
  std::vector<qcg_dltensor> in, out;

  DeviceExample(ExecutedDevice& where, const qcodegen::Program& of, const std::string& stem)
      : device(where), program(of), example(read_example(stem)) {
    for (int i = 0; i < program.n_inputs(); ++i) {
      const Tensor& t = example.inputs.tensors.at(program.input(i).name);
      in.push_back(tensors.emplace_back(device, program.input(i).dtype, t.shape, bytes_of(t.contiguous())).view);
    }
    for (int i = 0; i < program.n_outputs(); ++i) {
      const Tensor& t = wanted(i);
      out.push_back(tensors.emplace_back(device, program.output(i).dtype, t.shape, Values(t.bytes().size())).view);
    }
  }
  const Tensor& wanted(int output) const { return example.expected.tensors.at(program.output(output).name); }
  void check_outputs() const {
    for (int i = 0; i < program.n_outputs(); ++i) {
      const Tensor& want = wanted(i);
      compare(Tensor::from_bytes(want.dtype, want.shape,
                                 bytes_at(device, out[static_cast<size_t>(i)], want.bytes().size())),
              want, bounds_of(want.dtype));
    }
  }
};

}  // namespace qcg::test
