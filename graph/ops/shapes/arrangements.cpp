// Shape and dtype rules of ops of torch's library that arrange elements, and of some that are two others at once.
#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/ops/rows_composed.h"
#include "graph/ops/rows_library.h"

namespace qcg {
namespace {

constexpr int64_t kMostOffset = int64_t{1} << 31;  // of a diagonal
bool is_beyond(int64_t offset, int64_t most) { return offset < -most || offset > most; }

}  // namespace

// hsplit cuts columns, or a list; vsplit rows; dsplit what lies behind both.
size_t axis_of_parts(const Graph& graph, const Node& node) {
  const size_t rank = graph.value(node.tensor("self")).shape.size();
  if (node.op->arg_index("dim") >= 0) return axis_at(*node.arg("dim").get<Dim>(), rank);
  const char first = node.op->name[std::string_view("aten.").size()];
  return first == 'v' ? 0 : first == 'd' ? 2 : rank > 1 ? 1 : 0;
}

// Parts of an axis: as many as `sections` or `chunks` says, or between `indices`.
Result<Types> infer_parts(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (has_arg(a, "dim")) QCG_CHECK(a.axis("dim", self.shape.size()));
  if (self.shape.empty()) return a.fail("self", "a tensor without axes has no parts");
  const size_t axis = axis_of_parts(a.graph, a.node);
  if (axis >= self.shape.size()) return a.fail("self", fmt::format("{} has no axis {}", describe(self), axis));
  Shape shape = self.shape;
  const Dim size = shape[axis];
  std::vector<Dim> sizes;
  if (has_arg(a, "indices")) {
    Dim last(0);
    for (const Dim& given : a.dims("indices")) {
      const auto at = clamp_index(given, size, a.graph);
      if (!at || range_of(*at - last, a.graph.symbols).min < 0)
        return a.unsupported("indices", fmt::format("{} is not surely behind {}", given.str(), last.str()),
                             "split at constants that ascend");
      sizes.push_back(*at - last);
      last = *at;
    }
    sizes.push_back(size - last);
  } else {
    const bool sections = has_arg(a, "sections");
    QCG_TRY(count, a.constant(sections ? "sections" : "chunks"));
    constexpr int64_t kMost = 4096;
    if (count < 1 || count > kMost) return a.fail(sections ? "sections" : "chunks", "expected 1 to 4096");
    if (const auto each = size.divide_exactly(Dim(count))) {
      sizes.assign(static_cast<size_t>(count), *each);
    } else if (!size.is_constant()) {
      return a.unsupported("self", fmt::format("{} parts of an axis of {}", count, size.str()),
                           "export with a size that they divide");
    } else {
      const int64_t all = size.constant(), chunk = (all + count - 1) / count;
      for (int64_t i = 0, left = all; sections ? i < count : left > 0; ++i) {
        const int64_t part = sections ? all / count + (i < all % count ? 1 : 0) : std::min(chunk, left);
        sizes.emplace_back(part);
        left -= part;
      }
    }
  }
  Types types;
  for (const Dim& part : sizes) {
    shape[axis] = part;
    types.push_back({self.dtype, shape});
  }
  return types;
}

// hstack joins along axis 1, lists along 0; vstack lists as rows; column_stack lists as columns; dstack along axis 2.
std::pair<std::vector<Shape>, size_t> parts_of_stack(const Graph& graph, const Node& node) {
  const bool rows = is_op(node, "aten.vstack.default"), columns = is_op(node, "aten.column_stack.default"),
             depths = is_op(node, "aten.dstack.default");
  std::vector<Shape> shapes;
  bool lists = false;
  for (ValueId id : *node.arg("tensors").get<std::vector<ValueId>>()) {
    Shape shape = graph.value(id).shape;
    if (shape.empty()) shape.emplace_back(1);
    if (shape.size() == 1 && rows) shape.insert(shape.begin(), Dim(1));
    if (shape.size() == 1 && columns) shape.emplace_back(1);
    if (shape.size() == 1 && depths) shape.insert(shape.begin(), Dim(1));
    if (shape.size() == 2 && depths) shape.emplace_back(1);
    lists = lists || shape.size() == 1;
    shapes.push_back(std::move(shape));
  }
  return {std::move(shapes), depths ? 2 : rows || lists ? 0 : 1};
}

Result<Types> infer_joined(const OpArgs& a) {
  const std::vector<ValueId>& tensors = a.tensors("tensors");
  if (tensors.empty()) return a.fail("tensors", "nothing to join");
  const auto [shapes, axis] = parts_of_stack(a.graph, a.node);
  Promotion promotion;
  Shape joined = shapes[0];
  joined[axis] = Dim(0);
  for (size_t i = 0; i < shapes.size(); ++i) {
    promotion.add(a.graph.value(tensors[i]));
    Shape rest = shapes[i];
    if (rest.size() != joined.size()) return a.fail("tensors", "their axes differ in number");
    const Dim size = rest[axis];
    rest[axis] = joined[axis];
    if (rest != joined) return a.fail("tensors", fmt::format("{} does not join the first", to_string(shapes[i])));
    joined[axis] = joined[axis] + size;
  }
  return one(promotion.result(), std::move(joined));
}

Result<Types> infer_moved(const OpArgs& a) {
  Shape shape = a.tensor("self").shape;
  QCG_TRY(from, a.axis("source", shape.size()));
  QCG_TRY(to, a.axis("destination", shape.size()));
  if (shape.empty()) return one(a.tensor("self").dtype, shape);
  const Dim size = shape[from];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(from));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(to), size);
  return one(a.tensor("self").dtype, std::move(shape));
}

