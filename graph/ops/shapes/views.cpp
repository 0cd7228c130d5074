// Shape rules of the ops that move or keep elements: views, casts, copies, concatenation.
#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/ops/rows_views.h"

namespace qcg {

Result<Types> infer_same(const OpArgs& a) {
  const Value& v = a.graph.value(*a.node.args[0].get<ValueId>());
  return one(v.dtype, v.shape);
}

Result<Types> infer_cast(const OpArgs& a) {
  const Value& self = a.tensor("self");
  return one(a.dtype("dtype").value_or(self.dtype), self.shape);
}

Result<Types> infer_convert_element_type(const OpArgs& a) { return one(*a.dtype("dtype"), a.tensor("a").shape); }

Result<Types> infer_type_as(const OpArgs& a) { return one(a.tensor("other").dtype, a.tensor("self").shape); }

Result<Types> infer_dropout(const OpArgs& a) {
  if (a.boolean("train"))
    return a.unsupported("train", "dropout in training mode is random", "call model.eval() before export");
  return infer_same(a);
}

Result<Types> infer_nothing(const OpArgs&) { return Types{}; }

// `sizes` with its -1, if any, resolved so that the product is `total`.
static Result<Shape> resolve_sizes(const OpArgs& a, std::string_view arg, Shape sizes, const Dim& total) {
  Dim known = 1;
  Dim* open = nullptr;
  for (Dim& d : sizes) {
    if (!d.is_constant(-1)) {
      known = known * d;
    } else if (open) {
      return a.fail(arg, "more than one -1");
    } else {
      open = &d;
    }
  }
  if (open) {
    auto rest = total.divide_exactly(known);
    if (!rest) return a.fail(arg, fmt::format("{} elements do not divide into {}", total.str(), to_string(sizes)));
    *open = *rest;
  } else if (!(known == total)) {
    return a.fail(arg, fmt::format("{} elements do not fit the shape {}", total.str(), to_string(sizes)));
  }
  return sizes;
}

Result<Types> infer_reshape(const OpArgs& a) {
  const Value& self = a.tensor("self");
  std::string_view arg = a.node.op->args[1].name;  // shape or size
  QCG_TRY(shape, resolve_sizes(a, arg, a.dims(arg), product(self.shape)));
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_flatten(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.empty()) return one(self.dtype, {Dim(1)});
  QCG_TRY(begin, a.axis("start_dim", self.shape.size()));
  QCG_TRY(end, a.axis("end_dim", self.shape.size()));
  if (begin > end) return a.fail("end_dim", "the last axis comes before the first");
  Shape shape(self.shape.begin(), self.shape.begin() + begin);
  shape.push_back(product(Shape(self.shape.begin() + begin, self.shape.begin() + end + 1)));
  shape.insert(shape.end(), self.shape.begin() + end + 1, self.shape.end());
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_unflatten(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.empty()) return a.fail("self", "a tensor without axes cannot be unflattened");
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  QCG_TRY(sizes, resolve_sizes(a, "sizes", a.dims("sizes"), self.shape[axis]));
  Shape shape(self.shape.begin(), self.shape.begin() + axis);
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  shape.insert(shape.end(), self.shape.begin() + axis + 1, self.shape.end());
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_t(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.size() > 2) return a.fail("self", fmt::format("t takes at most 2 axes, not {}", self.shape.size()));
  return one(self.dtype, Shape(self.shape.rbegin(), self.shape.rend()));
}

Result<Types> infer_reverse(const OpArgs& a) {
  const Value& self = a.tensor("self");
  return one(self.dtype, Shape(self.shape.rbegin(), self.shape.rend()));
}

Result<Types> infer_last_two(const OpArgs& a) {
  const Value& self = a.tensor("self");
  Shape shape = self.shape;
  if (shape.size() < 2) return a.fail("self", "a matrix has two axes, got " + describe(self));
  std::swap(shape.back(), shape[shape.size() - 2]);
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_transpose(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const bool axes = has_arg(a, "axis0");
  QCG_TRY(d0, a.axis(axes ? "axis0" : "dim0", self.shape.size()));
  QCG_TRY(d1, a.axis(axes ? "axis1" : "dim1", self.shape.size()));
  Shape shape = self.shape;
  if (!shape.empty()) std::swap(shape[d0], shape[d1]);
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_permute(const OpArgs& a) {
  const Value& self = a.tensor("self");
  std::vector<Dim> dims = a.dims("dims");
  if (dims.size() != self.shape.size())
    return a.fail("dims", fmt::format("{} axes for a tensor of rank {}", dims.size(), self.shape.size()));
  auto distinct = a.axes("dims", self.shape.size());
  if (!distinct.ok()) return std::move(distinct.error());
  Shape shape;
  for (const Dim& d : dims) {
    QCG_TRY(axis, a.axis("dims", d, self.shape.size()));
    shape.push_back(self.shape[axis]);
  }
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_squeeze(const OpArgs& a) {
  const Value& self = a.tensor("self");
  std::vector<size_t> axes(self.shape.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  if (a.node.op->arg_index("dim") >= 0) {
    const Dim* single = a.node.arg("dim").get<Dim>();
    std::vector<Dim> dims = single ? std::vector<Dim>{*single} : a.dims("dim");
    axes.clear();
    for (const Dim& d : dims) {
      QCG_TRY(axis, a.axis("dim", d, self.shape.size()));
      axes.push_back(axis);
    }
  }
  Shape shape;
  for (size_t i = 0; i < self.shape.size(); ++i)
    if (!std::count(axes.begin(), axes.end(), i) || !self.shape[i].is_constant(1)) shape.push_back(self.shape[i]);
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_unsqueeze(const OpArgs& a) {
  const Value& self = a.tensor("self");
  QCG_TRY(axis, a.axis("dim", self.shape.size() + 1));
  Shape shape = self.shape;
  shape.insert(shape.begin() + axis, Dim(1));
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_expand_as(const OpArgs& a) {
  const Shape &from = a.tensor("self").shape, &to = a.tensor("other").shape;
  if (auto both = broadcast(from, to); !both || *both != to)
    return a.fail("other", fmt::format("{} cannot expand to {}", to_string(from), to_string(to)));
  return one(a.tensor("self").dtype, to);
}

Result<Types> infer_reshape_as(const OpArgs& a) {
  const Value &self = a.tensor("self"), &other = a.tensor("other");
  if (product(self.shape) != product(other.shape))
    return a.fail("other", fmt::format("{} and {} differ in elements", describe(self), describe(other)));
  return one(self.dtype, other.shape);
}

Result<Types> infer_expand(const OpArgs& a) {
  const Value& self = a.tensor("self");
  Shape shape = a.dims("size");
  if (shape.size() < self.shape.size()) return a.fail("size", "fewer sizes than the tensor has axes");
  size_t lead = shape.size() - self.shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i < lead && shape[i].is_constant(-1)) return a.fail("size", "-1 on an axis that the tensor does not have");
    if (i < lead) continue;
    const Dim& from = self.shape[i - lead];
    if (shape[i].is_constant(-1)) shape[i] = from;
    else if (!(shape[i] == from) && !from.is_constant(1))
      return a.fail("size", fmt::format("{} cannot expand to {}", from.str(), shape[i].str()));
  }
  return one(self.dtype, std::move(shape));
}

// Missing repeats of leading axes are 1 for tile, and an error for repeat.
Result<Types> infer_repeat(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const std::string_view arg = a.node.op->arg_index("dims") >= 0 ? "dims" : "repeats";
  Shape shape = a.dims(arg), from = self.shape;
  if (arg == "repeats" && shape.size() < from.size()) return a.fail(arg, "fewer repeats than the tensor has axes");
  const size_t rank = std::max(shape.size(), from.size());
  shape.insert(shape.begin(), rank - shape.size(), Dim(1));
  from.insert(from.begin(), rank - from.size(), Dim(1));
  for (size_t i = 0; i < rank; ++i) {
    if (shape[i].is_constant() && shape[i].constant() < 0) return a.fail(arg, "a negative number of repeats");
    shape[i] = shape[i] * from[i];
  }
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_repeat_interleave(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const Dim* repeats = a.node.arg("repeats").get<Dim>();
  if (!repeats || !is_at_least_0(*repeats, a.graph))
    return a.fail("repeats", "expected a number that is not negative", "export with a range without negative numbers");
  if (a.node.arg("dim").is_none()) return one(self.dtype, {product(self.shape) * *repeats});
  if (self.shape.empty()) return a.fail("dim", "the tensor has no axes");
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  Shape shape = self.shape;
  shape[axis] = shape[axis] * *repeats;
  return one(self.dtype, std::move(shape));
}

static Result<Dim> clamped(const OpArgs& a, std::string_view arg, const Dim& index, const Dim& size) {
  if (auto at = clamp_index(index, size, a.graph)) return std::move(*at);
  return a.unsupported(arg,
                       fmt::format("whether {} counts from the end of an axis of size {} is known only at run time",
                                   index.str(), size.str()),
                       "export with a size that is not negative");
}

Result<Types> infer_slice(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.empty()) return a.fail("self", "a tensor without axes cannot be sliced");
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  QCG_TRY(step, a.constant("step"));
  if (step < 1) return a.fail("step", "steps are positive");
  const Dim& size = self.shape[axis];
  const Dim* start = a.node.arg("start").get<Dim>();
  const Dim* end = a.node.arg("end").get<Dim>();
  QCG_TRY(from, clamped(a, "start", start ? *start : Dim(0), size));
  QCG_TRY(to, clamped(a, "end", end ? *end : size, size));
  Dim length = to - from;
  if (range_of(length, a.graph.symbols).max <= 0) length = 0;
  else if (!is_at_least_0(length, a.graph)) length = Dim::larger(length, 0);
  if (step > 1) length = Dim::floor_divide(length + Dim(step - 1), Dim(step));
  Shape shape = self.shape;
  shape[axis] = length;
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_select(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.empty()) return a.fail("self", "a tensor without axes has nothing to select");
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  const Dim& size = self.shape[axis];
  Dim index = a.dim("index");
  if (index.is_constant() && index.constant() < 0) index = size + index;
  if (!is_at_least_0(index, a.graph) || !is_at_least_0(size - index - Dim(1), a.graph)) {
    std::string message = fmt::format("{} is not surely inside an axis of size {}", index.str(), size.str());
    if (index.is_constant() && size.is_constant()) return a.fail("index", std::move(message));
    return a.unsupported("index", std::move(message), "export with a range for which the index lies inside the axis");
  }
  Shape shape = self.shape;
  shape.erase(shape.begin() + axis);
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_narrow(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.empty()) return a.fail("self", "a tensor without axes cannot be narrowed");
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  const Dim& size = self.shape[axis];
  Dim start = a.dim("start");
  if (start.is_constant() && start.constant() < 0) start = size + start;
  Dim length = a.dim("length");
  if (!is_at_least_0(start, a.graph) || !is_at_least_0(length, a.graph) ||
      !is_at_least_0(size - start - length, a.graph))
    return a.fail("length", fmt::format("{} elements from {} are not surely inside an axis of size {}", length.str(),
                                        start.str(), size.str()));
  Shape shape = self.shape;
  shape[axis] = length;
  return one(self.dtype, std::move(shape));
}

static Result<Types> split_into(const Value& self, size_t axis, const std::vector<Dim>& sizes) {
  Types types;
  for (const Dim& size : sizes) {
    types.push_back({self.dtype, self.shape});
    types.back().shape[axis] = size;
  }
  return types;
}

constexpr int64_t kMaxParts = 1 << 16;

// Parts of `step` elements; the last one may be smaller.
static Result<Types> split_evenly(const OpArgs& a, std::string_view arg, size_t axis, int64_t step) {
  const Value& self = a.tensor("self");
  int64_t size = self.shape[axis].constant();
  if (step < 0 || (step == 0 && size != 0) || (step > 0 && size / step > kMaxParts))
    return a.fail(arg, "not a usable size of parts");
  std::vector<Dim> sizes;
  for (int64_t begin = 0; begin < size; begin += std::min(step, size - begin))
    sizes.emplace_back(std::min(step, size - begin));
  if (sizes.empty()) sizes.emplace_back(0);
  return split_into(self, axis, sizes);
}

static Result<size_t> split_axis(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.empty()) return a.fail("self", "a tensor without axes cannot be split");
  return a.axis("dim", self.shape.size());
}

static Error dynamic_axis(const OpArgs& a, const Dim& size) {
  return a.unsupported("dim", fmt::format("the axis of size {} is dynamic", size.str()),
                       "split along an axis of constant size, or into parts of equal size");
}

// `count` parts of `step` elements, the size being that often the step whatever its symbols are.
static Result<Types> split_equally(const OpArgs& a, size_t axis, int64_t count, const Dim& step) {
  const Value& self = a.tensor("self");
  if (count < 1 || count > kMaxParts || range_of(step, a.graph.symbols).min < 1)
    return dynamic_axis(a, self.shape[axis]);
  return split_into(self, axis, std::vector<Dim>(static_cast<size_t>(count), step));
}

Result<Types> infer_split(const OpArgs& a) {
  QCG_TRY(axis, split_axis(a));
  const Dim &size = a.tensor("self").shape[axis], step = a.dim("split_size");
  if (size.is_constant() && step.is_constant()) return split_evenly(a, "split_size", axis, step.constant());
  const auto count = size.divide_exactly(step);
  return split_equally(a, axis, count && count->is_constant() ? count->constant() : 0, step);
}

Result<Types> infer_chunk(const OpArgs& a) {
  QCG_TRY(axis, split_axis(a));
  QCG_TRY(chunks, a.constant("chunks"));
  if (chunks < 1) return a.fail("chunks", "at least one chunk");
  const Dim& size = a.tensor("self").shape[axis];
  if (size.is_constant())
    return split_evenly(a, "chunks", axis, size.is_constant(0) ? 0 : (size.constant() - 1) / chunks + 1);
  const auto step = size.divide_exactly(Dim(chunks));
  return split_equally(a, axis, step ? chunks : 0, step.value_or(Dim(0)));
}

// One part without that axis per element of it.
Result<Types> infer_unbind(const OpArgs& a) {
  QCG_TRY(axis, split_axis(a));
  const Value& self = a.tensor("self");
  if (!self.shape[axis].is_constant()) return dynamic_axis(a, self.shape[axis]);
  if (self.shape[axis].constant() > kMaxParts) return a.fail("dim", "too many parts");
  Shape shape = self.shape;
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
  return Types(static_cast<size_t>(self.shape[axis].constant()), {self.dtype, shape});
}

Result<Types> infer_split_with_sizes(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.empty()) return a.fail("self", "a tensor without axes cannot be split");
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  std::vector<Dim> sizes = a.dims("split_sizes");
  Dim sum;
  for (const Dim& d : sizes) {
    if (range_of(d, a.graph.symbols).min < 0) return a.fail("split_sizes", "a size may be negative");
    sum = sum + d;
  }
  if (!(sum == self.shape[axis]))
    return a.fail("split_sizes", fmt::format("they add up to {}, the axis has {}", sum.str(), self.shape[axis].str()));
  return split_into(self, axis, sizes);
}

Result<Types> infer_stack(const OpArgs& a) {
  const auto& ids = a.tensors("tensors");
  if (ids.empty()) return a.fail("tensors", "nothing to stack");
  Promotion dtype;
  Shape shape = a.graph.value(ids[0]).shape;
  for (ValueId id : ids) {
    const Value& v = a.graph.value(id);
    dtype.add(v);
    if (v.shape != shape) return a.fail("tensors", fmt::format("{} is not of shape {}", describe(v), to_string(shape)));
  }
  QCG_TRY(axis, a.axis("dim", shape.size() + 1));
  shape.insert(shape.begin() + static_cast<int64_t>(axis), Dim(static_cast<int64_t>(ids.size())));
  DType result = dtype.result();
  if (!dtype.defined) return a.unsupported("tensors", "these dtypes have no common one", "cast before stacking");
  return one(result, std::move(shape));
}

Result<Types> infer_cat(const OpArgs& a) {
  const auto& ids = a.tensors("tensors");
  if (ids.empty()) return a.fail("tensors", "nothing to concatenate");
  Promotion dtype;
  const Value* first = nullptr;
  Shape shape;
  size_t axis = 0;
  for (ValueId id : ids) {
    const Value& v = a.graph.value(id);
    dtype.add(v);
    if (v.shape.size() == 1 && v.shape[0].is_constant(0)) continue;  // torch lets an empty list join anything
    if (!first) {
      first = &v;
      shape = v.shape;
      if (shape.empty()) return a.fail("tensors", "a tensor without axes cannot be concatenated");
      QCG_TRY(at, a.axis("dim", shape.size()));
      axis = at;
      continue;
    }
    bool fits = v.shape.size() == shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) fits = i == axis || v.shape[i] == shape[i];
    if (!fits)
      return a.fail("tensors", fmt::format("{} does not continue {}", to_string(v.shape), to_string(first->shape)));
    shape[axis] = shape[axis] + v.shape[axis];
  }
  DType result = dtype.result();
  if (!dtype.defined) return a.unsupported("tensors", "these dtypes have no common one", "cast before concatenating");
  return one(result, first ? shape : Shape{Dim(0)});
}

// tensor_cast's does not convert.
Result<Types> infer_cat_of_one_dtype(const OpArgs& a) {
  for (ValueId id : a.tensors("tensors"))
    if (const Value& v = a.graph.value(id), &first = a.graph.value(a.tensors("tensors")[0]); v.dtype != first.dtype)
      return a.fail("tensors", fmt::format("expected the same dtype everywhere, got {} and {}", dtype_name(first.dtype),
                                           dtype_name(v.dtype)));
  return infer_cat(a);
}

Result<Types> infer_sym_size(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.empty()) return a.fail("self", "a tensor without axes has no sizes");
  auto axis = a.axis("dim", self.shape.size());
  if (!axis.ok()) return std::move(axis.error());
  return one(DType::i64, {});
}

}  // namespace qcg
