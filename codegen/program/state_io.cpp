#include "codegen/program/state_io.h"

#include <fmt/format.h>

#include <random>

#include "graph/read/safetensors.h"

namespace qcg {

Result<std::vector<Tensor>> state_tensors(const Program& program, const State& state) {
  std::vector<Tensor> out;
  for (const auto& tensor : program.manifest().states) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
    QCG_CHECK(state.read(tensor.name, bytes.data(), tensor.bytes));
    out.push_back(Tensor::from_bytes(tensor.dtype, tensor.shape, std::move(bytes)));
  }
  return out;
}

Status randomize_state(const Program& program, State& state, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  for (const auto& tensor : program.manifest().states) {
    if (!is_floating(tensor.dtype)) continue;
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
    const auto width = static_cast<int64_t>(dtype_bytes(tensor.dtype));
    for (int64_t done = 0; done < tensor.bytes; done += width)
      double_to_element(tensor.dtype, normal(rng), bytes.data() + done);
    QCG_CHECK(state.write(tensor.name, bytes.data(), tensor.bytes));
  }
  return {};
}

Status read_state_file(const std::string& path, const Program& program, State& state) {
  QCG_TRY(file, read_safetensors(path));
  for (const auto& tensor : program.manifest().states) {
    const auto found = file.tensors.find(tensor.name);
    if (found == file.tensors.end())
      return Error::bad_input(tensor.name, fmt::format("{} has no tensor of this name", path),
                              "give the tensors the names of the states (`qcodegen inspect PROGRAM` shows them)");
    const Tensor given = found->second.contiguous();
    if (given.dtype != tensor.dtype || given.shape != tensor.shape)
      return Error::bad_input(tensor.name,
                              fmt::format("{} holds {}{}, the state is {}{}", path, dtype_name(given.dtype),
                                          shape_text(given.shape), dtype_name(tensor.dtype), shape_text(tensor.shape)),
                              "take a state that this program wrote");
    QCG_CHECK(state.write(tensor.name, given.bytes().data(), tensor.bytes));
  }
  return {};
}

Status write_state_file(const std::string& path, const Program& program, const State& state) {
  QCG_TRY(tensors, state_tensors(program, state));
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t i = 0; i < tensors.size(); ++i) named.emplace_back(program.manifest().states[i].name, tensors[i]);
  return write_safetensors(path, named);
}

}  // namespace qcg