Result<Types> infer_ravel(const OpArgs& a) { return one(a.tensor("self").dtype, {product(a.tensor("self").shape)}); }

Result<Types> infer_trace(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.size() != 2) return a.fail("self", "expected a matrix, got " + describe(self));
  return one(is_floating(self.dtype) ? self.dtype : DType::i64, {});
}

// A matrix of a list, or the list of a matrix.
Result<Types> infer_diag(const OpArgs& a) {
  const Value& self = a.tensor("self");
  QCG_TRY(offset, a.constant("diagonal"));
  if (is_beyond(offset, kMostOffset)) return a.fail("diagonal", "it is beyond the matrix");
  if (self.shape.size() == 1) {
    const Dim size = self.shape[0] + Dim(std::abs(offset));
    return one(self.dtype, {size, size});
  }
  if (self.shape.size() != 2) return a.fail("self", "expected a list or a matrix, got " + describe(self));
  const auto diagonal = diagonal_of(self.shape[0], self.shape[1], offset, a.graph.symbols);
  if (!diagonal)
    return a.unsupported("self", "the length of this diagonal is not known", "export with constant sizes here");
  return one(self.dtype, {diagonal->size});
}

Result<Types> infer_diag_embed(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const size_t rank = self.shape.size() + 1;
  QCG_TRY(rows, a.axis("dim1", rank));
  QCG_TRY(columns, a.axis("dim2", rank));
  QCG_TRY(offset, a.constant("offset"));
  if (self.shape.empty()) return a.fail("self", "expected rows, got a number");
  if (rows == columns) return a.fail("dim2", "the axis of dim1");
  constexpr int64_t kMost = 1 << 13;
  if (is_beyond(offset, kMost)) return a.unsupported("offset", "expected -2^13 to 2^13", "pad the result");
  Shape shape = self.shape;
  const Dim size = shape.back() + Dim(std::abs(offset));
  shape.pop_back();
  for (const size_t axis : {std::min(rows, columns), std::max(rows, columns)})
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), size);
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_kron(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self"}));
  p.dtype.add(a.tensor("other"));
  Shape shape = a.tensor("self").shape, other = a.tensor("other").shape;
  if (shape.size() < other.size()) std::swap(shape, other);
  for (size_t i = 0; i < other.size(); ++i) {
    Dim& size = shape[shape.size() - other.size() + i];
    size = size * other[i];
  }
  return one(p.dtype.result(), std::move(shape));
}

Result<Types> infer_channel_shuffle(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.size() < 3 || range_of(a.dim("groups"), a.graph.symbols).min < 1 ||
      !self.shape[1].divide_exactly(a.dim("groups")))
    return a.fail("groups", fmt::format("{} groups of the channels of {}", a.dim("groups").str(), describe(self)));
  return one(self.dtype, self.shape);
}

// A variance or deviation, and the mean.
Result<Types> infer_moments(const OpArgs& a) {
  QCG_TRY(types, infer_variance(a));
  types.push_back(types[0]);
  return types;
}

Result<Types> infer_both_extremes(const OpArgs& a) {
  const Shape& shape = a.tensor("self").shape;
  const bool whole = a.node.arg("dim").is_none();
  QCG_TRY(axis, whole ? Result<size_t>(size_t{0}) : a.axis("dim", shape.size()));
  if (range_of(whole || shape.empty() ? product(shape) : shape[axis], a.graph.symbols).min < 1)
    return a.fail("self", "the maximum or minimum of no elements, of " + describe(a.tensor("self")));
  QCG_TRY(rest, shape_without_axis(a));
  return Types{{a.tensor("self").dtype, rest}, {a.tensor("self").dtype, rest}};
}

