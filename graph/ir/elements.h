// Elements of a tensor as a vector of one C++ type, and back.
//
// Why here: what is computed from constants (other codes, unpacked weights, scales in another order) is a few loops
// over numbers. From tensors without bytes (explain without weights) these make tensors that are declared only.
//
//   Elements<float> z = read_elements<float>(zeros);
//   if (z) for (float& v : *z) v -= 8;
//   Tensor shifted = make_tensor(DType::f32, zeros.shape, z);
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "graph/ir/tensor.h"

namespace qcg {

// In row-major order; nullopt when the bytes are not there.
template <class T>
using Elements = std::optional<std::vector<T>>;

template <class T>
Elements<T> read_elements(const Tensor& data) {
  if (!data.bound()) return std::nullopt;
  const Tensor dense = data.contiguous();
  const size_t width = dtype_bytes(data.dtype);
  std::vector<T> out(static_cast<size_t>(dense.numel()));
  const std::byte* p = out.empty() ? nullptr : dense.bytes().data();
  for (T& v : out) {
    v = is_floating(data.dtype) ? static_cast<T>(element_to_double(data.dtype, p))
                                : static_cast<T>(element_to_int(data.dtype, p));
    p += width;
  }
  return out;
}

// T is the C++ type of `dtype`; declared without bytes when there are no elements.
template <class T>
Tensor make_tensor(DType dtype, std::vector<int64_t> shape, const Elements<T>& elements) {
  if (elements) {
    std::vector<std::byte> bytes(elements->size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), elements->data(), bytes.size());
    return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
  }
  Tensor data;
  data.dtype = dtype;
  data.strides = Tensor::row_major_strides(shape);
  data.shape = std::move(shape);
  return data;
}

}  // namespace qcg
