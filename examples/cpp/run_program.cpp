// Loads a program that `qcodegen compile` wrote, feeds it a ramp, and prints the first values of every f32 and bf16
// output.
//
//   find_package(qcodegen CONFIG REQUIRED)      target_link_libraries(run_program qcodegen::runtime)
//   ./run_program mlp.qcg 4          symbolic extents (rows, batch) become 4; 1 without the argument
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <qcodegen.hpp>
#include <vector>

namespace {

namespace dtypes = qcodegen::dtypes;

// bf16 is the upper half of an f32.
float read(const qcodegen::Tensor& tensor, int64_t element) {
  if (tensor.dtype() == dtypes::f32) return tensor.data<float>()[element];
  const uint32_t bits = uint32_t{tensor.data<uint16_t>()[element]} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
void write(qcodegen::Tensor& tensor, int64_t element, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (tensor.dtype() == dtypes::f32) tensor.data<float>()[element] = value;
  else tensor.data<uint16_t>()[element] = static_cast<uint16_t>(bits >> 16);
}
int64_t readable_elements(const qcodegen::Tensor& tensor) {
  const bool readable = tensor.dtype() == dtypes::f32 || tensor.dtype() == dtypes::bf16;
  return readable ? static_cast<int64_t>(tensor.bytes()) * 8 / tensor.dtype().bits : 0;
}

// A ramp for f32 and bf16; other inputs stay zero (examples/c/run_program.c fills every dtype).
qcodegen::Tensor make_input(const qcg_tensor_info& info, int64_t symbolic) {
  std::vector<int64_t> shape(info.shape, info.shape + info.ndim);
  std::replace(shape.begin(), shape.end(), int64_t{-1}, symbolic);
  qcodegen::Tensor tensor(info.dtype, shape);
  for (int64_t e = 0; e < readable_elements(tensor); ++e) write(tensor, e, static_cast<float>(e % 17 - 8) / 8);
  return tensor;
}

void print(const char* name, const qcodegen::Tensor& tensor) {
  std::cout << name << " [";
  for (size_t axis = 0; axis < tensor.shape().size(); ++axis) std::cout << (axis ? ", " : "") << tensor.shape()[axis];
  std::cout << "]:";
  for (int64_t e = 0; e < std::min<int64_t>(8, readable_elements(tensor)); ++e) std::cout << ' ' << read(tensor, e);
  std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return std::cerr << "usage: " << argv[0] << " PROGRAM.qcg [SYMBOLIC_EXTENT]\n", 2;
  qcodegen::Program program(argv[1]);
  qcodegen::Context context(program);

  std::vector<qcodegen::Tensor> inputs;
  for (int32_t i = 0; i < program.n_inputs(); ++i)
    inputs.push_back(make_input(program.input(i), argc > 2 ? std::atoll(argv[2]) : 1));
  const std::vector<qcodegen::Tensor> outputs = context.run(inputs);
  for (int32_t i = 0; i < program.n_outputs(); ++i) print(program.output(i).name, outputs[static_cast<size_t>(i)]);
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
