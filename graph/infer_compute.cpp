// Shape and dtype rules of the ops that compute: products, pointwise, reductions, quantization, qcodegen's own.
#include <fmt/format.h>

#include <algorithm>

#include "graph/infer.h"
#include "graph/scheme.h"

namespace qcg {
namespace {

Types one(DType dtype, Shape shape) { return {ValueType{dtype, std::move(shape)}}; }

bool is_byte(DType d) { return d == DType::i8 || d == DType::u8; }

std::string describe(const Value& v) { return fmt::format("{}{}", dtype_name(v.dtype), to_string(v.shape)); }

// ---- products -------------------------------------------------------------------------------------------------------

Status same_dtype(const OpArgs& a, const Value& x, std::string_view arg, const Value& w) {
  if (x.dtype == w.dtype) return {};
  return a.fail(arg, fmt::format("dtype {} does not match {}", dtype_name(w.dtype), dtype_name(x.dtype)), "cast one of them before the product");
}

Status has_rank(const OpArgs& a, std::string_view arg, size_t rank) {
  const Value& v = a.tensor(arg);
  if (v.shape.size() == rank) return {};
  return a.fail(arg, fmt::format("expected {} axes, got {}", rank, describe(v)));
}

Status same_k(const OpArgs& a, std::string_view arg, const Dim& x, const Dim& w) {
  if (x == w) return {};
  return a.fail(arg, fmt::format("contracts {} elements with {}", x.str(), w.str()), "the contracted axes must have the same size");
}

Result<Types> infer_linear(const OpArgs& a) {
  const Value& x = a.tensor("input");
  const Value& w = a.tensor("weight");
  const Value* bias = a.optional_tensor("bias");
  if (x.shape.empty()) return a.fail("input", "a tensor without axes has nothing to contract");
  if (w.shape.size() != 2 && w.shape.size() != 1) return a.fail("weight", fmt::format("expected [N, K], got {}", describe(w)));
  QCG_CHECK(same_dtype(a, x, "weight", w));
  QCG_CHECK(same_k(a, "weight", x.shape.back(), w.shape.back()));
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  if (w.shape.size() == 2) shape.push_back(w.shape[0]);
  if (bias) {
    QCG_CHECK(same_dtype(a, x, "bias", *bias));
    auto fitted = broadcast(shape, bias->shape);
    if (!fitted || *fitted != shape) return a.fail("bias", fmt::format("{} does not fit a result of shape {}", describe(*bias), to_string(shape)));
  }
  return one(x.dtype, std::move(shape));
}

Result<Shape> product_2d(const OpArgs& a, std::string_view left, std::string_view right) {
  QCG_CHECK(has_rank(a, left, 2));
  QCG_CHECK(has_rank(a, right, 2));
  QCG_CHECK(same_k(a, right, a.tensor(left).shape[1], a.tensor(right).shape[0]));
  return Shape{a.tensor(left).shape[0], a.tensor(right).shape[1]};
}

Result<Types> infer_mm(const OpArgs& a) {
  QCG_TRY(shape, product_2d(a, "self", "mat2"));
  QCG_CHECK(same_dtype(a, a.tensor("self"), "mat2", a.tensor("mat2")));
  return one(a.tensor("self").dtype, std::move(shape));
}

Result<Types> infer_addmm(const OpArgs& a) {
  QCG_TRY(shape, product_2d(a, "mat1", "mat2"));
  QCG_CHECK(same_dtype(a, a.tensor("mat1"), "mat2", a.tensor("mat2")));
  QCG_CHECK(same_dtype(a, a.tensor("mat1"), "self", a.tensor("self")));
  auto fitted = broadcast(shape, a.tensor("self").shape);
  if (!fitted || *fitted != shape) return a.fail("self", fmt::format("{} does not fit a result of shape {}", describe(a.tensor("self")), to_string(shape)));
  return one(a.tensor("mat1").dtype, std::move(shape));
}

Result<Types> infer_bmm(const OpArgs& a) {
  QCG_CHECK(has_rank(a, "self", 3));
  QCG_CHECK(has_rank(a, "mat2", 3));
  const Value& x = a.tensor("self");
  const Value& w = a.tensor("mat2");
  QCG_CHECK(same_dtype(a, x, "mat2", w));
  QCG_CHECK(same_k(a, "mat2", x.shape[2], w.shape[1]));
  if (!(x.shape[0] == w.shape[0])) return a.fail("mat2", fmt::format("{} batches against {}", w.shape[0].str(), x.shape[0].str()));
  return one(x.dtype, {x.shape[0], x.shape[1], w.shape[2]});
}

Result<Types> infer_matmul(const OpArgs& a) {
  const Value& x = a.tensor("self");
  const Value& w = a.tensor("other");
  if (x.shape.empty() || w.shape.empty()) return a.fail("self", "a tensor without axes has nothing to contract");
  QCG_CHECK(same_dtype(a, x, "other", w));
  size_t k_axis = w.shape.size() == 1 ? 0 : w.shape.size() - 2;
  QCG_CHECK(same_k(a, "other", x.shape.back(), w.shape[k_axis]));
  auto batch_of = [](const Shape& s) { return Shape(s.begin(), s.size() > 2 ? s.end() - 2 : s.begin()); };
  auto batch = broadcast(batch_of(x.shape), batch_of(w.shape));
  if (!batch) return a.fail("other", fmt::format("the batches of {} and {} do not broadcast", describe(x), describe(w)));
  Shape shape = *batch;
  if (x.shape.size() > 1) shape.push_back(x.shape[x.shape.size() - 2]);
  if (w.shape.size() > 1) shape.push_back(w.shape.back());
  return one(x.dtype, std::move(shape));
}

Result<Types> infer_int_mm(const OpArgs& a) {
  QCG_TRY(shape, product_2d(a, "self", "mat2"));
  if (!is_byte(a.tensor("self").dtype)) return a.fail("self", "expected i8 or u8, got " + describe(a.tensor("self")));
  if (a.tensor("mat2").dtype != DType::i8) return a.fail("mat2", "expected i8, got " + describe(a.tensor("mat2")));
  return one(DType::i32, std::move(shape));
}

Result<Types> infer_weight_int8pack_mm(const OpArgs& a) {
  QCG_CHECK(has_rank(a, "self", 2));
  QCG_CHECK(has_rank(a, "mat2", 2));
  const Value& x = a.tensor("self");
  const Value& w = a.tensor("mat2");
  const Value& scales = a.tensor("scales");
  if (!is_floating(x.dtype)) return a.fail("self", "expected a floating dtype, got " + describe(x));
  if (w.dtype != DType::i8) return a.fail("mat2", "expected i8 [N, K], got " + describe(w));
  QCG_CHECK(same_k(a, "mat2", x.shape[1], w.shape[1]));
  if (scales.shape != Shape{w.shape[0]}) return a.fail("scales", fmt::format("expected [{}], got {}", w.shape[0].str(), describe(scales)));
  QCG_CHECK(same_dtype(a, x, "scales", scales));
  return one(x.dtype, {x.shape[0], w.shape[0]});
}

// ---- pointwise ------------------------------------------------------------------------------------------------------

// Every tensor is broadcast, every tensor and number takes part in the promotion.
struct Pointwise {
  Promotion dtype;
  Shape shape;
};
Result<Pointwise> promote_operands(const OpArgs& a, std::initializer_list<std::string_view> names) {
  Pointwise p;
  for (std::string_view name : names) {
    const Arg& arg = a.node.arg(name);
    if (arg.is_none()) continue;
    const ValueId* id = arg.get<ValueId>();
    if (!id) {
      p.dtype.add(arg);
      continue;
    }
    const Value& v = a.graph.value(*id);
    p.dtype.add(v);
    auto shape = broadcast(p.shape, v.shape);
    if (!shape) return a.fail(name, fmt::format("{} does not broadcast with {}", describe(v), to_string(p.shape)));
    p.shape = *shape;
  }
  return p;
}

Result<Types> finish(const OpArgs& a, Pointwise p, bool to_float) {
  DType dtype = p.dtype.result();
  if (!p.dtype.defined) return a.unsupported("self", "these dtypes have no common one", "cast the operands first");
  return one(to_float && !is_floating(dtype) ? DType::f32 : dtype, std::move(p.shape));
}

Result<Types> infer_binary(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  return finish(a, std::move(p), false);
}

Result<Types> infer_div(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  return finish(a, std::move(p), true);
}

Result<Types> infer_pow(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "exponent"}));
  return finish(a, std::move(p), false);
}

