// Shape and dtype rules of the ops that decompose.cpp writes as smaller ones: softmax, attention, the norms, extremes of
// an axis, glu, prelu, baddbmm.
#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/ops/rows_composed.h"
#include "graph/ops/rows_products.h"

namespace qcg {

Result<Types> infer_softmax(const OpArgs& a) {
  const Value& self = a.tensor("self");
  QCG_CHECK(a.axis("dim", self.shape.size()));
  const bool widened = a.node.op->arg_index("half_to_float") >= 0 && a.boolean("half_to_float");
  const auto asked = a.node.op->arg_index("dtype") >= 0 ? a.dtype("dtype") : std::nullopt;
  const DType dtype = asked.value_or(widened ? DType::f32 : self.dtype);
  if (!is_floating(dtype)) return a.fail("self", "expected a floating dtype, got " + describe(self), "pass dtype=");
  return one(dtype, self.shape);
}

// The last axes are normalized; weight and bias, if any, have their shape.
static Status check_norm(const OpArgs& a) {
  QCG_CHECK(need_float(a, "input"));
  const Shape &shape = a.tensor("input").shape, normalized = a.dims("normalized_shape");
  if (normalized.empty() || normalized.size() > shape.size() ||
      !std::equal(normalized.begin(), normalized.end(), shape.end() - static_cast<int64_t>(normalized.size())))
    return a.fail("normalized_shape", fmt::format("{} does not end {}", to_string(normalized), to_string(shape)));
  for (std::string_view name : {"weight", "bias"}) {
    const Value* v = a.node.op->arg_index(name) >= 0 ? a.optional_tensor(name) : nullptr;
    if (v && v->shape != normalized)
      return a.fail(name, fmt::format("expected shape {}, got {}", to_string(normalized), describe(*v)));
  }
  return {};
}

Result<Types> infer_norm(const OpArgs& a) {
  QCG_CHECK(check_norm(a));
  return one(a.tensor("input").dtype, a.tensor("input").shape);
}

// Mean and 1 / deviation as a CPU gives them: of the input's dtype, but f32 where the parameters of half inputs are.
Result<Types> infer_native_layer_norm(const OpArgs& a) {
  QCG_CHECK(check_norm(a));
  const Value& input = a.tensor("input");
  const Value *weight = a.optional_tensor("weight"), *bias = a.optional_tensor("bias");
  const Value* parameter = weight ? weight : bias;
  Shape rows = input.shape;
  for (size_t i = rows.size() - a.dims("normalized_shape").size(); i < rows.size(); ++i) rows[i] = Dim(1);
  const DType dtype = parameter && is_half(input.dtype) ? parameter->dtype : input.dtype;
  return Types{{input.dtype, input.shape}, {dtype, rows}, {dtype, rows}};
}

bool is_of_batch(const Node& batch_norm) {
  return batch_norm.op->arg_index("training") >= 0 && *batch_norm.arg("training").get<bool>();
}

// Channels are axis 1. Running statistics are those that training left.
Result<Types> infer_batch_norm(const OpArgs& a) {
  QCG_CHECK(need_float(a, "input"));
  const Value& input = a.tensor("input");
  if (input.shape.size() < 2) return a.fail("input", "channels are axis 1, which " + describe(input) + " has not");
  const bool of_batch = is_of_batch(a.node);
  for (std::string_view name : {"running_mean", "running_var", "weight", "bias"}) {
    const Value* v = a.optional_tensor(name);
    if (name.starts_with("running") && (v != nullptr) == of_batch)
      return a.unsupported(of_batch ? "training" : name, "running statistics that change, or are missing",
                           "call model.eval() before the export");
    if (!v) continue;
    if (!is_floating(v->dtype) || v->shape != Shape{input.shape[1]})
      return a.fail(name, fmt::format("{} is not one float per channel of {}", describe(*v), describe(input)));
  }
  const ValueType y{input.dtype, input.shape};
  if (a.node.op->outputs == 1) return Types{y};
  const Value* mean = a.optional_tensor("running_mean");
  const ValueType none{mean && is_half(input.dtype) ? mean->dtype : input.dtype, Shape{Dim(0)}};
  return Types{y, none, none};
}

Result<Shape> shape_without_axis(const OpArgs& a) {
  Shape shape = a.tensor("self").shape;
  const bool keep = has_arg(a, "keepdim") && a.boolean("keepdim");
  if (!has_arg(a, "dim") || a.node.arg("dim").is_none()) return keep ? Shape(shape.size(), Dim(1)) : Shape();
  QCG_TRY(axis, a.axis("dim", shape.size()));
  if (shape.empty()) return shape;
  if (keep) shape[axis] = Dim(1);
  else shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return shape;
}

// Values, and where they are.
Result<Types> infer_extreme_of_axis(const OpArgs& a) {
  const Value& self = a.tensor("self");
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  if (!self.shape.empty() && self.shape[axis].is_constant(0))
    return a.fail("self", "the maximum or minimum of no elements, of " + describe(self));
  QCG_TRY(shape, shape_without_axis(a));
  return Types{{self.dtype, shape}, {DType::i64, shape}};
}

Result<Types> infer_glu(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  Shape shape = a.tensor("self").shape;
  QCG_TRY(axis, a.axis("dim", shape.size()));
  const auto half = shape.empty() ? std::nullopt : shape[axis].divide_exactly(Dim(2));
  if (!half) return a.fail("dim", "halves of an axis that is not even in " + describe(a.tensor("self")));
  shape[axis] = *half;
  return one(a.tensor("self").dtype, std::move(shape));
}

// One slope, or one per channel: axis 1.
Result<Types> infer_prelu(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  const Value &self = a.tensor("self"), &weight = a.tensor("weight");
  if (weight.dtype != self.dtype)
    return a.fail("weight", fmt::format("{} is not {}", describe(weight), dtype_name(self.dtype)));
  const Dim channels = self.shape.size() > 1 ? self.shape[1] : Dim(1);
  const bool fits = weight.shape.empty() ||
                    (weight.shape.size() == 1 && (weight.shape[0].is_constant(1) || weight.shape[0] == channels));
  if (!fits) return a.fail("weight", fmt::format("{} does not fit {}", describe(weight), describe(self)));
  return one(self.dtype, self.shape);
}

Result<Types> infer_baddbmm(const OpArgs& a) {
  const Value &x = a.tensor("batch1"), &w = a.tensor("batch2"), &self = a.tensor("self");
  if (x.shape.size() != 3 || w.shape.size() != 3 || !(x.shape[0] == w.shape[0]))
    return a.fail("batch2", fmt::format("{} and {} are not a batch of products", describe(x), describe(w)));
  QCG_CHECK(same_k(a, "batch2", x.shape[2], w.shape[1]));
  for (const auto& [name, v] : {std::pair{"batch2", &w}, std::pair{"self", &self}})
    if (v->dtype != x.dtype) return a.fail(name, fmt::format("{} is not {}", describe(*v), dtype_name(x.dtype)));
  for (std::string_view name : {"alpha", "beta"})
    if (!as_number(a.node.arg(name)))
      return a.unsupported(name, "a factor known only at run time", "export that size as a constant");
  const Shape shape = {x.shape[0], x.shape[1], w.shape[2]};
  if (auto fitted = broadcast(shape, self.shape); !fitted || *fitted != shape)
    return a.fail("self", fmt::format("{} does not fit a result of shape {}", describe(self), to_string(shape)));
  return one(x.dtype, shape);
}

// How many heads of the query share one of key and value; nullopt: the heads do not fit.
static std::optional<Dim> heads_per_group(const OpArgs& a) {
  const Shape &q = a.tensor("query").shape, &k = a.tensor("key").shape;
  const bool may_share = a.node.op->arg_index("enable_gqa") < 0 || a.boolean("enable_gqa");
  if (!may_share || q.size() < 3) return Dim(1);
  const Dim &heads = q[q.size() - 3], &groups = k[k.size() - 3];
  return heads == groups || groups.is_constant(1) ? Dim(1) : heads.divide_exactly(groups);
}

// The result, and of the functions that torch calls in its place the logarithm of the rows' sums, or the weights.
Result<Types> infer_attention(const OpArgs& a) {
  const Value &q = a.tensor("query"), &k = a.tensor("key"), &v = a.tensor("value");
  QCG_CHECK(need_float(a, "query"));
  const size_t rank = q.shape.size();
  for (const auto& [name, t] : {std::pair{"key", &k}, std::pair{"value", &v}})
    if (rank < 2 || t->shape.size() != rank || t->dtype != q.dtype)
      return a.fail(name, fmt::format("{} does not fit {}", describe(*t), describe(q)));
  QCG_CHECK(same_k(a, "key", q.shape.back(), k.shape.back()));
  if (const Dim& rows = k.shape[rank - 2], &others = v.shape[rank - 2]; !(rows == others)) {
    if (rows.is_constant() && others.is_constant())
      return a.fail("value", fmt::format("{} has another number of rows than {}", describe(v), describe(k)));
    return a.unsupported("value", fmt::format("attention of {} keys and {} values", rows.str(), others.str()),
                         "export both lengths with the same torch.export.Dim");
  }
  if (const auto dropout = as_number(a.node.arg("dropout_p")); dropout != 0.0)
    return a.unsupported("dropout_p", "attention that drops weights at random", "call model.eval() before the export");
  if (a.node.op->arg_index("dropout_mask") >= 0 && a.optional_tensor("dropout_mask"))
    return a.unsupported("dropout_mask", "attention that drops weights", "call model.eval() before the export");
  if (a.node.arg("scale").is_none() && !q.shape.back().is_constant())
    return a.unsupported("query", "the scale follows from a size known only at run time", "pass scale=");
  Shape lead(q.shape.begin(), q.shape.end() - 2);
  const auto group = heads_per_group(a);
  if (!group) return a.fail("key", fmt::format("the heads of {} do not share those of {}", describe(q), describe(k)));
  for (const auto& [name, t] : {std::pair{"key", &k}, std::pair{"value", &v}}) {
    Shape own(t->shape.begin(), t->shape.end() - 2);
    if (!group->is_constant(1)) own.back() = own.back() * *group;
    auto both = broadcast(lead, own);
    if (!both) return a.fail(name, fmt::format("the batches of {} and {} do not broadcast", describe(*t), describe(q)));
    lead = *both;
  }
  Shape weights = lead, out = lead, rows = lead;
  weights.insert(weights.end(), {q.shape[rank - 2], k.shape[rank - 2]});
  out.insert(out.end(), {q.shape[rank - 2], v.shape.back()});
  rows.push_back(q.shape[rank - 2]);
  if (const Value* mask = a.optional_tensor("attn_mask")) {
    if (a.boolean("is_causal")) return a.fail("attn_mask", "is_causal has a mask of its own");
    if (auto both = broadcast(weights, mask->shape); !both || *both != weights)
      return a.fail("attn_mask", fmt::format("{} does not fit {}", describe(*mask), to_string(weights)));
    if (mask->dtype == DType::boolean && a.node.op->outputs != 1)
      return a.unsupported("attn_mask", "truth values, which torch adds to the scores here", "pass 0 and -inf");
    if (mask->dtype != DType::boolean && !is_floating(mask->dtype))
      return a.fail("attn_mask", "expected truth values or floats, got " + describe(*mask));
  }
  if (a.node.op->outputs == 1) return one(q.dtype, std::move(out));
  if (a.node.op->arg_index("enable_gqa") >= 0) return Types{{q.dtype, std::move(out)}, {q.dtype, std::move(weights)}};
  return Types{{q.dtype, std::move(out)}, {is_half(q.dtype) ? DType::f32 : q.dtype, std::move(rows)}};
}

// any and all: over one axis, some, or all of them. Those of u8 are u8, as before torch had bool.
Result<Types> infer_any(const OpArgs& a) {
  Shape shape = a.tensor("self").shape;
  const DType dtype = a.tensor("self").dtype == DType::u8 ? DType::u8 : DType::boolean;
  std::vector<size_t> axes;
  if (a.node.op->arg_index("dim") >= 0 && a.node.arg("dim").get<Dim>()) {
    QCG_TRY(axis, a.axis("dim", shape.size()));
    axes.push_back(axis);
  } else if (a.node.op->arg_index("dim") >= 0) {
    QCG_TRY(some, a.axes("dim", shape.size()));
    axes = some;
  } else {
    return one(dtype, {});
  }
  const bool keepdim = a.boolean("keepdim");
  for (size_t i = axes.size(); i-- > 0 && !shape.empty();) {
    if (keepdim) shape[axes[i]] = Dim(1);
    else shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axes[i]));
  }
  return one(dtype, std::move(shape));
}

