// Tensor: constant bytes with a dtype, a shape and strides. Weights, oracle inputs and outputs, safetensors entries.
//
// Why here: readers make them (memory-mapped, never copied), passes take views of them, the oracle computes with them.
//
//   Tensor w = ...;             // i8 [704, 256], mapped from a .pt2
//   Tensor wt = w.transpose(0, 1);   // a view: same storage, other strides
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace qcg {

// Bytes and whatever keeps them alive (a mapping, a vector).
struct Storage {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

struct Tensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;            // in elements; may be 0 (expand) but never negative
  int64_t offset = 0;                      // in elements from the start of storage
  std::shared_ptr<const Storage> storage;  // null: declared, but its data was not given (explain without weights)

  bool bound() const { return storage != nullptr; }
  int64_t numel() const;
  bool is_contiguous() const;

  // Every element of the view lies inside the storage. Readers check this once; nothing else has to.
  bool in_bounds() const;

  const std::byte* element(std::span<const int64_t> index) const;  // precondition: bound(), in range

  // Views; preconditions are the caller's (axes in range).
  Tensor transpose(size_t a, size_t b) const;
  Tensor permute(std::span<const size_t> order) const;
  Tensor slice(size_t axis, int64_t begin, int64_t end, int64_t step = 1) const;
  Tensor select(size_t axis, int64_t index) const;  // without that axis

  // A dense row-major copy; the tensor itself when it is one already.
  Tensor contiguous() const;
  // The same elements under another shape (same numel); copies only if no strided view exists.
  Tensor reshape(std::vector<int64_t> new_shape) const;
  std::span<const std::byte> bytes() const;  // precondition: bound(), is_contiguous()

  static std::vector<int64_t> row_major_strides(std::span<const int64_t> shape);
  static Tensor from_bytes(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes);  // takes ownership
  static Tensor zeros(DType dtype, std::vector<int64_t> shape);
  // As many zeros, in the memory of one.
  static Tensor same_zeros(DType dtype, std::vector<int64_t> shape);
};

// Reference conversions: one element to double (or exactly to int64 for integers) and back with round-half-to-even,
// integers saturating only where the caller asks. Shared by readers and oracle, never by kernels.
double element_to_double(DType dtype, const std::byte* p);
int64_t element_to_int(DType dtype, const std::byte* p);  // integers and bool only
inline bool is_exact_double(int64_t v) { return v >= -(int64_t{1} << 53) && v <= int64_t{1} << 53; }  // surely
void double_to_element(DType dtype, double v, std::byte* p);  // floats: round to nearest even; integers: truncate
void int_to_element(DType dtype, int64_t v, std::byte* p);    // wraps to the width of dtype
double round_to_dtype(DType dtype, double v);                 // the nearest representable value

}  // namespace qcg
