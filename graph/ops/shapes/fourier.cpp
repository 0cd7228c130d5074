// Shape and dtype rules of Fourier transforms.
#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/ops/rows_fourier.h"

namespace qcg {

bool is_pair_shape(const Shape& shape) { return !shape.empty() && shape.back().is_constant(2); }

// A matrix has so many elements at most: 256 MB.
static Status check_matrix(const OpArgs& a, const Dim& from, const Dim& to) {
  constexpr int64_t kMost = int64_t{1} << 26;
  if (!from.is_constant() || !to.is_constant() || 4 * from.constant() * to.constant() <= kMost) return {};
  return a.unsupported("self", fmt::format("the matrix of a transform of {} elements is too large", from.str()),
                       "transform at most 4096 elements at once");
}

Result<Types> infer_fourier(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const bool from_real = has_arg(a, "onesided"), to_real = has_arg(a, "last_dim_size");
  QCG_CHECK(need_float(a, "self"));
  Shape shape = self.shape;
  if (!from_real && !is_pair_shape(shape)) return a.fail("self", "expected pairs, got " + describe(self));
  if (!from_real) shape.pop_back();
  QCG_TRY(normalization, a.constant("normalization"));
  if (normalization < 0 || normalization > 2) return a.fail("normalization", "expected 0, 1 or 2");
  std::vector<size_t> axes;
  for (const Dim& given : a.dims("dim")) {
    QCG_TRY(axis, a.axis("dim", given, shape.size()));
    if (shape.empty()) return a.fail("self", "expected axes, got " + describe(self));
    if (shape[axis].is_constant(0)) return a.fail("self", "a transform of nothing: " + describe(self));
    axes.push_back(axis);
  }
  if (axes.empty()) return a.fail("dim", "no axis is transformed");
  for (size_t i = 0; i < axes.size(); ++i)
    if (std::count(axes.begin(), axes.end(), axes[i]) > 1) return a.fail("dim", "an axis is named twice");
  for (const size_t axis : axes) QCG_CHECK(check_matrix(a, shape[axis], shape[axis]));
  Dim& last = shape[axes.back()];
  if (from_real && a.boolean("onesided")) last = Dim::floor_divide(last, Dim(2)) + Dim(1);
  if (to_real) {
    const Dim& size = a.dim("last_dim_size");
    if (!size.is_constant() || !last.is_constant())
      return a.unsupported("last_dim_size", "it is known only at run time", "export with a constant size here");
    if (size.constant() < 1 || last.constant() < size.constant() / 2 + 1)
      return a.fail("last_dim_size", fmt::format("{} elements do not give {}", last.str(), size.str()));
    QCG_CHECK(check_matrix(a, size, size));
    last = size;
  }
  if (!to_real) shape.emplace_back(2);
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_window(const OpArgs& a) {
  QCG_TRY(length, a.constant("window_length"));
  const DType dtype = a.dtype("dtype").value_or(DType::f32);
  if (!is_floating(dtype) || is_float8(dtype)) return a.fail("dtype", "windows are floats");
  if (length < 0 || length > int64_t{1} << 24) return a.fail("window_length", "expected 0 to 2^24");
  return one(dtype, {Dim(length)});
}

// What complex_fourier.cpp writes in others.
Result<Types> infer_of_files(const OpArgs& a) {
  return a.unsupported("self", a.node.op->name + " is read from exported programs alone",
                       "write aten._fft_r2c, aten._fft_c2r or aten._fft_c2c of pairs");
}

}  // namespace qcg