Result<Types> infer_count_nonzero(const OpArgs& a) {
  const Shape& self = a.tensor("self").shape;
  std::vector<size_t> axes;
  if (a.node.arg("dim").get<Dim>()) {
    QCG_TRY(axis, a.axis("dim", self.size()));
    axes = {axis};
  } else {
    QCG_TRY(all, a.axes("dim", self.size()));
    axes = all;
  }
  Shape shape;
  for (size_t i = 0; i < self.size(); ++i)
    if (std::ranges::find(axes, i) == axes.end()) shape.push_back(self[i]);
  return one(DType::i64, std::move(shape));
}

Result<Types> infer_logit(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  if (const auto eps = as_number(a.node.arg("eps")); eps && !(*eps >= 0 && *eps <= 0.5))
    return a.unsupported("eps", "expected 0 to 0.5", "clamp before it");
  return one(a.tensor("self").dtype, a.tensor("self").shape);
}

// rot90 by quarters in the plane of two axes; fliplr and flipud turn one axis round.
Result<Types> infer_turned(const OpArgs& a) {
  Shape shape = a.tensor("self").shape;
  if (!has_arg(a, "k")) {
    if (shape.size() < (a.node.op->name == "aten.fliplr.default" ? 2 : 1))
      return a.fail("self", "expected more axes than " + describe(a.tensor("self")) + " has");
    return one(a.tensor("self").dtype, std::move(shape));
  }
  QCG_TRY(k, a.constant("k"));
  const std::vector<Dim> dims = a.dims("dims");
  if (dims.size() != 2) return a.fail("dims", fmt::format("expected 2 axes, got {}", dims.size()));
  QCG_TRY(from, a.axis("dims", dims[0], shape.size()));
  QCG_TRY(to, a.axis("dims", dims[1], shape.size()));
  if (from == to || shape.size() < 2) return a.fail("dims", "expected two axes that differ");
  if (k % 2 != 0) std::swap(shape[from], shape[to]);
  return one(a.tensor("self").dtype, std::move(shape));
}

std::vector<size_t> order_of_moved_axes(const Node& node, size_t rank) {
  const auto &from = *node.arg("source").get<std::vector<Dim>>(),
             &to = *node.arg("destination").get<std::vector<Dim>>();
  std::vector<size_t> order(rank, rank), rest;
  for (size_t i = 0; i < from.size(); ++i) order[axis_at(to[i], rank)] = axis_at(from[i], rank);
  for (size_t axis = 0; axis < rank; ++axis)
    if (std::ranges::find(order, axis) == order.end()) rest.push_back(axis);
  auto next = rest.begin();
  for (size_t& axis : order)
    if (axis == rank) axis = *next++;
  return order;
}

Result<Types> infer_moved_axes(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const size_t rank = self.shape.size();
  if (a.dims("source").size() != a.dims("destination").size())
    return a.fail("destination", "expected a place for each axis of source");
  for (std::string_view name : {"source", "destination"}) QCG_CHECK(a.axes(name, rank));
  Shape shape;
  if (a.dims("source").empty() || rank == 0) return one(self.dtype, self.shape);
  for (const size_t axis : order_of_moved_axes(a.node, rank)) shape.push_back(self.shape[axis]);
  return one(self.dtype, std::move(shape));
}

// A list is a row, and a matrix a stack of depth 1.
Result<Types> infer_at_least(const OpArgs& a) {
  Shape shape = a.tensor("self").shape;
  const auto rank = static_cast<size_t>(a.node.op->name[a.node.op->name.find_first_of("123")] - '0');
  if (shape.empty()) shape.emplace_back(1);
  if (shape.size() < rank && shape.size() == 1) shape.insert(shape.begin(), Dim(1));
  if (shape.size() < rank) shape.emplace_back(1);
  return one(a.tensor("self").dtype, std::move(shape));
}

// Numbers and lists are matrices of one row.
Result<Types> infer_block_diag(const OpArgs& a) {
  Promotion dtype;
  Dim rows(0), columns(0);
  if (a.tensors("tensors").empty()) return a.fail("tensors", "no blocks");
  for (ValueId id : a.tensors("tensors")) {
    const Value& block = a.graph.value(id);
    if (block.shape.size() > 2) return a.fail("tensors", "expected matrices, got " + describe(block));
    dtype.add(block);
    rows = rows + (block.shape.size() == 2 ? block.shape[0] : Dim(1));
    columns = columns + (block.shape.empty() ? Dim(1) : block.shape.back());
  }
  return one(dtype.result(), {rows, columns});
}