Result<Types> infer_clamp(const OpArgs& a) {
  if (a.node.arg("min").is_none() && a.node.arg("max").is_none()) return a.fail("min", "one of min and max is needed");
  QCG_TRY(p, promote_operands(a, {"self", "min", "max"}));
  return finish(a, std::move(p), false);
}
Result<Types> infer_clamp_min(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "min"}));
  return finish(a, std::move(p), false);
}
Result<Types> infer_clamp_max(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "max"}));
  return finish(a, std::move(p), false);
}

Result<Types> infer_compare(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  return one(DType::boolean, std::move(p.shape));
}

Result<Types> infer_where(const OpArgs& a) {
  if (a.tensor("condition").dtype != DType::boolean) return a.fail("condition", "expected bool, got " + describe(a.tensor("condition")));
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  auto shape = broadcast(p.shape, a.tensor("condition").shape);
  if (!shape) return a.fail("condition", fmt::format("{} does not broadcast with {}", describe(a.tensor("condition")), to_string(p.shape)));
  p.shape = *shape;
  return finish(a, std::move(p), false);
}

Result<Types> infer_like(const OpArgs& a) { return one(a.dtype("dtype").value_or(a.tensor("self").dtype), a.tensor("self").shape); }

Result<Types> infer_unary(const OpArgs& a) { return one(a.tensor("self").dtype, a.tensor("self").shape); }

