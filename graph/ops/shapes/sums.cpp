// Shape and dtype rules of products in other spellings, and of sums along an axis that weigh or leave out elements.
#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/ops/rows_sums.h"

namespace qcg {
namespace {

// Products have one floating dtype.
Status same_floats(const OpArgs& a, std::string_view first, std::string_view second) {
  QCG_CHECK(need_float(a, first));
  if (a.tensor(first).dtype == a.tensor(second).dtype) return {};
  return a.fail(second, fmt::format("{} is not {}", describe(a.tensor(second)), dtype_name(a.tensor(first).dtype)),
                "cast it before");
}

Status need_rank(const OpArgs& a, std::string_view name, size_t rank) {
  if (a.tensor(name).shape.size() == rank) return {};
  return a.fail(name, fmt::format("expected {} axes, got {}", rank, describe(a.tensor(name))));
}

}  // namespace

Result<Types> infer_tensordot(const OpArgs& a) {
  QCG_CHECK(same_floats(a, "self", "other"));
  const Value &x = a.tensor("self"), &y = a.tensor("other");
  const std::vector<Dim> left = a.dims("dims_self"), right = a.dims("dims_other");
  if (left.size() != right.size()) return a.fail("dims_other", "expected an axis for each of dims_self");
  Shape shape;
  std::vector<size_t> from, to;
  for (size_t i = 0; i < left.size(); ++i) {
    QCG_TRY(own, a.axis("dims_self", left[i], x.shape.size()));
    QCG_TRY(other, a.axis("dims_other", right[i], y.shape.size()));
    if (own >= x.shape.size() || other >= y.shape.size() || !(x.shape[own] == y.shape[other]))
      return a.fail("dims_other",
                    fmt::format("axis {} of {} is not as long as axis {} of {}", other, describe(y), own, describe(x)));
    if (std::ranges::count(from, own) + std::ranges::count(to, other) > 0)
      return a.fail("dims_self", "an axis is named twice");
    from.push_back(own), to.push_back(other);
  }
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (!std::ranges::count(from, i)) shape.push_back(x.shape[i]);
  for (size_t i = 0; i < y.shape.size(); ++i)
    if (!std::ranges::count(to, i)) shape.push_back(y.shape[i]);
  return one(x.dtype, std::move(shape));
}

// Contracts the last axes of both; a number scales.
Result<Types> infer_inner(const OpArgs& a) {
  QCG_CHECK(same_floats(a, "self", "other"));
  const Shape &x = a.tensor("self").shape, &y = a.tensor("other").shape;
  if (x.empty() || y.empty()) return one(a.tensor("self").dtype, x.empty() ? y : x);
  QCG_CHECK(same_k(a, "other", x.back(), y.back()));
  Shape shape(x.begin(), x.end() - 1);
  shape.insert(shape.end(), y.begin(), y.end() - 1);
  return one(a.tensor("self").dtype, std::move(shape));
}

Result<Types> infer_dot_of_rows(const OpArgs& a) {
  QCG_CHECK(same_floats(a, "x", "y"));
  QCG_TRY(p, promote_operands(a, {"x", "y"}));
  QCG_TRY(axis, a.axis("dim", p.shape.size()));
  if (p.shape.empty()) return a.fail("x", "expected rows, got a number");
  p.shape.erase(p.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return one(p.dtype.result(), std::move(p.shape));
}

// beta * self + alpha * a product.
Result<Types> infer_scaled_sum(const OpArgs& a) {
  const std::string& name = a.node.op->name;
  const bool rows = name == "aten.addr.default", batches = name == "aten.addbmm.default";
  const std::string_view left = rows      ? "vec1"
                                : batches ? "batch1"
                                          : "mat",
                         right = rows      ? "vec2"
                                 : batches ? "batch2"
                                           : "vec";
  QCG_CHECK(same_floats(a, left, right));
  QCG_CHECK(same_floats(a, left, "self"));
  QCG_CHECK(need_rank(a, left, rows ? 1 : batches ? 3 : 2));
  QCG_CHECK(need_rank(a, right, batches ? 3 : 1));
  const Shape &x = a.tensor(left).shape, &y = a.tensor(right).shape;
  if (!rows) QCG_CHECK(same_k(a, right, x.back(), y[batches ? 1 : 0]));
  if (batches && !(x[0] == y[0])) return a.fail(right, "expected as many matrices as " + std::string(left) + " has");
  const Shape shape = rows ? Shape{x[0], y[0]} : batches ? Shape{x[1], y[2]} : Shape{x[0]};
  const auto both = broadcast(a.tensor("self").shape, shape);
  if (!both || *both != shape)
    return a.fail("self", fmt::format("{} does not broadcast to {}", describe(a.tensor("self")), to_string(shape)));
  return one(a.tensor(left).dtype, shape);
}

// Matrices; the first may be a row, the last a column.
Result<Types> infer_chain(const OpArgs& a) {
  const auto& ids = a.tensors("tensors");
  if (ids.size() < 2) return a.fail("tensors", "expected at least two");
  const Value &first = a.graph.value(ids.front()), &last = a.graph.value(ids.back());
  for (size_t i = 0; i < ids.size(); ++i) {
    const Value& v = a.graph.value(ids[i]);
    const bool end = i == 0 || i + 1 == ids.size();
    if (!is_floating(v.dtype) || v.dtype != first.dtype || !(v.shape.size() == 2 || (end && v.shape.size() == 1)))
      return a.fail("tensors", "expected matrices of one floating dtype, got " + describe(v));
    if (i > 0) QCG_CHECK(same_k(a, "tensors", a.graph.value(ids[i - 1]).shape.back(), v.shape[0]));
  }
  Shape shape;
  if (first.shape.size() == 2) shape.push_back(first.shape[0]);
  if (last.shape.size() == 2) shape.push_back(last.shape[1]);
  return one(first.dtype, std::move(shape));
}

Result<Types> infer_matrix_power(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  const Value& self = a.tensor("self");
  const size_t rank = self.shape.size();
  if (rank < 2 || !(self.shape[rank - 1] == self.shape[rank - 2]))
    return a.fail("self", "expected square matrices, got " + describe(self));
  QCG_TRY(n, a.constant("n"));
  constexpr int64_t kMost = 1 << 20;
  if (n < 0) return a.unsupported("n", "powers of an inverse", "invert the matrix before the export");
  if (n > kMost) return a.fail("n", "expected at most 2^20");
  return one(self.dtype, self.shape);
}

size_t axis_of_cross(const OpArgs& a) {
  const Shape& shape = a.tensor("self").shape;
  if (!a.node.arg("dim").is_none()) return axis_at(a.dim("dim"), std::max<size_t>(shape.size(), 1));
  size_t axis = 0;
  while (axis < shape.size() && !shape[axis].is_constant(3)) ++axis;
  return axis;
}

Result<Types> infer_cross(const OpArgs& a) {
  const Value &x = a.tensor("self"), &y = a.tensor("other");
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  if (!a.node.arg("dim").is_none()) QCG_CHECK(a.axis("dim", x.shape.size()));
  const size_t axis = axis_of_cross(a);
  if (x.shape.size() != y.shape.size() || axis >= x.shape.size() || !x.shape[axis].is_constant(3) ||
      !y.shape[axis].is_constant(3))
    return a.fail("other", fmt::format("{} and {} have no axis of 3 in common", describe(x), describe(y)));
  return one(p.dtype.result(), std::move(p.shape));
}

// [.., I] and [.., J] by [O, I, J].
Result<Types> infer_bilinear(const OpArgs& a) {
  const Value &x = a.tensor("input1"), &y = a.tensor("input2"), &w = a.tensor("weight");
  QCG_CHECK(same_floats(a, "input1", "input2"));
  QCG_CHECK(same_floats(a, "input1", "weight"));
  if (x.shape.empty() || x.shape.size() != y.shape.size() || w.shape.size() != 3 || !(x.shape.back() == w.shape[1]) ||
      !(y.shape.back() == w.shape[2]) || !std::equal(x.shape.begin(), x.shape.end() - 1, y.shape.begin()))
    return a.fail("weight", fmt::format("{} does not fit rows of {} and {}", describe(w), describe(x), describe(y)));
  if (const Value* bias = a.optional_tensor("bias");
      bias && (bias->shape != Shape{w.shape[0]} || bias->dtype != x.dtype))
    return a.fail("bias", fmt::format("{} is not one number for each of {}", describe(*bias), w.shape[0].str()));
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  shape.push_back(w.shape[0]);
  return one(x.dtype, std::move(shape));
}

// Products of three with axes of size 1 at `expand1`, `expand2`, `expand3`, summed over `sumdim`.
Result<Types> infer_trilinear(const OpArgs& a) {
  QCG_CHECK(same_floats(a, "i1", "i2"));
  QCG_CHECK(same_floats(a, "i1", "i3"));
  Shape all;
  for (const auto& [name, expand] : {std::pair{"i1", "expand1"}, {"i2", "expand2"}, {"i3", "expand3"}}) {
    const auto shape = expanded_shape(a.graph, a.node, name, expand);
    const auto both = shape ? broadcast(all, *shape) : std::nullopt;
    if (!both || (!all.empty() && all.size() != shape->size()))
      return a.fail(name, describe(a.tensor(name)) + " does not broadcast with the others");
    all = *both;
  }
  QCG_TRY(axes, a.axes("sumdim", all.size()));
  Shape shape;
  for (size_t i = 0; i < all.size(); ++i)
    if (a.dims("sumdim").empty() || !std::ranges::count(axes, i)) shape.push_back(all[i]);
  return one(a.tensor("i1").dtype, std::move(shape));
}

std::optional<Shape> expanded_shape(const Graph& graph, const Node& node, std::string_view tensor,
                                    std::string_view expand) {
  const auto* at = node.arg(expand).get<std::vector<Dim>>();
  Shape shape = graph.value(node.tensor(tensor)).shape;
  std::vector<int64_t> places;
  for (const Dim& d : at ? *at : std::vector<Dim>()) places.push_back(d.is_constant() ? d.constant() : -1);
  std::ranges::sort(places);
  for (const int64_t place : places) {
    if (place < 0 || place > static_cast<int64_t>(shape.size())) return std::nullopt;
    shape.insert(shape.begin() + place, Dim(1));
  }
  return shape;
}

// Powers of each element, from 0 on.
Result<Types> infer_vander(const OpArgs& a) {
  const Value& x = a.tensor("x");
  const bool one_list = has_arg(a, "increasing");
  if (x.shape.empty() || (one_list && x.shape.size() > 1)) return a.fail("x", "expected a list, got " + describe(x));
  if (x.dtype == DType::boolean) return a.fail("x", "expected numbers, got " + describe(x));
  Shape shape = x.shape;
  Dim count = x.shape.back();
  if (const Dim* n = a.node.arg("N").get<Dim>()) count = *n;
  if (!count.is_constant())
    return a.unsupported("N", fmt::format("{} powers, known only at run time", count.str()), "give a constant N");
  constexpr int64_t kMost = 1 << 16;
  if (count.constant() < (one_list ? 0 : 2) || count.constant() > kMost) return a.fail("N", "expected fewer than 2^16");
  shape.push_back(count);
  return one(is_floating(x.dtype) ? x.dtype : DType::i64, std::move(shape));
}

Result<Types> infer_trapezoid(const OpArgs& a) {
  const Value& y = a.tensor("y");
  QCG_CHECK(need_float(a, "y"));
  QCG_TRY(axis, a.axis("dim", y.shape.size()));
  if (y.shape.empty() || range_of(y.shape[axis], a.graph.symbols).min < 1)
    return a.fail("y", "expected an axis with elements, got " + describe(y));
  if (has_arg(a, "x")) {
    const Value& x = a.tensor("x");
    const bool fits = x.shape == y.shape || (x.shape.size() == 1 && x.shape[0] == y.shape[axis]);
    if (!fits || x.dtype != y.dtype)
      return a.fail("x", fmt::format("{} is not a place for each element of {}", describe(x), describe(y)));
  }
  Shape shape = y.shape;
  if (a.node.op->name.starts_with("aten.cumulative")) shape[axis] = shape[axis] - Dim(1);
  else shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return one(y.dtype, std::move(shape));
}

Result<Types> infer_distance(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  QCG_CHECK(need_float(a, "self"));
  return one(p.dtype.result(), {});
}

// Distances of each row from every row behind it.
Result<Types> infer_distances_of_pairs(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  QCG_CHECK(need_rank(a, "self", 2));
  const Dim& rows = a.tensor("self").shape[0];
  constexpr int64_t kMost = 1 << 10;
  if (!rows.is_constant())
    return a.unsupported("self", fmt::format("{} rows, a number known only at run time", rows.str()),
                         "export with a constant number of rows, or use torch.cdist");
  if (rows.constant() > kMost) return a.unsupported("self", "more than 2^10 rows", "use torch.cdist");
  return one(a.tensor("self").dtype, {Dim(rows.constant() * (rows.constant() - 1) / 2)});
}

Result<Types> infer_renorm(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  const Value& self = a.tensor("self");
  QCG_CHECK(a.axis("dim", self.shape.size()));
  if (self.shape.size() < 2) return a.fail("self", "expected at least two axes, got " + describe(self));
  const auto p = as_number(a.node.arg("p")), most = as_number(a.node.arg("maxnorm"));
  if (!p || !(*p > 0) || !most || !(*most >= 0))
    return a.fail("p", "expected an order above 0 and a norm of at least 0");
  return one(self.dtype, self.shape);
}

}  // namespace qcg
