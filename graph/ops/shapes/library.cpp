// Shape and dtype rules of ops of torch's library that are other ops, put together: norms, distances, patches, orders.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/ops/rows_library.h"

namespace qcg {

std::optional<double> order_of_norm(const Node& norm) {
  constexpr double kOfSquares = 2;
  for (std::string_view name : {"ord", "p"}) {
    if (norm.op->arg_index(name) < 0) continue;
    const Arg& order = norm.arg(name);
    if (const auto* word = order.get<std::string>()) return *word == "fro" ? std::optional(kOfSquares) : std::nullopt;
    return order.is_none() ? kOfSquares : as_number(order);
  }
  return kOfSquares;
}

namespace {

// A norm of an axis that has no elements, or of the whole of none, has a value; an element of none has not.
Status need_elements(const OpArgs& a, const Dim& size) {
  if (range_of(size, a.graph.symbols).min >= 1) return {};
  return a.fail("self", fmt::format("an axis of {} may have no elements", size.str()),
                "export with a smallest size of 1 (torch.export.Dim(min=1))");
}

}  // namespace

Result<Types> infer_norm_of_axes(const OpArgs& a) {
  const auto order = order_of_norm(a.node);
  if (!order) return a.unsupported("ord", "a norm that is neither a number nor 'fro'", "write it with its own sums");
  const Value& self = a.tensor("self");
  if (a.node.op->name == "aten.linalg_norm.default" && !a.node.arg("ord").is_none()) {
    QCG_TRY(axes, a.axes("dim", self.shape.size()));
    if (axes.size() == 2)
      return a.unsupported("ord", "the norm of a matrix that an order names", "use torch.linalg.vector_norm");
  }
  const auto asked = has_arg(a, "dtype") ? a.dtype("dtype") : std::nullopt;
  if (!asked) QCG_CHECK(need_float(a, "self"));
  if (asked && !is_floating(*asked)) return a.fail("dtype", "expected a floating dtype");
  QCG_TRY(shape, reduced_shape(a));
  return one(asked.value_or(self.dtype), std::move(shape));
}

static Result<PromotedOperands> promote_sides(const OpArgs& a) {
  QCG_CHECK(need_float(a, "x1"));
  QCG_CHECK(need_float(a, "x2"));
  return promote_operands(a, {"x1", "x2"});
}

Result<Types> infer_cosine_similarity(const OpArgs& a) {
  QCG_TRY(both, promote_sides(a));
  QCG_TRY(axis, a.axis("dim", both.shape.size()));
  if (both.shape.empty()) return a.fail("x1", "numbers have no direction");
  both.shape.erase(both.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return one(both.dtype.result(), std::move(both.shape));
}

Result<Types> infer_pairwise_distance(const OpArgs& a) {
  QCG_TRY(both, promote_sides(a));
  if (both.shape.empty()) return a.fail("x1", "expected rows, got numbers");
  if (a.boolean("keepdim")) both.shape.back() = Dim(1);
  else both.shape.pop_back();
  return one(both.dtype.result(), std::move(both.shape));
}

// Distances of each row of x1 from each row of x2.
Result<Types> infer_distances(const OpArgs& a) {
  QCG_CHECK(need_float(a, "x1"));
  const Value &x = a.tensor("x1"), &y = a.tensor("x2");
  if (x.dtype != y.dtype || x.shape.size() < 2 || y.shape.size() < 2)
    return a.fail("x2", fmt::format("{} and {} are not rows of one dtype", describe(y), describe(x)));
  QCG_CHECK(same_k(a, "x2", x.shape.back(), y.shape.back()));
  const auto lead = broadcast(Shape(x.shape.begin(), x.shape.end() - 2), Shape(y.shape.begin(), y.shape.end() - 2));
  if (!lead) return a.fail("x2", fmt::format("the batches of {} and {} do not broadcast", describe(x), describe(y)));
  Shape shape = *lead;
  shape.insert(shape.end(), {x.shape[x.shape.size() - 2], y.shape[y.shape.size() - 2]});
  return one(x.dtype, std::move(shape));
}

Result<std::vector<PatchAxis>> patch_axes(const OpArgs& a) {
  const bool sums = has_arg(a, "output_size");
  const Shape& shape = a.tensor("self").shape;
  std::vector<PatchAxis> axes(2);
  for (size_t i = 0; i < axes.size(); ++i) {
    PatchAxis& axis = axes[i];
    for (const auto& [name, to, least] : {std::tuple{"kernel_size", &axis.kernel, 1},
                                          {"dilation", &axis.dilation, 1},
                                          {"padding", &axis.padding, 0},
                                          {"stride", &axis.stride, 1}}) {
      const std::vector<Dim> given = a.dims(name);
      constexpr int64_t kMost = 1 << 20;
      if (given.size() != 2 || !given[i].is_constant() || given[i].constant() < least || given[i].constant() > kMost)
        return a.fail(name, fmt::format("expected two numbers of at least {}", least));
      *to = given[i].constant();
    }
    if (sums && a.dims("output_size").size() != 2) return a.fail("output_size", "expected two sizes");
    axis.size = sums ? a.dims("output_size")[i] : shape[shape.size() - 2 + i];
    const Dim room = axis.size + Dim(2 * axis.padding - axis.reach());
    if (range_of(room, a.graph.symbols).min < 0)
      return a.fail("kernel_size", fmt::format("a kernel of {} may be larger than the axis of {} with its padding",
                                               axis.reach(), axis.size.str()));
    axis.count = Dim::floor_divide(room, Dim(axis.stride)) + Dim(1);
  }
  return axes;
}

// [batch, C, H, W], or without a batch, to [batch, C * kernel, places].
Result<Types> infer_patches(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.size() != 3 && self.shape.size() != 4)
    return a.fail("self", "expected channels of images, got " + describe(self));
  QCG_TRY(axes, patch_axes(a));
  Shape shape(self.shape.begin(), self.shape.end() - 2);
  shape.back() = shape.back() * Dim(axes[0].kernel * axes[1].kernel);
  shape.push_back(axes[0].count * axes[1].count);
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_patch_sums(const OpArgs& a) {
  const Value& self = a.tensor("self");
  QCG_CHECK(need_float(a, "self"));
  if (self.shape.size() != 2 && self.shape.size() != 3)
    return a.fail("self", "expected patches as columns, got " + describe(self));
  QCG_TRY(axes, patch_axes(a));
  Shape shape(self.shape.begin(), self.shape.end() - 1);
  const auto channels = shape.back().divide_exactly(Dim(axes[0].kernel * axes[1].kernel));
  if (!channels || !(self.shape.back() == axes[0].count * axes[1].count))
    return a.fail("self", fmt::format("{} does not hold the patches of {} by {}", describe(self), axes[0].size.str(),
                                      axes[1].size.str()));
  shape.back() = *channels;
  shape.insert(shape.end(), {axes[0].size, axes[1].size});
  return one(self.dtype, std::move(shape));
}

// Elements [batch, C, axes…], or without a batch, at positions of larger axes.
Result<Types> infer_unpool(const OpArgs& a) {
  const Value &self = a.tensor("self"), &indices = a.tensor("indices");
  const std::vector<Dim> sizes = a.dims("output_size");
  const size_t spatial = a.node.op->name.find("3d") == std::string::npos ? 2 : 3, rank = self.shape.size();
  if (rank != spatial + 1 && rank != spatial + 2)
    return a.fail("self", fmt::format("expected channels and {} more axes, got {}", spatial, describe(self)));
  if (indices.dtype != DType::i64 || indices.shape != self.shape)
    return a.fail("indices", fmt::format("{} is no position for each of {}", describe(indices), describe(self)));
  if (sizes.size() != spatial) return a.fail("output_size", fmt::format("expected {} sizes", spatial));
  Shape shape(self.shape.begin(), self.shape.end() - static_cast<std::ptrdiff_t>(spatial));
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  return one(self.dtype, std::move(shape));
}

// The axis `dim`, or all elements where none is given.
static Result<Dim> ordered_size(const OpArgs& a) {
  const Shape& shape = a.tensor("self").shape;
  Dim size = product(shape);
  if (has_arg(a, "dim") && !a.node.arg("dim").is_none()) {
    QCG_TRY(axis, a.axis("dim", shape.size()));
    size = shape.empty() ? Dim(1) : shape[axis];
  }
  QCG_CHECK(need_elements(a, size));
  return size;
}

Result<Types> infer_median(const OpArgs& a) {
  QCG_CHECK(ordered_size(a));
  QCG_TRY(shape, shape_without_axis(a));
  Types types = one(a.tensor("self").dtype, shape);
  if (has_arg(a, "dim")) types.push_back({DType::i64, shape});
  return types;
}

Result<Types> infer_kth_value(const OpArgs& a) {
  QCG_TRY(size, ordered_size(a));
  const Dim& k = a.dim("k");
  if (range_of(k, a.graph.symbols).min < 1 || range_of(size - k, a.graph.symbols).min < 0)
    return a.fail("k", fmt::format("{} is not surely one of {} places", k.str(), size.str()));
  QCG_TRY(shape, shape_without_axis(a));
  return Types{{a.tensor("self").dtype, shape}, {DType::i64, shape}};
}

Result<Types> infer_quantile(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  QCG_CHECK(ordered_size(a));
  if (a.string("interpolation") != "linear")
    return a.unsupported("interpolation", "quantiles that are not interpolated linearly", "use 'linear'");
  QCG_TRY(shape, shape_without_axis(a));
  if (a.node.arg("q").get<ValueId>()) {
    const Value& q = a.tensor("q");
    if (q.dtype != a.tensor("self").dtype || q.shape.size() > 1)
      return a.fail("q", fmt::format("{} is no list of places in {}", describe(q), describe(a.tensor("self"))));
    shape.insert(shape.begin(), q.shape.begin(), q.shape.end());
  } else if (const auto q = as_number(a.node.arg("q")); !q || !(*q >= 0 && *q <= 1)) {
    return a.fail("q", "expected a number from 0 to 1");
  }
  return one(a.tensor("self").dtype, std::move(shape));
}

// One sequence for all elements, or one for each row of them.
Result<Types> infer_searchsorted(const OpArgs& a) {
  const Value &sequence = a.tensor("sorted_sequence"), &self = a.tensor("self");
  if (a.optional_tensor("sorter"))
    return a.unsupported("sorter", "a sequence that is not in order", "sort it, or gather it with the sorter, before");
  const auto* side = a.node.arg("side").get<std::string>();
  if (side && *side != "left" && *side != "right") return a.fail("side", "expected 'left' or 'right'");
  if (side && *side == "left" && a.boolean("right")) return a.fail("side", "right = true says the opposite");
  Shape own = sequence.shape, rows = self.shape;
  if (own.size() != 1) {
    if (!own.empty() && own.size() == rows.size()) own.back() = rows.back() = Dim(0);
    if (own != rows)
      return a.fail("sorted_sequence",
                    fmt::format("{} is not one list, nor one per row of {}", describe(sequence), describe(self)));
  }
  return one(a.boolean("out_int32") ? DType::i32 : DType::i64, self.shape);
}

}  // namespace qcg
