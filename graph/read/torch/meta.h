// Sizes and tensor descriptions as torch.export writes them: SymInt, sympy expressions, TensorMeta.
//
// Why here: the graph JSON and the payload configs of a .pt2 describe tensors in the same words.
//
//   parse_size_expr("Mul(Integer(2), Symbol('s0', positive=True, integer=True))")  ->  2*s0
//   {"dtype": 7, "sizes": [{"as_int": 4}], "strides": [{"as_int": 1}], ...}          ->  TensorMeta
#pragma once

#include <string_view>

#include "base/dtype.h"
#include "graph/ir/symbol.h"
#include "graph/ir/tensor.h"
#include "graph/read/files/json.h"

namespace qcg {

// A bare symbol, sympy srepr of Symbol, Integer, sums, products, small powers, quotients, remainders, extremes and
// roundings of fractions, or an infix sum of products. Anything else is Unsupported. Nothing is ever evaluated as code.
// The error's place is the caller's to fill in.
Result<Dim> parse_size_expr(std::string_view text);

// The value of a float computed of sizes: s0 / (1.5 * s0). nullopt: it depends on a size.
Result<std::optional<double>> parse_real_expr(std::string_view text);

Result<Dim> read_sym_int(const JsonCursor& sym_int);  // {"as_int": n} or {"as_expr": {"expr_str": ...}}
Result<DType> read_export_dtype(const JsonCursor& number);

// What a value of the graph is. How eager execution laid it out (its strides may even be Min(…) expressions) is not
// ours.
struct TensorMeta {
  DType dtype = DType::f32;
  Shape sizes;
  bool is_complex = false;  // dtype and sizes are those of its pairs: a last axis of 2 (complex_pairs.h)
};

// Whether a description is of complex numbers.
bool is_complex_meta(const JsonCursor& meta);

// A list of sizes or strides: not too many of them, and none negative where it is a number.
Result<Shape> read_sizes(const JsonCursor& list);

Result<TensorMeta> read_tensor_meta(const JsonCursor& meta);

// The same for a tensor whose sizes are numbers: not bound to bytes; sizes, strides and offset are not negative, and no
// product of them overflows. Complex numbers are pairs here, too.
Result<Tensor> read_constant_tensor_meta(const JsonCursor& meta);

// How the elements of a tensor certainly lay in memory when the graph was exported: in row-major order, or not so.
enum class MemoryOrder { row_major, other, unknown };
MemoryOrder memory_order(const JsonCursor& meta);

// Bytes of storage that the view reaches, from the start of storage. Precondition: as checked by
// read_constant_tensor_meta.
size_t storage_extent(const Tensor& tensor);

// Sizes not negative, numel and the byte extent of shape and strides below 2^62.
bool has_sane_extent(const Tensor& tensor);

}  // namespace qcg