Result<Types> infer_diff(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.shape.empty()) return a.fail("self", "a tensor without axes has no differences");
  if (self.dtype == DType::boolean)
    return a.unsupported("self", "differences of truth values", "compare neighbours with != instead");
  QCG_TRY(axis, a.axis("dim", self.shape.size()));
  QCG_TRY(n, a.constant("n"));
  constexpr int64_t kMostOften = 16;
  if (n < 0 || n > kMostOften) return a.unsupported("n", "so many differences of differences", "use a smaller n");
  Shape shape = self.shape;
  for (std::string_view name : {"prepend", "append"}) {
    const Value* more = a.optional_tensor(name);
    if (!more) continue;
    Shape rest = more->shape, own = self.shape;
    if (rest.size() == own.size()) rest[axis] = own[axis] = Dim(0);
    if (rest != own || more->dtype != self.dtype)
      return a.fail(name, fmt::format("{} does not continue {}", describe(*more), describe(self)));
    shape[axis] = shape[axis] + more->shape[axis];
  }
  if (range_of(shape[axis], a.graph.symbols).min < n)
    return a.unsupported("dim", fmt::format("an axis of size {} may have less than {} elements", shape[axis].str(), n),
                         "export with a larger minimum");
  shape[axis] = shape[axis] - Dim(n);
  return one(self.dtype, std::move(shape));
}

