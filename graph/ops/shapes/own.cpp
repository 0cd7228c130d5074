// Shape and dtype rules of qcodegen's own ops (graph.h).
#include <fmt/format.h>

#include "graph/ir/row_program.h"
#include "graph/ir/scheme.h"
#include "graph/ops/infer.h"
#include "graph/ops/rows_own.h"
#include "graph/ops/size_values.h"

namespace qcg {

// The dtype of a fused output is the choice of the pass that made the node; before there is an output, `otherwise`.
static DType declared(const OpArgs& a, size_t output, DType otherwise) {
  return output < a.node.outputs.size() ? a.graph.value(a.node.outputs[output]).dtype : otherwise;
}

Status check_leaves(const OpArgs& a, std::string_view arg, const Expr& e, const Leaves& given) {
  struct Row {
    ExprKind kind;
    size_t count;
    std::string_view name, of;
  };
  for (const Row& row : {Row{ExprKind::acc, given.accs, "acc", "segments"},
                         {ExprKind::in, given.ins, "in", "operands"},
                         {ExprKind::pos, given.axes, "pos", "axes"},
                         {ExprKind::size, given.sizes, "size", "sizes"}})
    for (int i : e.leaves(row.kind))
      if (static_cast<size_t>(i) >= row.count)
        return a.fail(arg, fmt::format("{}{} in {} but {} {}", row.name, i, e.str().substr(0, 200), row.count, row.of));
  return {};
}

struct LinearDims {
  Shape lead;
  Dim k;
};

static Result<LinearDims> check_activation(const OpArgs& a, const SchemeInfo& scheme) {
  const auto& xs = a.tensors("xs");
  if (xs.empty()) return a.fail("xs", "at least one activation");
  const Value& first = a.graph.value(xs[0]);
  if (first.shape.empty()) return a.fail("xs", "a tensor without axes has nothing to contract");
  LinearDims dims{Shape(first.shape.begin(), first.shape.end() - 1), 0};
  for (ValueId id : xs) {
    const Value& x = a.graph.value(id);
    if (x.shape.empty() || Shape(x.shape.begin(), x.shape.end() - 1) != dims.lead || x.dtype != first.dtype)
      return a.fail("xs", fmt::format("{} does not match {}", describe(x), describe(first)),
                    "all sources share dtype and leading shape");
    dims.k = dims.k + x.shape.back();
  }
  bool integer = scheme.quantized_activation || scheme.scheme == Scheme::s8s8;
  if (integer ? !is_byte(first.dtype) : !is_floating(first.dtype))
    return a.fail("xs", fmt::format("scheme {} does not take {}", scheme.name, describe(first)));
  Shape per_row = dims.lead;
  per_row.emplace_back(1);
  for (std::string_view name : {"x_scale", "x_zero"}) {
    const Value* v = a.optional_tensor(name);
    if (v && !scheme.quantized_activation) return a.fail(name, fmt::format("scheme {} has none", scheme.name));
    if (v && v->shape != per_row && !product(v->shape).is_constant(1))
      return a.fail(name, fmt::format("expected {}, got {}", to_string(per_row), describe(*v)));
    const DType read_as = name == "x_scale" ? DType::f32 : DType::i32;  // by kernels
    if (v && v->dtype != read_as)
      return a.fail(name, fmt::format("expected {}, got {}", dtype_name(read_as), describe(*v)));
  }
  if (scheme.quantized_activation && !a.optional_tensor("x_scale"))
    return a.fail("x_scale", fmt::format("scheme {} needs it", scheme.name));
  return dims;
}

static Status check_segment(const OpArgs& a, const SchemeInfo& scheme, size_t segment, const Dim& k) {
  const Value& w = a.graph.value(a.tensors("weights")[segment]);
  if (w.shape.size() != 2) return a.fail("weights", "expected [N, K], got " + describe(w));
  QCG_CHECK(same_k(a, "weights", k, w.shape[1]));
  if (scheme.weight.is_float ? !is_floating(w.dtype) : !is_byte(w.dtype))
    return a.fail("weights", fmt::format("scheme {} does not take {}", scheme.name, describe(w)));
  QCG_TRY(group, a.constant("group"));
  if (group < 0 || (group > 0 && !scheme.has_scales))
    return a.fail("group", fmt::format("scheme {} with group {}", scheme.name, group));
  if (!k.is_constant())
    return a.unsupported("weights", "a contracted axis of dynamic size", "weights have constant shapes");
  Dim groups = group == 0 ? Dim(1) : Dim((k.constant() + group - 1) / group);
  for (std::string_view name : {"scales", "zeros", "offsets", "biases"}) {
    const auto& list = a.tensors(name);
    if (list.size() != a.tensors("weights").size()) return a.fail(name, "expected one entry per weight");
    if (list[segment] == kNoValue) {
      if (name == "scales" && scheme.has_scales)
        return a.fail(name, fmt::format("scheme {} needs a scale for every weight", scheme.name));
      continue;
    }
    if (name != "biases" && !scheme.has_scales) return a.fail(name, fmt::format("scheme {} has none", scheme.name));
    if ((name == "zeros" && !may_have_zeros(scheme)) || (name == "offsets" && !may_have_offsets(scheme)))
      return a.fail(name, fmt::format("scheme {} has none", scheme.name));
    const Value& v = a.graph.value(list[segment]);
    bool per_row = v.shape == Shape{w.shape[0]};
    bool fits = name == "biases" ? per_row : v.shape == Shape{w.shape[0], groups} || (per_row && groups.is_constant(1));
    if (!fits)
      return a.fail(name,
                    fmt::format("{} does not match weight {} in {} groups", describe(v), describe(w), groups.str()));
  }
  return {};
}

Result<Types> infer_qcg_linear(const OpArgs& a) {
  auto scheme = scheme_from_name(a.string("scheme"));
  if (!scheme)
    return a.fail("scheme", fmt::format("unknown scheme '{}'", a.string("scheme").substr(0, 40)),
                  "see `qcodegen list schemes`");
  const SchemeInfo& info = scheme_info(*scheme);
  QCG_TRY(dims, check_activation(a, info));
  const auto& weights = a.tensors("weights");
  for (size_t j = 0; j < weights.size(); ++j) QCG_CHECK(check_segment(a, info, j, dims.k));
  Types types;
  for (const Expr& e : a.exprs("epilogue")) {
    QCG_CHECK(check_leaves(a, "epilogue", e, {weights.size(), a.tensors("operands").size()}));
    const std::vector<int> read = e.leaves(ExprKind::acc);
    if (read.empty()) return a.fail("epilogue", fmt::format("{} reads no segment", e.str().substr(0, 200)));
    const Dim& n = a.graph.value(weights[read[0]]).shape[0];
    for (int j : read)
      if (!(a.graph.value(weights[j]).shape[0] == n))
        return a.fail("epilogue", fmt::format("{} reads segments of different width", e.str().substr(0, 200)));
    Shape shape = dims.lead;
    shape.push_back(n);
    for (int i : e.leaves(ExprKind::in)) {
      const Value& v = a.graph.value(a.tensors("operands")[i]);
      auto fitted = broadcast(shape, v.shape);
      if (!fitted || *fitted != shape)
        return a.fail("operands", fmt::format("{} does not broadcast to {}", describe(v), to_string(shape)));
    }
    DType natural = info.scheme == Scheme::s8s8 ? DType::i32 : a.graph.value(a.tensors("xs")[0]).dtype;
    types.push_back({declared(a, types.size(), info.quantized_activation ? DType::f32 : natural), std::move(shape)});
  }
  return types;
}

// The constants of scheme.h with one more axis in front: a matrix for each group of rows.
Result<Types> infer_grouped_linear(const OpArgs& a) {
  const auto scheme = scheme_from_name(a.string("scheme"));
  if (!scheme) return a.fail("scheme", fmt::format("unknown scheme '{}'", a.string("scheme").substr(0, 40)));
  const SchemeInfo& info = scheme_info(*scheme);
  const Value &x = a.tensor("x"), &ends = a.tensor("ends"), &w = a.tensor("weight");
  if (x.shape.size() != 2 || !is_compute_float(x.dtype) || info.quantized_activation || *scheme == Scheme::s8s8)
    return a.fail("x", fmt::format("scheme {} does not take {} in groups of rows", info.name, describe(x)));
  if (w.shape.size() != 3 || (info.weight.is_float ? !is_floating(w.dtype) : !is_byte(w.dtype)))
    return a.fail("weight", "expected [groups, N, K] of the scheme, got " + describe(w));
  QCG_CHECK(same_k(a, "weight", x.shape[1], w.shape[2]));
  if (w.shape[0].is_constant(0) || w.shape[2].is_constant(0))
    return a.fail("weight", fmt::format("{} has no elements to multiply", describe(w)));
  if (ends.shape != Shape{w.shape[0]} || (ends.dtype != DType::i32 && ends.dtype != DType::i64))
    return a.fail("ends", fmt::format("{} is no i32 or i64 per group of {}", describe(ends), describe(w)));
  QCG_TRY(group, a.constant("group"));
  if (group < 0 || (group > 0 && !info.has_scales) || !w.shape[2].is_constant())
    return a.fail("group", fmt::format("scheme {} with group {}", info.name, group));
  const Dim blocks = group == 0 ? Dim(1) : Dim((w.shape[2].constant() + group - 1) / group);
  for (std::string_view name : {"scale", "zero", "offset"}) {
    const Value* v = a.optional_tensor(name);
    if (name == "scale" && (v != nullptr) != info.has_scales)
      return a.fail(name, fmt::format("scheme {} {} scales", info.name, info.has_scales ? "needs" : "has no"));
    if ((name == "zero" && v && !may_have_zeros(info)) || (name == "offset" && v && !may_have_offsets(info)))
      return a.fail(name, fmt::format("scheme {} has none", info.name));
    if (v && v->shape != Shape{w.shape[0], w.shape[1], blocks})
      return a.fail(name, fmt::format("{} does not match {} in {} blocks", describe(*v), describe(w), blocks.str()));
  }
  return one(x.dtype, {x.shape[0], w.shape[1]});
}

Result<Types> infer_qcg_loop(const OpArgs& a) {
  const auto& operands = a.tensors("operands");
  Promotion dtype;
  Shape shape = a.dims("shape");
  for (ValueId id : operands) {
    const Value& v = a.graph.value(id);
    dtype.add(v);
    auto wider = broadcast(shape, v.shape);
    if (!wider) return a.fail("operands", fmt::format("{} does not broadcast with {}", describe(v), to_string(shape)));
    shape = *wider;
  }
  const DType arithmetic = *a.dtype("arithmetic");
  if (arithmetic != DType::f32 && arithmetic != DType::f64 && arithmetic != DType::i64)
    return a.fail("arithmetic", fmt::format("{} instead of f32, f64 or i64", dtype_name(arithmetic)));
  const bool integers = arithmetic == DType::i64;
  for (ValueId id : operands)
    if (integers && is_floating(a.graph.value(id).dtype))
      return a.fail("operands", describe(a.graph.value(id)) + " in a loop over integers");
  Types types;
  for (const Expr& e : a.exprs("exprs")) {
    QCG_CHECK(check_leaves(a, "exprs", e, {0, operands.size(), shape.size(), a.dims("sizes").size()}));
    if (integers && !e.is_integer())
      return a.fail("exprs", fmt::format("{} in a loop over integers", e.str().substr(0, 200)));
    if (arithmetic == DType::f64 && !e.has_f64())
      return a.fail("exprs", fmt::format("{} in a loop of f64", e.str().substr(0, 200)));
    types.push_back({declared(a, types.size(), dtype.result()), shape});
    if (integers && is_floating(types.back().dtype))
      return a.fail("exprs", "a floating result of a loop over integers");
  }
  return types;
}

// Heads of the query share those of key and value in groups; batches of key and value repeat where there is one.
static Status check_heads(const OpArgs& a) {
  const Value &q = a.tensor("query"), &k = a.tensor("key"), &v = a.tensor("value");
  for (const auto& [name, t] : {std::pair{"query", &q}, {"key", &k}, {"value", &v}})
    if (t->shape.size() != 4 || !is_compute_float(t->dtype))
      return a.fail(name, "expected [batch, heads, rows, size] of f32, bf16 or f16, got " + describe(*t));
  for (const auto& [name, t] : {std::pair{"key", &k}, {"value", &v}}) {
    const bool batches = t->shape[0] == q.shape[0] || t->shape[0].is_constant(1);
    const auto group = q.shape[1].divide_exactly(t->shape[1]);
    if (!batches || !group || !group->is_constant() || group->constant() < 1)
      return a.fail(name, fmt::format("{} does not fit {}", describe(*t), describe(q)));
  }
  if (!(k.shape[1] == v.shape[1]) || !(k.shape[2] == v.shape[2]))
    return a.fail("value", fmt::format("{} has other heads or rows than {}", describe(v), describe(k)));
  for (const Dim& size : {q.shape[3], v.shape[3]})
    if (!size.is_constant() || size.constant() < 1)
      return a.unsupported("query", "heads of a size known only at run time", "export that size as a constant");
  return same_k(a, "key", q.shape[3], k.shape[3]);
}

Result<Types> infer_qcg_attention(const OpArgs& a) {
  QCG_CHECK(check_heads(a));
  const Value &q = a.tensor("query"), &k = a.tensor("key"), &v = a.tensor("value");
  const Shape scores = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
  const auto& operands = a.tensors("operands");
  for (ValueId id : operands)
    if (auto both = broadcast(scores, a.graph.value(id).shape); !both || *both != scores)
      return a.fail("operands",
                    fmt::format("{} does not broadcast to {}", describe(a.graph.value(id)), to_string(scores)));
  const size_t sizes = a.dims("sizes").size();
  if (a.exprs("score").size() != 1 || a.exprs("mask").size() > 1)
    return a.fail("score", "expected one, and a mask or none");
  for (const Expr& e : a.exprs("score"))
    QCG_CHECK(check_leaves(a, "score", e, {1, operands.size(), scores.size(), sizes}));
  for (const Expr& e : a.exprs("mask"))
    QCG_CHECK(check_leaves(a, "mask", e, {0, operands.size(), scores.size(), sizes}));
  const std::string& empty = a.string("empty");
  if (empty != "zero" && empty != "nan" && empty != "mean") return a.fail("empty", "expected zero, nan or mean");
  return Types{{declared(a, 0, q.dtype), {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}}};
}

Result<Types> infer_quantize_rows(const OpArgs& a) {
  const Value& x = a.tensor("x");
  if (x.shape.empty() || !is_floating(x.dtype))
    return a.fail("x", "expected rows of a floating dtype, got " + describe(x));
  const std::string& mapping = a.string("mapping");
  const bool per_token = mapping == "PER_TOKEN" || mapping == "PER_TOKEN_ASYMMETRIC";
  if (!per_token && mapping != "SYMMETRIC" && mapping != "ASYMMETRIC")
    return a.fail("mapping", "expected SYMMETRIC, ASYMMETRIC, PER_TOKEN or PER_TOKEN_ASYMMETRIC");
  QCG_TRY(low, a.constant("quant_min"));
  QCG_TRY(high, a.constant("quant_max"));
  if (low >= high || low < -128 || high > (low < 0 ? 127 : 255))
    return a.fail("quant_min", "expected a range inside i8 or u8");
  if (per_token && low >= 0) return a.fail("quant_min", "expected a range of i8");
  const DType scale = *a.dtype("scale_dtype");
  if (mapping == "PER_TOKEN_ASYMMETRIC" ? scale != DType::f64 : scale != DType::f32 && scale != x.dtype)
    return a.fail("scale_dtype", "expected f32 or the dtype of x, and f64 for PER_TOKEN_ASYMMETRIC");
  Shape rows = x.shape;
  rows.back() = 1;
  return Types{{low < 0 ? DType::i8 : DType::u8, x.shape}, {DType::f32, rows}, {DType::i32, rows}};
}

Result<Types> infer_measure(const OpArgs& a) {
  const Value& value = a.tensor("value");
  if (value.dtype != DType::i64 || !value.shape.empty()) return a.fail("value", "is no tensor of one i64 without axes");
  if (!is_one_symbol(a.dim("size"))) return a.fail("size", "is no symbol alone");
  return Types{};
}

Result<Types> infer_qcg_rows(const OpArgs& a) {
  const Shape shape = a.dims("shape");
  if (shape.empty() || shape.back().is_constant(1))
    return a.fail("shape", "expected rows of more than one element, got " + to_string(shape));
  Promotion dtype;
  for (ValueId id : a.tensors("operands")) {
    const Value& v = a.graph.value(id);
    dtype.add(v);
    const auto fitted = broadcast(shape, v.shape);
    if (!fitted || *fitted != shape)
      return a.fail("operands", fmt::format("{} does not broadcast to {}", describe(v), to_string(shape)));
  }
  const auto program = read_row_program(a.graph, a.node);
  if (!program)
    return a.fail("steps",
                  "expected steps over operands and earlier steps, a reduction or - for each, and stores that "
                  "are steps");
  Types types;
  for (const size_t step : program->stores) {
    Shape out = shape;
    if (program->steps[step].per_row) out.back() = Dim(1);
    types.push_back({declared(a, types.size(), dtype.result()), std::move(out)});
  }
  return types;
}

}  // namespace qcg