Result<Types> infer_cartesian_product(const OpArgs& a) {
  const auto& ids = a.tensors("tensors");
  if (ids.empty()) return a.fail("tensors", "a product of nothing");
  Dim rows(1);
  for (ValueId id : ids) {
    const Value& list = a.graph.value(id);
    if (list.shape.size() != 1 || list.dtype != a.graph.value(ids[0]).dtype)
      return a.fail("tensors", "expected lists of one dtype, got " + describe(list));
    rows = rows * list.shape[0];
  }
  Shape shape = {rows};
  if (ids.size() > 1) shape.emplace_back(static_cast<int64_t>(ids.size()));
  return one(a.graph.value(ids[0]).dtype, std::move(shape));
}

std::vector<int64_t> combinations_of(int64_t n, int64_t r, bool repeated) {
  std::vector<int64_t> out, at;
  for (int64_t i = 0; i < r; ++i) at.push_back(repeated ? 0 : i);
  while (n > 0 && (repeated || r <= n)) {
    out.insert(out.end(), at.begin(), at.end());
    int64_t place = r - 1;  // the last that may ascend
    while (place >= 0 && at[place] == (repeated ? n - 1 : n - r + place)) --place;
    if (place < 0) break;
    const int64_t next = at[place] + 1;
    for (int64_t i = place; i < r; ++i) at[i] = repeated ? next : next + i - place;
  }
  return out;
}

Result<Types> infer_combinations(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.size() != 1) return a.fail("self", "expected a list, got " + describe(self));
  if (!self.shape[0].is_constant())
    return a.unsupported("self", "choices of a list whose size is known only at run time",
                         "export with a constant size");
  QCG_TRY(r, a.constant("r"));
  const bool repeated = a.boolean("with_replacement");
  constexpr int64_t kMost = 1 << 20;
  if (r < 1) return a.fail("r", "expected at least 1");
  if (r > kMost) return a.unsupported("r", "more than 2^20 numbers", "choose fewer at a time");
  const int64_t n = self.shape[0].constant(), from = repeated ? n + r - 1 : n;
  int64_t count = from < r || n == 0 ? 0 : 1;
  for (int64_t i = 1; i <= std::min(r, from - r) && count > 0; ++i) {
    count = count * (from - i + 1) / i;
    if (count > kMost) return a.unsupported("self", "more than 2^20 choices", "choose from a shorter list");
  }
  if (count * r > kMost) return a.unsupported("self", "more than 2^20 numbers", "choose from a shorter list");
  return one(self.dtype, {Dim(count), Dim(r)});
}

std::optional<Diagonal> diagonal_of(const Dim& rows, const Dim& columns, int64_t offset,
                                    std::span<const Symbol> symbols) {
  Diagonal out{std::max<int64_t>(-offset, 0), std::max<int64_t>(offset, 0), Dim(0)};
  const Dim below = rows - Dim(out.row), right = columns - Dim(out.column);
  const DimRange apart = range_of(below - right, symbols);
  if (apart.min < 0 && apart.max > 0) return std::nullopt;
  out.size = apart.max <= 0 ? below : right;
  if (range_of(out.size, symbols).min < 0) return std::nullopt;
  return out;
}

Result<Types> infer_diagonal_scatter(const OpArgs& a) {
  const Value &self = a.tensor("self"), &src = a.tensor("src");
  QCG_TRY(rows, a.axis("dim1", self.shape.size()));
  QCG_TRY(columns, a.axis("dim2", self.shape.size()));
  QCG_TRY(offset, a.constant("offset"));
  if (rows == columns || self.shape.size() < 2) return a.fail("dim2", "expected another axis than dim1");
  if (is_beyond(offset, kMostOffset)) return a.fail("offset", "it is beyond the matrix");
  const auto diagonal = diagonal_of(self.shape[rows], self.shape[columns], offset, a.graph.symbols);
  if (!diagonal)
    return a.unsupported("self", "the length of this diagonal is not known", "export with constant sizes here");
  Shape shape;
  for (size_t i = 0; i < self.shape.size(); ++i)
    if (i != rows && i != columns) shape.push_back(self.shape[i]);
  shape.push_back(diagonal->size);
  if (src.shape != shape || src.dtype != self.dtype)
    return a.fail("src", fmt::format("expected {}{}, got {}", dtype_name(self.dtype), to_string(shape), describe(src)));
  return one(self.dtype, self.shape);
}

// What broadcasting had repeated is added up.
Result<Types> infer_sum_to_size(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const std::vector<Dim> size = a.dims("size");
  const auto back = broadcast(self.shape, Shape(size.begin(), size.end()));
  if (!back || *back != self.shape)
    return a.fail(
        "size", fmt::format("{} does not broadcast to {}", to_string(Shape(size.begin(), size.end())), describe(self)));
  return one(self.dtype, Shape(size.begin(), size.end()));
}

Result<Types> infer_sorted_rows(const OpArgs& a) { return one(a.tensor("self").dtype, a.tensor("self").shape); }

}  // namespace qcg
