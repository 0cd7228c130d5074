#include "graph/patterns/constant_numbers.h"

#include <algorithm>

#include "graph/ops/four_bit.h"
#include "graph/oracle/ops.h"

namespace qcg {

ValueId add_computed(Graph& graph, const std::vector<ValueId>& sources, std::string_view suffix, DType dtype,
                     std::vector<int64_t> shape, const std::function<Tensor()>& compute) {
  const bool bound =
      std::all_of(sources.begin(), sources.end(), [&](ValueId id) { return graph.value(id).data.bound(); });
  Tensor tensor;
  if (bound) {
    tensor = compute();
  } else {
    tensor.dtype = dtype;
    tensor.strides = Tensor::row_major_strides(shape);
    tensor.shape = std::move(shape);
  }
  const std::string name = graph.value(sources[0]).name + "." + std::string(suffix);
  // Tied weights stay one: the same numbers made of the same source are the same parameter.
  ValueId id = bound ? graph.find_value(name) : kNoValue;
  for (size_t i = 1; id != kNoValue; id = graph.find_value(name + "_" + std::to_string(i++))) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::parameter || !value.data.bound()) continue;
    const bool same = value.dtype == tensor.dtype && value.data.shape == tensor.shape && value.data.is_contiguous() &&
                      std::ranges::equal(value.data.bytes(), tensor.bytes());
    if (same) return id;
  }
  return graph.add_parameter(graph.unique_name(name), std::move(tensor));
}

Tensor map_codes(const Tensor& codes, const std::array<int8_t, 16>& table) {
  const Tensor dense = codes.contiguous();
  std::vector<std::byte> bytes(dense.bytes().begin(), dense.bytes().end());
  for (std::byte& b : bytes) b = static_cast<std::byte>(table[static_cast<size_t>(b) & 15]);
  return Tensor::from_bytes(DType::i8, dense.shape, std::move(bytes));
}

Tensor make_matrix(int64_t rows, int64_t columns, const std::function<double(int64_t, int64_t)>& f) {
  std::vector<std::byte> bytes(static_cast<size_t>(rows * columns) * sizeof(float));
  for (int64_t i = 0; i < rows * columns; ++i)
    double_to_element(DType::f32, f(i / columns, i % columns), bytes.data() + i * sizeof(float));
  return Tensor::from_bytes(DType::f32, {rows, columns}, std::move(bytes));
}

ConstantNumbers::ConstantNumbers(const Graph& graph, const BlockNumbers& numbers, int64_t rows, int64_t k,
                                 bool exponents)
    : numbers_(numbers),
      values_(read_doubles(graph.value(numbers.value).data)),
      across_(count_blocks(rows, numbers.outer)),
      along_(count_blocks(k, numbers.group)) {
  if (exponents && graph.value(numbers.value).dtype == DType::u8)
    for (double& v : values_) v = exponent_scale(static_cast<int64_t>(v));
}

double ConstantNumbers::at(int64_t row, int64_t column) const {
  const int64_t o = numbers_.outer ? row / numbers_.outer : 0, g = numbers_.group ? column / numbers_.group : 0;
  return values_[static_cast<size_t>(numbers_.k_first ? g * across_ + o : o * along_ + g)];
}

}  // namespace qcg
