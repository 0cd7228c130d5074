// Shape and dtype rules of the ops that weights packed by hand are unpacked with: bit operations, whole quotients,
// look-ups, ranges. They are of integers unless it says otherwise, and promote as torch does.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/ops/rows_constant.h"
#include "graph/ops/rows_pointwise.h"
#include "graph/ops/rows_views.h"

namespace qcg {

Result<Types> infer_integers(const OpArgs& a) {
  const bool binary = a.node.op->arg_index("other") >= 0;
  auto p = binary ? promote_operands(a, {"self", "other"}) : promote_operands(a, {"self"});
  if (!p.ok()) return std::move(p.error());
  const DType dtype = p->dtype.result();
  if (!p->dtype.defined) return a.unsupported("self", "these dtypes have no common one", "cast the operands first");
  if (is_floating(dtype))
    return a.unsupported("self", "expected integers, got " + describe(a.tensor("self")),
                         "cast them to integers before");
  return one(dtype, std::move(p->shape));
}

// Integers, but no truth values.
Result<Types> infer_numbers(const OpArgs& a) {
  QCG_TRY(types, infer_integers(a));
  if (types[0].dtype == DType::boolean)
    return a.unsupported("self", "expected integers, got bool", "cast to integers before it");
  return types;
}

// Takes floats, too.
Result<Types> infer_remainder(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  if (p.dtype.defined && is_floating(p.dtype.result())) return one(p.dtype.result(), std::move(p.shape));
  return infer_numbers(a);
}

Result<Types> infer_quotient(const OpArgs& a) {
  const std::string* mode = a.node.arg("rounding_mode").get<std::string>();
  if (!mode || (*mode != "floor" && *mode != "trunc"))
    return a.unsupported("rounding_mode", "expected 'floor' or 'trunc'", "divide without a rounding mode");
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  if (p.dtype.defined && is_floating(p.dtype.result())) return one(p.dtype.result(), std::move(p.shape));
  return infer_numbers(a);
}

Result<Types> infer_exp2(const OpArgs& a) {
  const Value& self = a.tensor("self");
  return one(is_floating(self.dtype) ? self.dtype : DType::f32, self.shape);
}

Result<Types> infer_power_of(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "exponent"}));
  const DType dtype = p.dtype.result();
  if (!p.dtype.defined || dtype == DType::boolean)
    return a.unsupported("exponent", "no power of " + describe(a.tensor("exponent")), "cast to integers or f32 first");
  return one(dtype, std::move(p.shape));
}

// self * 2^other. Before 2.15 torch multiplied by pow(2.0, other), a float whatever the exponent was: both are taken.
Result<Types> infer_ldexp(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  DType dtype = p.dtype.result();
  if (!p.dtype.defined) return a.unsupported("self", "these dtypes have no common one", "cast the operands first");
  if (!is_floating(dtype)) dtype = DType::f32;
  const bool declared_f32 = !a.node.outputs.empty() && a.graph.value(a.node.outputs[0]).dtype == DType::f32;
  if (declared_f32 && !is_floating(a.tensor("other").dtype) && dtype != DType::f64) dtype = DType::f32;
  return one(dtype, std::move(p.shape));
}

// ---- look-ups

static Status check_index(const OpArgs& a, std::string_view arg, const Value& index) {
  if (index.dtype == DType::i32 || index.dtype == DType::i64) return {};
  return a.unsupported(
      arg, "expected an index of i32 or i64, got " + describe(index),
      "instead of a mask, pass the positions that are true, computed before the export; cast other integers");
}