Result<Types> infer_float_unary(const OpArgs& a) {
  const Value& self = a.tensor("self");
  return one(is_floating(self.dtype) ? self.dtype : DType::f32, self.shape);
}

Result<Types> infer_activation(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (!is_floating(self.dtype)) return a.fail("self", "expected a floating dtype, got " + describe(self));
  int approximate = a.node.op->arg_index("approximate");
  if (approximate >= 0 && a.string("approximate") != "none" && a.string("approximate") != "tanh")
    return a.fail("approximate", "expected 'none' or 'tanh'");
  return infer_unary(a);
}

// ---- reductions -----------------------------------------------------------------------------------------------------

Result<Shape> reduced_shape(const OpArgs& a) {
  const Value& self = a.tensor("self");
  QCG_TRY(axes, a.axes("dim", self.shape.size()));
  Shape shape;
  for (size_t i = 0; i < self.shape.size(); ++i) {
    if (!std::count(axes.begin(), axes.end(), i)) shape.push_back(self.shape[i]);
    else if (a.boolean("keepdim")) shape.emplace_back(1);
  }
  return shape;
}

Result<Types> infer_sum(const OpArgs& a) {
  QCG_TRY(shape, reduced_shape(a));
  DType self = a.tensor("self").dtype;
  return one(a.dtype("dtype").value_or(is_floating(self) ? self : DType::i64), std::move(shape));
}

Result<Types> infer_mean(const OpArgs& a) {
  QCG_TRY(shape, reduced_shape(a));
  DType dtype = a.dtype("dtype").value_or(a.tensor("self").dtype);
  if (!is_floating(dtype)) return a.fail("self", "a mean needs a floating dtype, got " + describe(a.tensor("self")), "pass dtype=");
  return one(dtype, std::move(shape));
}

