// What views do to strides. Axes and indices were checked when shapes were inferred.
#include "graph/ops/strides.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/rows_views.h"

namespace qcg {

// t, numpy_T, mT, transpose and permute: as they permute the shape, they permute the strides.
static Result<Strided> permuted(const OpArgs& a, const Strided& in, std::span<const size_t> order) {
  Strided out{{}, {}, in.offset};
  for (size_t axis : order) {
    if (axis >= in.shape.size()) return a.fail("self", "has fewer axes than are permuted");
    out.shape.push_back(in.shape[axis]);
    out.strides.push_back(in.strides[axis]);
  }
  return out;
}

static std::vector<size_t> axes_of(const Strided& in) {
  std::vector<size_t> order(in.shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  return order;
}

Result<Strided> stride_reverse(const OpArgs& a, const Strided& in) {
  std::vector<size_t> order = axes_of(in);
  std::ranges::reverse(order);
  return permuted(a, in, order);
}

Result<Strided> stride_last_two(const OpArgs& a, const Strided& in) {
  std::vector<size_t> order = axes_of(in);
  if (order.size() >= 2) std::swap(order.back(), order[order.size() - 2]);
  return permuted(a, in, order);
}

Result<Strided> stride_transpose(const OpArgs& a, const Strided& in) {
  std::vector<size_t> order = axes_of(in);
  const bool axes = has_arg(a, "axis0");
  QCG_TRY(d0, a.axis(axes ? "axis0" : "dim0", order.size()));
  QCG_TRY(d1, a.axis(axes ? "axis1" : "dim1", order.size()));
  if (!order.empty()) std::swap(order[d0], order[d1]);
  return permuted(a, in, order);
}

Result<Strided> stride_permute(const OpArgs& a, const Strided& in) {
  std::vector<size_t> order;
  for (const Dim& d : a.dims("dims")) {
    QCG_TRY(axis, a.axis("dims", d, in.shape.size()));
    order.push_back(axis);
  }
  return permuted(a, in, order);
}

// Axes of size 1, and new leading ones, repeat by stride 0.
Result<Strided> stride_expand(const OpArgs& a, const Strided& in) {
  QCG_TRY(types, infer_expand(a));
  Strided out{types[0].shape, std::vector<Dim>(types[0].shape.size(), Dim(0)), in.offset};
  const size_t lead = out.shape.size() - in.shape.size();
  for (size_t i = 0; i < in.shape.size(); ++i)
    if (in.shape[i] == out.shape[lead + i]) out.strides[lead + i] = in.strides[i];
  return out;
}

Result<Strided> sliced(const OpArgs& a, Strided in, std::string_view start, const Dim& step, const Dim& length) {
  QCG_TRY(axis, a.axis("dim", in.shape.size()));
  const Dim* given = a.node.arg(start).get<Dim>();
  const auto begin = clamp_index(given ? *given : Dim(0), in.shape[axis], a.graph);
  if (!begin) return a.fail(start, "is not surely inside the axis");
  in.offset = in.offset + in.strides[axis] * *begin;
  in.strides[axis] = in.strides[axis] * step;
  in.shape[axis] = length;
  return in;
}

Result<Strided> stride_slice(const OpArgs& a, const Strided& in) {
  QCG_TRY(types, infer_slice(a));
  QCG_TRY(axis, a.axis("dim", in.shape.size()));
  return sliced(a, in, "start", a.dim("step"), types[0].shape[axis]);
}

Result<Strided> stride_narrow(const OpArgs& a, const Strided& in) {
  return sliced(a, in, "start", Dim(1), a.dim("length"));
}

Result<Strided> stride_select(const OpArgs& a, const Strided& in) {
  QCG_TRY(axis, a.axis("dim", in.shape.size()));
  QCG_TRY(out, sliced(a, in, "index", Dim(1), Dim(1)));
  out.shape.erase(out.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  out.strides.erase(out.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  return out;
}

Result<Types> infer_flip(const OpArgs& a) {
  if (!a.dims("dims").empty()) {
    auto distinct = a.axes("dims", a.tensor("self").shape.size());
    if (!distinct.ok()) return std::move(distinct.error());
  }
  return infer_same(a);
}

Result<Strided> stride_flip(const OpArgs& a, const Strided& in) {
  Strided out = in;
  if (a.dims("dims").empty()) return out;
  QCG_TRY(axes, a.axes("dims", in.shape.size()));
  for (size_t axis : axes) {
    out.offset = out.offset + in.strides[axis] * (in.shape[axis] - Dim(1));
    out.strides[axis] = Dim(0) - in.strides[axis];
  }
  return out;
}

// The axes dim1 and dim2 become one, the last.
Result<Types> infer_diagonal(const OpArgs& a) {
  Shape shape = a.tensor("self").shape;
  QCG_TRY(rows, a.axis("dim1", shape.size()));
  QCG_TRY(columns, a.axis("dim2", shape.size()));
  QCG_TRY(offset, a.constant("offset"));
  if (rows == columns || shape.size() < 2) return a.fail("dim2", "expected another axis than dim1");
  constexpr int64_t kMost = int64_t{1} << 32;
  if (std::abs(offset) > kMost) return a.fail("offset", "it is beyond the matrix");
  const Dim below = shape[rows] - Dim(std::max<int64_t>(-offset, 0)),
            right = shape[columns] - Dim(std::max<int64_t>(offset, 0));
  const DimRange apart = range_of(below - right, a.graph.symbols);
  if (apart.min < 0 && apart.max > 0)
    return a.unsupported("self", fmt::format("the smaller of {} and {} is not known", below.str(), right.str()),
                         "export with constant sizes here");
  const Dim length = apart.max <= 0 ? below : right;
  if (range_of(length, a.graph.symbols).min < 0) return a.fail("offset", "it may be beyond the matrix");
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(std::max(rows, columns)));
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(std::min(rows, columns)));
  shape.push_back(length);
  return one(a.tensor("self").dtype, std::move(shape));
}

Result<Strided> stride_diagonal(const OpArgs& a, const Strided& in) {
  QCG_TRY(types, infer_diagonal(a));
  QCG_TRY(rows, a.axis("dim1", in.shape.size()));
  QCG_TRY(columns, a.axis("dim2", in.shape.size()));
  QCG_TRY(offset, a.constant("offset"));
  Strided out{types[0].shape, in.strides, in.offset};
  out.offset = out.offset + (offset >= 0 ? in.strides[columns] * Dim(offset) : in.strides[rows] * Dim(-offset));
  out.strides.erase(out.strides.begin() + static_cast<std::ptrdiff_t>(std::max(rows, columns)));
  out.strides.erase(out.strides.begin() + static_cast<std::ptrdiff_t>(std::min(rows, columns)));
  out.strides.push_back(in.strides[rows] + in.strides[columns]);
  return out;
}

// Windows of `size` elements, `step` apart, which become the last axis.
Result<Types> infer_unfold(const OpArgs& a) {
  const Value& self = a.tensor("self");
  QCG_TRY(axis, a.axis("dimension", self.shape.size()));
  QCG_TRY(size, a.constant("size"));
  QCG_TRY(step, a.constant("step"));
  Shape shape = self.shape.empty() ? Shape{Dim(1)} : self.shape;
  if (size < 0 || step < 1) return a.fail("size", fmt::format("windows of {}, {} apart", size, step));
  const Dim room = shape[axis] - Dim(size);
  if (!is_at_least_0(room, a.graph))
    return a.fail("size", fmt::format("a window of {} may be larger than the axis of {}", size, shape[axis].str()));
  shape[axis] = Dim::floor_divide(room, Dim(step)) + Dim(1);
  shape.push_back(Dim(size));
  return one(self.dtype, std::move(shape));
}

Result<Strided> stride_unfold(const OpArgs& a, const Strided& in) {
  QCG_TRY(types, infer_unfold(a));
  QCG_TRY(axis, a.axis("dimension", in.shape.size()));
  Strided out{types[0].shape, in.strides, in.offset};
  if (out.strides.empty()) out.strides.push_back(Dim(1));
  const Dim one_apart = out.strides[axis];
  out.strides[axis] = one_apart * a.dim("step");
  out.strides.push_back(one_apart);
  return out;
}

}  // namespace qcg
