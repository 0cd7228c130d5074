// Constants that a recognizer computes: other codes, sums with a scale, a block's scale written out for each of its rows.
//
// Why here: exporters store codes unsigned, packed or with zero points in the real domain; LinearSpec wants int8 codes,
// integer zero points and real offsets. Everything works without bytes too (explain without weights): what is computed
// from nothing is declared only.
//
//   auto z = read_elements<float>(graph, zero);
//   if (z) for (float& v : *z) v -= 8;
//   spec.zero = add_constant(graph, zero, DType::f32, {n, groups}, std::move(z));
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace qcg {

// The numbers of a parameter in row-major order; nullopt when its bytes are not there.
template <class T>
using Elements = std::optional<std::vector<T>>;

template <class T>
Elements<T> read_elements(const Graph& graph, ValueId parameter) {
  const Tensor& data = graph.value(parameter).data;
  if (!data.bound()) return std::nullopt;
  const Tensor dense = data.contiguous();
  const size_t width = dtype_bytes(data.dtype);
  std::vector<T> out(static_cast<size_t>(dense.numel()));
  const std::byte* p = out.empty() ? nullptr : dense.bytes().data();
  for (T& v : out) {
    v = is_floating(data.dtype) ? static_cast<T>(element_to_double(data.dtype, p)) : static_cast<T>(element_to_int(data.dtype, p));
    p += width;
  }
  return out;
}

// A parameter named after `like`. T is the C++ type of `dtype`.
template <class T>
ValueId add_constant(Graph& graph, ValueId like, DType dtype, std::vector<int64_t> shape, const Elements<T>& elements) {
  Tensor data;
  data.dtype = dtype;
  data.strides = Tensor::row_major_strides(shape);
  data.shape = shape;
  if (elements) {
    std::vector<std::byte> bytes(elements->size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), elements->data(), bytes.size());
    data = Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
  }
  return graph.add_parameter(graph.unique_name(graph.value(like).name + "." + std::string(dtype_name(dtype))), std::move(data));
}

}  // namespace qcg