Result<Types> infer_extreme(const OpArgs& a) {
  QCG_TRY(shape, reduced_shape(a));
  return one(a.tensor("self").dtype, std::move(shape));
}

// ---- quantization ---------------------------------------------------------------------------------------------------

Status check_quant_range(const OpArgs& a, std::string_view dtype_arg) {
  DType dtype = *a.dtype(dtype_arg);
  if (!is_byte(dtype) && dtype != DType::i16 && dtype != DType::i32)
    return a.unsupported(dtype_arg, fmt::format("quantization to {}", dtype_name(dtype)), "use i8 or u8");
  for (std::string_view name : {"quant_min", "quant_max"}) {
    const Arg& arg = a.node.arg(name);
    if (arg.is_none()) continue;
    const Dim* d = arg.get<Dim>();
    if (!d || !d->is_constant()) return a.unsupported(name, "a limit that is no integer", "use an integer");
  }
  return {};
}

Result<Types> infer_choose_qparams(const OpArgs& a) {
  const Value* x = a.optional_tensor("input");
  if (!x) return a.fail("input", "without it there is nothing to measure");
  if (!is_floating(x->dtype)) return a.fail("input", "expected a floating dtype, got " + describe(*x));
  const std::string& mapping = a.string("mapping_type");
  if (mapping != "SYMMETRIC" && mapping != "ASYMMETRIC" && mapping != "SYMMETRIC_NO_CLIPPING_ERR")
    return a.unsupported("mapping_type", fmt::format("mapping '{}'", mapping.substr(0, 40)), "use SYMMETRIC or ASYMMETRIC");
  QCG_CHECK(check_quant_range(a, "target_dtype"));
  QCG_TRY(blocks, block_shape(a, x->shape));
  Shape shape = blocks.reduced_shape();
  if (a.boolean("keepdim")) {
    shape.clear();
    std::vector<Dim> block = a.dims("block_size");
    for (size_t i = 0; i < block.size(); ++i) {
      auto count = x->shape[i].divide_exactly(block[i]);
      if (!count) return a.fail("block_size", fmt::format("{} does not divide {}", block[i].str(), x->shape[i].str()));
      shape.push_back(*count);
    }
  }
  DType zero = a.dtype("zero_point_dtype").value_or(mapping == "ASYMMETRIC" ? DType::i32 : x->dtype);
  return Types{{a.dtype("scale_dtype").value_or(x->dtype), shape}, {zero, shape}};
}

Status check_qparams(const OpArgs& a, const Value& x) {
  QCG_TRY(blocks, block_shape(a, x.shape));
  for (std::string_view name : {"scale", "zero_point"}) {
    const Value* v = a.optional_tensor(name);
    if (v && !(product(v->shape) == blocks.count()))
      return a.fail(name, fmt::format("{} for {} blocks", describe(*v), blocks.count().str()), "one value per block");
  }
  return {};
}

Result<Types> infer_quantize(const OpArgs& a) {
  const Value& x = a.tensor("input");
  if (!is_floating(x.dtype)) return a.fail("input", "expected a floating dtype, got " + describe(x));
  QCG_CHECK(check_quant_range(a, "output_dtype"));
  QCG_CHECK(check_qparams(a, x));
  return one(*a.dtype("output_dtype"), x.shape);
}

Result<Types> infer_dequantize(const OpArgs& a) {
  const Value& x = a.tensor("input");
  if (x.dtype != *a.dtype("input_dtype")) return a.fail("input", fmt::format("expected {}, got {}", dtype_name(*a.dtype("input_dtype")), describe(x)));
  QCG_CHECK(check_quant_range(a, "input_dtype"));
  QCG_CHECK(check_qparams(a, x));
  if (!is_floating(*a.dtype("output_dtype"))) return a.fail("output_dtype", "expected a floating dtype");
  return one(*a.dtype("output_dtype"), x.shape);
}

// ---- qcodegen's own (graph.h) ---------------------------------------------------------------------------------------