std::string_view pad_mode(const Node& pad) {
  if (pad.op->arg_index("mode") >= 0) return *pad.arg("mode").get<std::string>();
  const std::string_view name = pad.op->name;
  return name.find("reflection") < name.size()    ? "reflect"
         : name.find("replication") < name.size() ? "replicate"
                                                  : "constant";
}

// Pairs of sizes, before and behind, from the last axis on; negative ones take away.
Result<Types> infer_pad(const OpArgs& a) {
  const Value& self = a.tensor("self");
  const std::string_view name = a.node.op->arg_index("pad") >= 0 ? "pad" : "padding", mode = pad_mode(a.node);
  const bool constant = mode == "constant", reflect = mode == "reflect";
  if (!constant && !reflect && mode != "replicate" && mode != "circular")
    return a.fail("mode", fmt::format("expected constant, reflect, replicate or circular, got '{}'", mode));
  const std::vector<Dim> pad = a.dims(name);
  if (pad.size() % 2 != 0 || pad.size() / 2 > self.shape.size())
    return a.fail(name, fmt::format("{} sizes for a tensor of rank {}", pad.size(), self.shape.size()));
  Shape shape = self.shape;
  for (size_t i = 0; i < pad.size(); ++i) {
    Dim& size = shape[shape.size() - 1 - i / 2];
    const Dim& there = self.shape[shape.size() - 1 - i / 2];
    const int64_t least = range_of(there, a.graph.symbols).min;
    const DimRange range = range_of(pad[i], a.graph.symbols);
    if (!pad[i].is_constant() && range.min < 0)
      return a.unsupported(name, fmt::format("whether {} is negative is known only at run time", pad[i].str()),
                           "export with a constant");
    if (!constant && range.min < 0)
      return a.unsupported(name, fmt::format("{} elements less, beside what is there", -range.min), "slice it");
    if (!constant &&
        (mode == "replicate" ? least < 1 : range_of(there - pad[i], a.graph.symbols).min < (reflect ? 1 : 0)))
      return a.fail(name, fmt::format("{} elements of an axis that may have {}", pad[i].str(), least),
                    "export with a larger minimum of this size");
    size = size + pad[i];
    if (range_of(size, a.graph.symbols).min < 0) return a.fail(name, "takes more than there is");
  }
  return one(self.dtype, std::move(shape));
}