Result<Types> infer_index(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const auto& ids = a.tensors("indices");
  if (ids.size() > self.shape.size())
    return a.fail("indices", fmt::format("{} indices for {}", ids.size(), describe(self)));
  Shape all, out;
  std::vector<size_t> indexed;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kNoValue) continue;
    const Value& index = a.graph.value(ids[i]);
    QCG_CHECK(check_index(a, "indices", index));
    auto both = broadcast(all, index.shape);
    if (!both) return a.fail("indices", fmt::format("{} does not broadcast with {}", describe(index), to_string(all)));
    all = *both;
    indexed.push_back(i);
  }
  if (indexed.empty()) return a.fail("indices", "no axis is indexed");
  // Where indices stand apart, their axes come first.
  const bool apart = indexed.back() - indexed.front() + 1 != indexed.size();
  for (size_t i = 0; i < self.shape.size(); ++i) {
    if (i == indexed.front() && !apart) out.insert(out.end(), all.begin(), all.end());
    if (!std::count(indexed.begin(), indexed.end(), i)) out.push_back(self.shape[i]);
  }
  if (apart) out.insert(out.begin(), all.begin(), all.end());
  return one(self.dtype, std::move(out));
}

Result<Types> infer_index_select(const OpArgs& a) {
  const Value &self = a.tensor("self"), &index = a.tensor("index");
  QCG_CHECK(check_index(a, "index", index));
  if (index.shape.size() > 1) return a.fail("index", "expected a list, got " + describe(index));
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  Shape shape = self.shape;
  if (!shape.empty()) shape[axis] = product(index.shape);
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_embedding(const OpArgs& a) {
  const Value &weight = a.tensor("weight"), &indices = a.tensor("indices");
  QCG_CHECK(check_index(a, "indices", indices));
  if (weight.shape.size() != 2) return a.fail("weight", "expected a matrix, got " + describe(weight));
  Shape shape = indices.shape;
  shape.push_back(weight.shape[1]);
  return one(weight.dtype, std::move(shape));
}

// The first result; what the others are is a matter of how torch computes it, so they are what they are declared as.
Result<Types> infer_embedding_bag(const OpArgs& a) {
  const Value &weight = a.tensor("weight"), &indices = a.tensor("indices"), &offsets = a.tensor("offsets");
  const Value* factors = a.optional_tensor("per_sample_weights");
  QCG_CHECK(check_index(a, "indices", indices));
  QCG_CHECK(check_index(a, "offsets", offsets));
  if (weight.shape.size() != 2) return a.fail("weight", "expected a matrix, got " + describe(weight));
  if (indices.shape.size() != 1) return a.fail("indices", "expected a list, got " + describe(indices));
  if (offsets.shape.size() != 1) return a.fail("offsets", "expected a list, got " + describe(offsets));
  if (factors && factors->shape != indices.shape)
    return a.fail("per_sample_weights", describe(*factors) + " has not one weight for each of " + describe(indices));
  QCG_TRY(mode, a.constant("mode"));
  if (mode < 0 || mode > 2) return a.fail("mode", "expected 0 (sum), 1 (mean) or 2 (max)");
  if (factors && mode != 0) return a.fail("per_sample_weights", "only sums (mode 0) are weighted");
  Dim bags = offsets.shape[0];
  if (a.boolean("include_last_offset")) bags = bags - Dim(1);
  if (range_of(bags, a.graph.symbols).max < 0)
    return a.fail("offsets", "expected the end of the last bag, got " + describe(offsets));
  Types out = one(weight.dtype, {bags, weight.shape[1]});
  for (size_t i = 1; i < 4; ++i) {
    const Value* declared = i < a.node.outputs.size() ? &a.graph.value(a.node.outputs[i]) : nullptr;
    if (declared && is_floating(declared->dtype)) return a.fail("offsets", "expected integers as the other results");
    out.push_back(declared ? ValueType{declared->dtype, declared->shape} : ValueType{DType::i64, {Dim(0)}});
  }
  return out;
}

Result<Types> infer_gather(const OpArgs& a) {
  const Value &self = a.tensor("self"), &index = a.tensor("index");
  QCG_CHECK(check_index(a, "index", index));
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  bool fits = self.shape.size() == index.shape.size();
  for (size_t i = 0; fits && i < self.shape.size(); ++i)
    fits = i == axis || range_of(self.shape[i] - index.shape[i], a.graph.symbols).min >= 0;
  if (!fits) return a.fail("index", fmt::format("{} reaches beyond {}", describe(index), describe(self)));
  return one(self.dtype, index.shape);
}

// As gather, with all other axes broadcast; without an axis, of both as lists.
Result<Types> infer_take_along(const OpArgs& a) {
  const Value &self = a.tensor("self"), &index = a.tensor("indices");
  QCG_CHECK(check_index(a, "indices", index));
  if (a.node.arg("dim").is_none()) return one(self.dtype, {product(index.shape)});
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  if (self.shape.size() != index.shape.size() || self.shape.empty())
    return a.fail("indices", fmt::format("{} has other axes than {}", describe(index), describe(self)));
  Shape from = self.shape;
  from[axis] = index.shape[axis];
  auto shape = broadcast(from, index.shape);
  if (!shape) return a.fail("indices", fmt::format("{} does not broadcast with {}", describe(index), describe(self)));
  return one(self.dtype, std::move(*shape));
}

Result<Types> infer_take(const OpArgs& a) {
  if (a.tensor("index").dtype != DType::i64)
    return a.fail("index", "expected an index of i64, got " + describe(a.tensor("index")));
  return one(a.tensor("self").dtype, a.tensor("index").shape);
}

// ---- what is made

// One end of a range, or its step: a number, or a size that may be known only at run time.
struct Bound {
  Dim size;  // if it is whole
  bool whole = true;
  double number = 0;  // if it is known
};
static Bound read_bound(const OpArgs& a, std::string_view name, int64_t otherwise) {
  if (a.node.op->arg_index(name) < 0) return {Dim(otherwise), true, static_cast<double>(otherwise)};
  const Arg& arg = a.node.arg(name);
  if (const double* real = arg.get<double>()) return {Dim(0), false, *real};
  const Dim whole = arg.get<bool>() ? Dim(*arg.get<bool>() ? 1 : 0) : a.dim(name);
  return {whole, true, whole.is_constant() ? static_cast<double>(whole.constant()) : 0};
}

static Result<Dim> count_of(const OpArgs& a, const Bound& start, const Bound& end, const Bound& step) {
  if (!(step.number != 0 && std::isfinite(start.number) && std::isfinite(end.number) && std::isfinite(step.number)))
    return a.fail("end", "this range would be infinite");
  const double count = std::ceil((end.number - start.number) / step.number);
  if (!(count >= 0)) return a.fail("end", "the range ends before it begins");
  if (count > 0x1p40) return a.unsupported("end", "the range is too long", "use a shorter one");
  return Dim(static_cast<int64_t>(count));
}

// A bound times a power of 2, where that is whole.
static std::optional<Dim> scaled_bound(const Bound& bound, double scale) {
  if (bound.whole) return bound.size * Dim(static_cast<int64_t>(scale));
  const double scaled = bound.number * scale;
  if (!(std::fabs(scaled) < 0x1p40) || scaled != std::trunc(scaled)) return std::nullopt;
  return Dim(static_cast<int64_t>(scaled));
}

// The count, if all fractions have so few bits that torch's f64 is exact; nullopt: they have more.
static std::optional<Dim> count_of_fractions(const Bound& start, const Bound& end, const Bound& step) {
  for (double scale = 1; scale <= 0x1p20; scale *= 2) {
    const auto from = scaled_bound(start, scale), to = scaled_bound(end, scale), by = scaled_bound(step, scale);
    if (from && to && by && by->is_constant() && !by->is_constant(0))
      return Dim(-1) * Dim::floor_divide(*from - *to, *by);
  }
  return std::nullopt;
}

static Result<Dim> count_at_run_time(const OpArgs& a, const Bound& start, const Bound& end, const Bound& step) {
  const bool whole = start.whole && end.whole && step.whole && step.size.is_constant() && !step.size.is_constant(0);
  Dim count;
  if (whole) {
    const Dim up = step.size + Dim(step.size.constant() > 0 ? -1 : 1);  // quotients are rounded down
    count = Dim::floor_divide(end.size - start.size + up, step.size);
  } else if (const auto of_fractions = count_of_fractions(start, end, step)) {
    count = *of_fractions;
  } else if (start.whole && end.whole && step.whole && range_of(step.size, a.graph.symbols).min > 0) {
    count = Dim::floor_divide(end.size - start.size + step.size - Dim(1), step.size);
  } else {
    return a.unsupported("end", "of a range with a size known only at run time, steps must be numbers of few bits",
                         "export with a range of whole numbers, and scale it");
  }
  if (range_of(count, a.graph.symbols).max < 0) return a.fail("end", "the range ends before it begins");
  return count;
}

Result<Types> infer_arange(const OpArgs& a) {
  const Bound start = read_bound(a, "start", 0), end = read_bound(a, "end", 0), step = read_bound(a, "step", 1);
  const bool whole = start.whole && end.whole && step.whole;
  const DType dtype = a.dtype("dtype").value_or(whole ? DType::i64 : DType::f32);
  if (dtype == DType::boolean || is_float8(dtype)) return a.fail("dtype", "a range cannot have this dtype");
  const bool known = start.size.is_constant() && end.size.is_constant() && step.size.is_constant();
  QCG_TRY(count, known ? count_of(a, start, end, step) : count_at_run_time(a, start, end, step));
  return one(dtype, {count});
}

Result<Types> infer_linspace(const OpArgs& a) {
  for (std::string_view name : {"start", "end"})
    if (!as_number(a.node.arg(name))) return a.unsupported(name, "a number known only at run time", "use arange");
  QCG_TRY(steps, a.constant("steps"));
  const DType dtype = a.dtype("dtype").value_or(DType::f32);
  if (!is_floating(dtype) || is_float8(dtype)) return a.unsupported("dtype", "steps of integers", "use arange");
  constexpr int64_t kMost = int64_t{1} << 32;
  if (steps < 0 || steps > kMost) return a.fail("steps", "expected 0 to 2^32");
  return one(dtype, {Dim(steps)});
}

std::pair<int64_t, int64_t> columns_of_triangle(const Node& indices, int64_t row) {
  const int64_t columns = *as_integer(indices.arg("col")), diagonal = row + *as_integer(indices.arg("offset"));
  if (indices.op->name == "aten.tril_indices.default") return {0, std::clamp<int64_t>(diagonal + 1, 0, columns)};
  return {std::clamp<int64_t>(diagonal, 0, columns), columns};
}

Result<Types> infer_triangle_indices(const OpArgs& a) {
  constexpr int64_t kMost = 1 << 13;
  for (std::string_view name : {"row", "col"}) {
    QCG_TRY(size, a.constant(name));
    if (size < 0 || size > kMost) return a.unsupported(name, "expected 0 to 2^13", "make a mask of two aranges");
  }
  QCG_TRY(offset, a.constant("offset"));
  if (std::abs(offset) > kMost) return a.fail("offset", "it is beyond the matrix");
  int64_t count = 0;
  for (int64_t row = 0; row < *as_integer(a.node.arg("row")); ++row) {
    const auto [first, end] = columns_of_triangle(a.node, row);
    count += end - first;
  }
  return one(a.dtype("dtype").value_or(DType::i64), {Dim(2), Dim(count)});
}

Result<Types> infer_eye(const OpArgs& a) {
  const Dim& rows = a.dim("n");
  return one(a.dtype("dtype").value_or(DType::f32), {rows, a.node.op->arg_index("m") < 0 ? rows : a.dim("m")});
}

Result<Types> infer_view_dtype(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const DType to = *a.dtype("dtype");
  const auto from_bytes = static_cast<int64_t>(dtype_bytes(self.dtype)),
             to_bytes = static_cast<int64_t>(dtype_bytes(to));
  Shape shape = self.shape;
  if (from_bytes == to_bytes) return one(to, std::move(shape));
  if (shape.empty()) return a.fail("dtype", "a tensor without axes cannot be viewed in elements of another size");
  auto count = (shape.back() * Dim(from_bytes)).divide_exactly(Dim(to_bytes));
  if (!count) return a.fail("dtype", fmt::format("{} does not divide rows of {}", dtype_name(to), describe(self)));
  shape.back() = *count;
  return one(to, std::move(shape));
}

Result<Types> infer_empty(const OpArgs& a) { return one(a.dtype("dtype").value_or(DType::f32), a.dims("size")); }

Result<Types> infer_copy(const OpArgs& a) {
  const Value &self = a.tensor("self"), &src = a.tensor("src");
  if (auto both = broadcast(self.shape, src.shape); !both || *both != self.shape)
    return a.fail("src", fmt::format("{} does not fit into {}", describe(src), describe(self)));
  if (is_floating(src.dtype) && !is_floating(self.dtype))
    return a.unsupported("src", fmt::format("{} is rounded into {}", describe(src), describe(self)), "cast before it");
  return one(self.dtype, self.shape);
}

Result<Types> infer_slice_scatter(const OpArgs& a) {
  QCG_TRY(slice, infer_slice(a));
  const Value& src = a.tensor("src");
  if (src.shape != slice[0].shape) {
    std::string message = fmt::format("{} does not fit into {}", describe(src), to_string(slice[0].shape));
    if (std::ranges::all_of(slice[0].shape, [](const Dim& size) { return size.is_constant(); }))
      return a.fail("src", std::move(message));
    return a.unsupported("src", std::move(message), "export with ranges for which the slice lies inside the axis");
  }
  return one(a.tensor("self").dtype, a.tensor("self").shape);
}

// ---- writes at positions

static Status check_written(const OpArgs& a, std::string_view arg) {
  const Value &self = a.tensor("self"), &v = a.tensor(arg);
  if (v.dtype == self.dtype) return {};
  return a.fail(arg, fmt::format("{} is not {}", describe(v), dtype_name(self.dtype)), "cast it");
}

static Status check_summed(const OpArgs& a) {
  const bool named = a.node.op->arg_index("reduce") >= 0;
  if (named && combination_at_positions(a.node).empty())
    return a.fail("reduce", fmt::format("'{}' is not known", a.string("reduce")), "use sum, prod, mean, amax or amin");
  if (combination_at_positions(a.node).empty() || a.tensor("self").dtype != DType::boolean) return {};
  return a.unsupported("self", "truth values combined at positions", "cast to integers before");
}

Result<Types> infer_select_scatter(const OpArgs& a) {
  QCG_TRY(select, infer_select(a));
  const Value& src = a.tensor("src");
  if (src.shape != select[0].shape)
    return a.fail("src", fmt::format("{} does not fit into {}", describe(src), to_string(select[0].shape)));
  return one(a.tensor("self").dtype, a.tensor("self").shape);
}

Result<Types> infer_index_copy(const OpArgs& a) {
  const Value &self = a.tensor("self"), &index = a.tensor("index"), &source = a.tensor("source");
  QCG_CHECK(check_index(a, "index", index));
  QCG_CHECK(check_written(a, "source"));
  QCG_CHECK(check_summed(a));
  if (a.node.op->arg_index("alpha") >= 0 && !as_number(a.node.arg("alpha")))
    return a.unsupported("alpha", "a factor known only at run time", "multiply the source by it");
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  Shape shape = self.shape;
  if (!shape.empty()) shape[axis] = product(index.shape);
  if (index.shape.size() > 1 || source.shape != shape)
    return a.fail("source",
                  fmt::format("{} at {} does not fit into {}", describe(source), describe(index), describe(self)));
  return one(self.dtype, self.shape);
}

bool sums_at_positions(const Node& node) {
  if (is_op(node, "aten.index_add.default") || is_op(node, "aten.scatter_add.default")) return true;
  return is_op(node, "aten.index_put.default") && *node.arg("accumulate").get<bool>();
}

std::string_view combination_at_positions(const Node& node) {
  if (sums_at_positions(node)) return "sum";
  if (node.op->arg_index("reduce") < 0) return "";
  const std::string& name = *node.arg("reduce").get<std::string>();
  for (std::string_view known : {"sum", "prod", "mean", "amax", "amin"})
    if (name == known) return known;
  return name == "add" ? "sum" : name == "multiply" ? "prod" : "";
}

ValueId mask_of_index_put(const Graph& graph, const Node& node) {
  if (!is_op(node, "aten.index_put.default")) return kNoValue;
  const auto& indices = *node.arg("indices").get<std::vector<ValueId>>();
  const bool one_mask =
      indices.size() == 1 && indices[0] != kNoValue && graph.value(indices[0]).dtype == DType::boolean;
  return one_mask ? indices[0] : kNoValue;
}

// Truth values at the first axes, and values that are the same wherever they hold: the result is where(mask, values,
// self).
static Result<Types> infer_masked_put(const OpArgs& a, const Value& mask) {
  const Value &self = a.tensor("self"), &values = a.tensor("values");
  QCG_CHECK(check_written(a, "values"));
  if (a.boolean("accumulate"))
    return a.unsupported("accumulate", "sums where truth values hold", "add torch.where(mask, values, 0)");
  const size_t rank = mask.shape.size();
  if (rank > self.shape.size() || !std::equal(mask.shape.begin(), mask.shape.end(), self.shape.begin()))
    return a.fail("indices", fmt::format("{} does not fit {}", describe(mask), describe(self)));
  Shape each(self.shape.begin() + static_cast<std::ptrdiff_t>(rank), self.shape.end()), given = values.shape;
  if (given.size() == each.size() + 1 && given[0].is_constant(1)) given.erase(given.begin());
  if (const auto both = broadcast(each, given); !both || *both != each)
    return a.unsupported("values", fmt::format("{}, one for each truth value", describe(values)),
                         "write one value for all of them, or use torch.where");
  return one(self.dtype, self.shape);
}

Result<Types> infer_index_put(const OpArgs& a) {
  if (const ValueId mask = mask_of_index_put(a.graph, a.node); mask != kNoValue)
    return infer_masked_put(a, a.graph.value(mask));
  QCG_CHECK(check_summed(a));
  QCG_CHECK(check_written(a, "values"));
  QCG_TRY(places, infer_index(a));
  const Shape& shape = places[0].shape;
  if (auto both = broadcast(shape, a.tensor("values").shape); !both || *both != shape)
    return a.fail("values", fmt::format("{} does not fit into {}", describe(a.tensor("values")), to_string(shape)));
  return one(a.tensor("self").dtype, a.tensor("self").shape);
}

// One position of `dim` for each element of index.
Result<Types> infer_scatter(const OpArgs& a) {
  const Value &self = a.tensor("self"), &index = a.tensor("index");
  QCG_CHECK(check_index(a, "index", index));
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  const Value* src = a.node.op->arg_index("src") >= 0 ? &a.tensor("src") : nullptr;
  if (src) QCG_CHECK(check_written(a, "src"));
  QCG_CHECK(check_summed(a));
  bool fits = index.shape.size() == self.shape.size() && (!src || src->shape.size() == self.shape.size());
  const auto reaches = [&](const Shape& shape, size_t i) {
    return range_of(shape[i] - index.shape[i], a.graph.symbols).min >= 0;
  };
  for (size_t i = 0; fits && i < index.shape.size(); ++i)
    fits = (i == axis || reaches(self.shape, i)) && (!src || reaches(src->shape, i));
  if (!fits) return a.fail("index", fmt::format("{} reaches beyond {}", describe(index), describe(src ? *src : self)));
  if (!src && !as_number(a.node.arg("value")))
    return a.unsupported("value", "a number known only at run time", "write it as a tensor");
  return one(self.dtype, self.shape);
}

}  // namespace qcg