// The dtype of a fused output is the choice of the pass that made the node; before there is an output, `otherwise`.
DType declared(const OpArgs& a, size_t output, DType otherwise) {
  return output < a.node.outputs.size() ? a.graph.value(a.node.outputs[output]).dtype : otherwise;
}

// The leaves an expression reads.
void collect_leaves(const Expr& e, ExprKind kind, std::vector<int>& out) {
  if (e.kind == kind) out.push_back(e.index);
  for (const Expr& arg : e.args) collect_leaves(arg, kind, out);
}

Status check_indices(const OpArgs& a, std::string_view arg, const Expr& e, size_t accs, size_t ins) {
  std::vector<int> acc, in;
  collect_leaves(e, ExprKind::acc, acc);
  collect_leaves(e, ExprKind::in, in);
  for (int i : acc)
    if (static_cast<size_t>(i) >= accs) return a.fail(arg, fmt::format("acc{} in {} but {} segments", i, e.str().substr(0, 200), accs));
  for (int i : in)
    if (static_cast<size_t>(i) >= ins) return a.fail(arg, fmt::format("in{} in {} but {} operands", i, e.str().substr(0, 200), ins));
  return {};
}

struct LinearDims {
  Shape lead;
  Dim k;
};

Result<LinearDims> check_activation(const OpArgs& a, const SchemeInfo& scheme) {
  const auto& xs = a.tensors("xs");
  if (xs.empty()) return a.fail("xs", "at least one activation");
  const Value& first = a.graph.value(xs[0]);
  if (first.shape.empty()) return a.fail("xs", "a tensor without axes has nothing to contract");
  LinearDims dims{Shape(first.shape.begin(), first.shape.end() - 1), 0};
  for (ValueId id : xs) {
    const Value& x = a.graph.value(id);
    if (x.shape.empty() || Shape(x.shape.begin(), x.shape.end() - 1) != dims.lead || x.dtype != first.dtype)
      return a.fail("xs", fmt::format("{} does not go with {}", describe(x), describe(first)), "all sources share dtype and leading shape");
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
    if (v && v->shape != per_row && !product(v->shape).is_constant(1)) return a.fail(name, fmt::format("expected {}, got {}", to_string(per_row), describe(*v)));
  }
  if (scheme.quantized_activation && !a.optional_tensor("x_scale")) return a.fail("x_scale", fmt::format("scheme {} needs it", scheme.name));
  return dims;
}

Status check_segment(const OpArgs& a, const SchemeInfo& scheme, size_t segment, const Dim& k) {
  const Value& w = a.graph.value(a.tensors("weights")[segment]);
  if (w.shape.size() != 2) return a.fail("weights", "expected [N, K], got " + describe(w));
  QCG_CHECK(same_k(a, "weights", k, w.shape[1]));
  if (scheme.float_weight ? !is_floating(w.dtype) : !is_byte(w.dtype))
    return a.fail("weights", fmt::format("scheme {} does not take {}", scheme.name, describe(w)));
  QCG_TRY(group, a.constant("group"));
  if (group < 0 || (group > 0 && !scheme.grouped)) return a.fail("group", fmt::format("scheme {} with group {}", scheme.name, group));
  if (!k.is_constant()) return a.unsupported("weights", "a contracted axis of dynamic size", "weights have constant shapes");
  Dim groups = group == 0 ? Dim(1) : Dim((k.constant() + group - 1) / group);
  for (std::string_view name : {"scales", "zeros", "offsets", "biases"}) {
    const auto& list = a.tensors(name);
    if (list.size() != a.tensors("weights").size()) return a.fail(name, "expected one entry per weight");
    if (list[segment] == kNoValue) {
      if (name == "scales" && scheme.has_scales) return a.fail(name, fmt::format("scheme {} needs a scale for every weight", scheme.name));
      continue;
    }
    if (name != "biases" && !scheme.has_scales) return a.fail(name, fmt::format("scheme {} has none", scheme.name));
    if (name == "offsets" && scheme.scheme != Scheme::w4) return a.fail(name, fmt::format("scheme {} has none", scheme.name));
    const Value& v = a.graph.value(list[segment]);
    bool per_row = v.shape == Shape{w.shape[0]};
    bool fits = name == "biases" ? per_row : v.shape == Shape{w.shape[0], groups} || (per_row && groups.is_constant(1));
    if (!fits) return a.fail(name, fmt::format("{} does not go with weight {} in {} groups", describe(v), describe(w), groups.str()));
  }
  return {};
}

