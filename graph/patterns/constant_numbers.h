// Constants computed while a weight is recognized: unpacked codes, scales evaluated per group.
//
// Why here: a graph's own tensors are views into mapped files; these few are written anew. Without bytes (explain
// without weights) they are declared only.
//
//   spec.weight = add_computed(graph, {w}, "codes", DType::i8, {n, k}, [&] { return map_codes(unpack_nibbles(…), table); });
#pragma once

#include <array>
#include <functional>

#include "graph/ops/scaled_product.h"

namespace qcg {

// A new parameter, named after the first of `sources`; `compute` is called only if all of them have bytes.
ValueId add_computed(Graph& graph, const std::vector<ValueId>& sources, std::string_view suffix, DType dtype,
                     std::vector<int64_t> shape, const std::function<Tensor()>& compute);

// i8 [N, K]: every element's low four bits looked up.
Tensor map_codes(const Tensor& codes, const std::array<int8_t, 16>& table);
// f32 [rows, columns] of f(row, column).
Tensor make_matrix(int64_t rows, int64_t columns, const std::function<double(int64_t, int64_t)>& f);

// Block numbers by row and column of the matrix; integers in the place of scales are exponents. Precondition: the bytes
// are there.
class ConstantNumbers {
 public:
  ConstantNumbers(const Graph& graph, const BlockNumbers& numbers, int64_t rows, int64_t k, bool exponents);
  double at(int64_t row, int64_t column) const;

 private:
  BlockNumbers numbers_;
  std::vector<double> values_;
  int64_t across_, along_;
};

}  // namespace qcg
