// Loads a program that `qcodegen compile` wrote, feeds it a ramp, and prints the first values of every f32 output.
//
//   find_package(qcodegen CONFIG REQUIRED)      target_link_libraries(run_program qcodegen::runtime)
//   ./run_program mlp.qcg 4          symbolic extents (rows, batch) become 4; 1 without the argument
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <qcodegen.hpp>
#include <vector>

namespace {

bool is_float(qcg_dtype dtype) { return dtype.code == 2 && dtype.bits == 32; }

// A ramp for f32; other inputs stay zero (examples/c/run_program.c fills every dtype).
qcodegen::Tensor make_input(const qcg_tensor_info& info, int64_t symbolic) {
  std::vector<int64_t> shape(info.shape, info.shape + info.ndim);
  std::replace(shape.begin(), shape.end(), int64_t{-1}, symbolic);
  qcodegen::Tensor tensor(info.dtype, shape);
  if (is_float(info.dtype))
    for (size_t e = 0; e < tensor.bytes() / sizeof(float); ++e)
      tensor.data<float>()[e] = (static_cast<float>(e % 17) - 8) / 8;
  return tensor;
}

void print(const char* name, const qcodegen::Tensor& tensor) {
  std::cout << name << " [";
  for (size_t axis = 0; axis < tensor.shape().size(); ++axis) std::cout << (axis ? ", " : "") << tensor.shape()[axis];
  std::cout << "]:";
  if (is_float(tensor.dtype()))
    for (size_t e = 0; e < std::min<size_t>(8, tensor.bytes() / sizeof(float)); ++e)
      std::cout << ' ' << tensor.data<float>()[e];
  std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return std::cerr << "usage: " << argv[0] << " PROGRAM.qcg [SYMBOLIC_EXTENT]\n", 2;
  qcodegen::Program program(argv[1]);
  qcodegen::Context context(program);

  std::vector<qcodegen::Tensor> inputs, outputs;
  for (int32_t i = 0; i < program.n_inputs(); ++i)
    inputs.push_back(make_input(program.input(i), argc > 2 ? std::atoll(argv[2]) : 1));
  for (int32_t i = 0; i < program.n_outputs(); ++i)
    outputs.emplace_back(program.output(i).dtype, program.output_shape(inputs, i));

  context.run(inputs, outputs);
  for (int32_t i = 0; i < program.n_outputs(); ++i) print(program.output(i).name, outputs[static_cast<size_t>(i)]);
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