Result<Types> infer_qcg_linear(const OpArgs& a) {
  auto scheme = scheme_from_name(a.string("scheme"));
  if (!scheme) return a.fail("scheme", fmt::format("unknown scheme '{}'", a.string("scheme").substr(0, 40)), "see `qcodegen list schemes`");
  const SchemeInfo& info = scheme_info(*scheme);
  QCG_TRY(dims, check_activation(a, info));
  const auto& weights = a.tensors("weights");
  for (size_t j = 0; j < weights.size(); ++j) QCG_CHECK(check_segment(a, info, j, dims.k));
  Types types;
  for (const Expr& e : a.exprs("epilogue")) {
    QCG_CHECK(check_indices(a, "epilogue", e, weights.size(), a.tensors("operands").size()));
    std::vector<int> read, ins;
    collect_leaves(e, ExprKind::acc, read);
    collect_leaves(e, ExprKind::in, ins);
    if (read.empty()) return a.fail("epilogue", fmt::format("{} reads no segment", e.str().substr(0, 200)));
    const Dim& n = a.graph.value(weights[read[0]]).shape[0];
    for (int j : read)
      if (!(a.graph.value(weights[j]).shape[0] == n)) return a.fail("epilogue", fmt::format("{} reads segments of different width", e.str().substr(0, 200)));
    Shape shape = dims.lead;
    shape.push_back(n);
    for (int i : ins) {
      const Value& v = a.graph.value(a.tensors("operands")[i]);
      auto fitted = broadcast(shape, v.shape);
      if (!fitted || *fitted != shape) return a.fail("operands", fmt::format("{} does not broadcast to {}", describe(v), to_string(shape)));
    }
    DType natural = info.scheme == Scheme::s8s8 ? DType::i32 : a.graph.value(a.tensors("xs")[0]).dtype;
    types.push_back({declared(a, types.size(), info.quantized_activation ? DType::f32 : natural), std::move(shape)});
  }
  return types;
}

Result<Types> infer_qcg_loop(const OpArgs& a) {
  const auto& operands = a.tensors("operands");
  Promotion dtype;
  Shape shape;
  for (ValueId id : operands) {
    const Value& v = a.graph.value(id);
    dtype.add(v);
    auto wider = broadcast(shape, v.shape);
    if (!wider) return a.fail("operands", fmt::format("{} does not broadcast with {}", describe(v), to_string(shape)));
    shape = *wider;
  }
  const bool integers = a.boolean("integers");
  for (ValueId id : operands)
    if (integers && is_floating(a.graph.value(id).dtype)) return a.fail("operands", describe(a.graph.value(id)) + " in a loop over integers");
  Types types;
  for (const Expr& e : a.exprs("exprs")) {
    QCG_CHECK(check_indices(a, "exprs", e, 0, operands.size()));
    if (integers && !e.is_integer()) return a.fail("exprs", fmt::format("{} in a loop over integers", e.str().substr(0, 200)));
    types.push_back({declared(a, types.size(), dtype.result()), shape});
    if (integers && is_floating(types.back().dtype)) return a.fail("exprs", "a floating result of a loop over integers");
  }
  return types;
}