// ---- what runs along an axis

Result<Types> infer_running_sum(const OpArgs& a) {
  if (a.dtype("dtype") == DType::boolean && a.tensor("self").dtype != DType::boolean)
    return a.fail("dtype", "running sums and products of truth values");
  const Value& self = a.tensor("self");
  QCG_CHECK(a.axis("dim", self.shape.size()));
  return one(a.dtype("dtype").value_or(is_floating(self.dtype) ? self.dtype : DType::i64), self.shape);
}

// Values, and where each stood along the axis.
Result<Types> infer_running_extreme(const OpArgs& a) {
  const Value& self = a.tensor("self");
  QCG_CHECK(a.axis("dim", self.shape.size()));
  return Types{{self.dtype, self.shape}, {DType::i64, self.shape}};
}

Result<Types> infer_running_log_sum(const OpArgs& a) {
  const Value& self = a.tensor("self");
  QCG_CHECK(need_float(a, "self"));
  QCG_CHECK(a.axis("dim", self.shape.size()));
  return one(self.dtype, self.shape);
}

// How many elements lie in each of `bins` equal parts of [min, max].
Result<Types> infer_histogram(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  QCG_TRY(bins, a.constant("bins"));
  if (bins < 1 || bins > (1 << 20)) return a.fail("bins", "expected 1 to 2^20");
  const auto low = as_number(a.node.arg("min")), high = as_number(a.node.arg("max"));
  if (!low || !high || !(*low < *high))
    return a.unsupported("min", "the range is that of the data, or known only at run time", "give min < max");
  return one(a.tensor("self").dtype, {Dim(bins)});
}