Result<Types> infer_quantize_rows(const OpArgs& a) {
  const Value& x = a.tensor("x");
  if (x.shape.empty() || !is_floating(x.dtype)) return a.fail("x", "expected rows of a floating dtype, got " + describe(x));
  if (a.string("mapping") != "SYMMETRIC" && a.string("mapping") != "ASYMMETRIC") return a.fail("mapping", "expected SYMMETRIC or ASYMMETRIC");
  QCG_TRY(low, a.constant("quant_min"));
  QCG_TRY(high, a.constant("quant_max"));
  if (low >= high || low < -128 || high > (low < 0 ? 127 : 255)) return a.fail("quant_min", "expected a range inside i8 or u8");
  const DType scale = *a.dtype("scale_dtype");
  if (scale != DType::f32 && scale != x.dtype) return a.fail("scale_dtype", "expected f32 or the dtype of x");
  Shape rows = x.shape;
  rows.back() = 1;
  return Types{{low < 0 ? DType::i8 : DType::u8, x.shape}, {DType::f32, rows}, {DType::i32, rows}};
}

constexpr InferRow kRules[] = {
    {"aten.linear.default", infer_linear}, {"aten.mm.default", infer_mm}, {"aten.addmm.default", infer_addmm},
    {"aten.bmm.default", infer_bmm}, {"aten.matmul.default", infer_matmul}, {"aten._int_mm.default", infer_int_mm},
    {"aten._weight_int8pack_mm.default", infer_weight_int8pack_mm},
    {"aten.add.Tensor", infer_binary}, {"aten.add.Scalar", infer_binary}, {"aten.sub.Tensor", infer_binary},
    {"aten.sub.Scalar", infer_binary}, {"aten.rsub.Tensor", infer_binary}, {"aten.rsub.Scalar", infer_binary},
    {"aten.mul.Tensor", infer_binary}, {"aten.mul.Scalar", infer_binary}, {"aten.div.Tensor", infer_div},
    {"aten.div.Scalar", infer_div}, {"aten.maximum.default", infer_binary}, {"aten.minimum.default", infer_binary},
    {"aten.pow.Tensor_Scalar", infer_pow}, {"aten.clamp.default", infer_clamp}, {"aten.clamp_min.default", infer_clamp_min},
    {"aten.clamp_max.default", infer_clamp_max}, {"aten.hardtanh.default", infer_unary}, {"aten.relu6.default", infer_unary}, {"aten.neg.default", infer_unary},
    {"aten.abs.default", infer_unary}, {"aten.relu.default", infer_unary}, {"aten.round.default", infer_unary},
    {"aten.floor.default", infer_unary}, {"aten.gelu.default", infer_activation}, {"aten.silu.default", infer_activation},
    {"aten.reciprocal.default", infer_float_unary}, {"aten.exp.default", infer_float_unary}, {"aten.log.default", infer_float_unary},
    {"aten.sqrt.default", infer_float_unary}, {"aten.rsqrt.default", infer_float_unary}, {"aten.sin.default", infer_float_unary},
    {"aten.cos.default", infer_float_unary}, {"aten.erf.default", infer_float_unary}, {"aten.tanh.default", infer_float_unary},
    {"aten.sigmoid.default", infer_float_unary}, {"aten.sum.dim_IntList", infer_sum}, {"aten.mean.dim", infer_mean},
    {"aten.gt.Scalar", infer_compare}, {"aten.gt.Tensor", infer_compare}, {"aten.where.self", infer_where},
    {"aten.full_like.default", infer_like}, {"aten.zeros_like.default", infer_like}, {"aten.ones_like.default", infer_like},
    {"aten.amax.default", infer_extreme}, {"aten.amin.default", infer_extreme},
    {"torchao.choose_qparams_affine.default", infer_choose_qparams}, {"torchao.quantize_affine.default", infer_quantize},
    {"torchao.dequantize_affine.default", infer_dequantize}, {"qcg.linear", infer_qcg_linear}, {"qcg.loop", infer_qcg_loop},
    {"qcg.quantize_rows", infer_quantize_rows},
};

}  // namespace

std::span<const InferRow> compute_rules() { return kRules; }

}  // namespace qcg