// 1 where the class is the element, a class per column; of another class than these all columns are 0.
Result<Types> infer_one_hot(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (self.dtype != DType::i64) return a.fail("self", "expected i64, got " + describe(self));
  QCG_TRY(classes, a.constant("num_classes"));
  if (classes < 1) return a.unsupported("num_classes", "as many classes as the data has", "give the number of classes");
  Shape shape = self.shape;
  shape.emplace_back(classes);
  return one(DType::i64, std::move(shape));
}

// How many of the boundaries, which ascend, are less than each element; `right`: or equal.
Result<Types> infer_bucketize(const OpArgs& a) {
  if (a.tensor("boundaries").shape.size() != 1)
    return a.fail("boundaries", "expected a list, got " + describe(a.tensor("boundaries")));
  return one(a.boolean("out_int32") ? DType::i32 : DType::i64, a.tensor("self").shape);
}

Result<Types> infer_argsort(const OpArgs& a) {
  QCG_TRY(axis, a.axis("dim", a.tensor("self").shape.size()));
  (void)axis;
  return one(DType::i64, a.tensor("self").shape);
}

// sort and topk: values, and where they stood.
Result<Types> infer_order(const OpArgs& a) {
  const Value& self = a.tensor("self");
  Shape shape = self.shape;
  QCG_TRY(axis, a.axis("dim", shape.size()));
  if (a.node.op->arg_index("k") < 0) return Types{{self.dtype, shape}, {DType::i64, shape}};
  const Dim k = a.dim("k"), size = shape.empty() ? Dim(1) : shape[axis];
  if (range_of(k, a.graph.symbols).min < 0 || range_of(size - k, a.graph.symbols).min < 0)
    return a.fail("k", fmt::format("{} elements of an axis of {}", k.str(), size.str()),
                  "give the axis a smallest size of at least k when exporting (torch.export.Dim(min=…))");
  if (!shape.empty()) shape[axis] = k;
  return Types{{self.dtype, shape}, {DType::i64, shape}};
}

Result<Types> infer_arg_extreme(const OpArgs& a) {
  if (!a.node.arg("dim").is_none()) QCG_CHECK(infer_extreme_of_axis(a));
  QCG_TRY(shape, shape_without_axis(a));
  return one(DType::i64, std::move(shape));
}

}  // namespace qcg
