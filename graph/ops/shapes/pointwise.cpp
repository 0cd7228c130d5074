// Shape and dtype rules of pointwise ops and reductions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/ops/rows_composed.h"
#include "graph/ops/rows_library.h"
#include "graph/ops/rows_pointwise.h"

namespace qcg {

Result<PromotedOperands> promote_operands(const OpArgs& a, std::initializer_list<std::string_view> names) {
  PromotedOperands p;
  for (std::string_view name : names) {
    const Arg& arg = a.node.arg(name);
    if (arg.is_none()) continue;
    const ValueId* id = arg.get<ValueId>();
    if (!id) {
      p.dtype.add(arg);
      continue;
    }
    if (*id == kNoValue) continue;
    const Value& v = a.graph.value(*id);
    p.dtype.add(v);
    auto shape = broadcast(p.shape, v.shape);
    if (!shape) return a.fail(name, fmt::format("{} does not broadcast with {}", describe(v), to_string(p.shape)));
    p.shape = *shape;
  }
  return p;
}

static Result<Types> finish(const OpArgs& a, PromotedOperands p, bool to_float) {
  DType dtype = p.dtype.result();
  if (!p.dtype.defined) return a.unsupported("self", "these dtypes have no common one", "cast the operands first");
  return one(to_float && !is_floating(dtype) ? DType::f32 : dtype, std::move(p.shape));
}

static Result<Types> finish_float(const OpArgs& a, PromotedOperands p) {
  if (p.dtype.defined && !is_floating(p.dtype.result()))
    return a.unsupported("self", "integers have no kernel here", "cast the operands to floats first");
  return finish(a, std::move(p), false);
}

Result<Types> infer_binary(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  return finish(a, std::move(p), false);
}

Result<Types> infer_div(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  return finish(a, std::move(p), true);
}

Result<Types> infer_heaviside(const OpArgs& a) {
  if (a.tensor("values").dtype != a.tensor("self").dtype) return a.fail("values", "expected the dtype of self");
  QCG_TRY(p, promote_operands(a, {"self", "values"}));
  return finish(a, std::move(p), false);
}

Result<Types> infer_pow(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "exponent"}));
  return finish(a, std::move(p), false);
}

Result<Types> infer_power_of_tensors(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "exponent"}));
  return finish_float(a, std::move(p));
}
Result<Types> infer_lerp(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "end", "weight"}));
  return finish_float(a, std::move(p));
}

Result<Types> infer_clamp(const OpArgs& a) {
  if (a.node.arg("min").is_none() && a.node.arg("max").is_none()) return a.fail("min", "one of min and max is needed");
  QCG_TRY(p, promote_operands(a, {"self", "min", "max"}));
  return finish(a, std::move(p), false);
}
Result<Types> infer_clamp_of_tensors(const OpArgs& a) {
  if (!a.optional_tensor("min") && !a.optional_tensor("max")) return a.fail("min", "one of min and max is needed");
  QCG_TRY(p, promote_operands(a, {"self", "min", "max"}));
  return finish(a, std::move(p), false);
}
Result<Types> infer_addcmul(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "tensor1", "tensor2"}));
  return finish_float(a, std::move(p));
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

// Floats alone: the tolerance is one.
Result<Types> infer_close(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  QCG_CHECK(need_float(a, "other"));
  return infer_compare(a);
}

Result<Types> infer_rrelu(const OpArgs& a) {
  if (a.boolean("training")) return a.unsupported("training", "slopes are random", "export the model after eval()");
  QCG_CHECK(need_float(a, "self"));
  return one(a.tensor("self").dtype, a.tensor("self").shape);
}

Result<Types> infer_polygamma(const OpArgs& a) {
  QCG_TRY(n, a.constant("n"));
  constexpr int64_t kMost = 32;  // n! and f32
  if (n < 0 || n > kMost) return a.unsupported("n", "expected 0 to 32", "use a smaller order");
  return infer_float_unary(a);
}

// And the slopes as they came.
Result<Types> infer_rectified(const OpArgs& a) {
  QCG_TRY(types, infer_rrelu(a));
  types.push_back({a.tensor("noise").dtype, a.tensor("noise").shape});
  return types;
}

Result<Types> infer_log_gamma_of_many(const OpArgs& a) {
  QCG_TRY(p, a.constant("p"));
  constexpr int64_t kMost = 64;
  if (p < 1 || p > kMost) return a.fail("p", "expected 1 to 64");
  const Value& self = a.tensor("self");
  return one(is_floating(self.dtype) ? self.dtype : DType::f32, self.shape);
}

Result<Types> infer_mantissa(const OpArgs& a) {
  QCG_CHECK(need_float(a, "self"));
  const Value& self = a.tensor("self");
  if (self.dtype == DType::f64) return a.unsupported("self", "mantissas of f64", "cast it to f32 before");
  return Types{{self.dtype, self.shape}, {DType::i32, self.shape}};
}

Result<Types> infer_double_power(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self", "exponent"}));
  return one(DType::f64, std::move(p.shape));
}

Result<Types> infer_logical_not(const OpArgs& a) { return one(DType::boolean, a.tensor("self").shape); }

Result<Types> infer_masked_fill(const OpArgs& a) {
  const Value &self = a.tensor("self"), &mask = a.tensor("mask");
  if (mask.dtype != DType::boolean) return a.fail("mask", "expected bool, got " + describe(mask));
  const Arg& value = a.node.arg("value");
  if (value.get<ValueId>() && !a.tensor("value").shape.empty())
    return a.fail("value", "expected a tensor without axes, got " + describe(a.tensor("value")));
  const bool real = value.get<double>() || (value.get<ValueId>() && is_floating(a.tensor("value").dtype));
  if (real && !is_floating(self.dtype)) return a.fail("value", "a real number does not fit into " + describe(self));
  auto shape = broadcast(self.shape, mask.shape);
  if (!shape) return a.fail("mask", fmt::format("{} does not broadcast with {}", describe(mask), describe(self)));
  return one(self.dtype, std::move(*shape));
}

Result<Types> infer_where(const OpArgs& a) {
  if (a.tensor("condition").dtype != DType::boolean)
    return a.fail("condition", "expected bool, got " + describe(a.tensor("condition")));
  QCG_TRY(p, promote_operands(a, {"self", "other"}));
  auto shape = broadcast(p.shape, a.tensor("condition").shape);
  if (!shape)
    return a.fail("condition",
                  fmt::format("{} does not broadcast with {}", describe(a.tensor("condition")), to_string(p.shape)));
  p.shape = *shape;
  return finish(a, std::move(p), false);
}

Result<Types> infer_like(const OpArgs& a) {
  return one(a.dtype("dtype").value_or(a.tensor("self").dtype), a.tensor("self").shape);
}

Result<Types> infer_fill(const OpArgs& a) {
  DType dtype = DType::f32;
  if (a.node.op->arg_index("fill_value") >= 0) {
    const Arg& value = a.node.arg("fill_value");
    dtype = value.get<double>() ? DType::f32 : value.get<bool>() ? DType::boolean : DType::i64;
  }
  return one(a.dtype("dtype").value_or(dtype), a.node.op->arg_index("size") >= 0 ? a.dims("size") : Shape{});
}

Result<Types> infer_fill_value(const OpArgs& a) {
  const Value& value = a.tensor("value");
  if (!value.shape.empty())
    return a.fail("value", fmt::format("{} is not one number", describe(value)), "fill with a number");
  return infer_unary(a);
}

// new_full and its kin: of self's dtype unless one is given.
Result<Types> infer_new(const OpArgs& a) {
  return one(a.dtype("dtype").value_or(a.tensor("self").dtype), a.dims("size"));
}

Result<Types> infer_unary(const OpArgs& a) { return one(a.tensor("self").dtype, a.tensor("self").shape); }

// triu and tril, of matrices.
Result<Types> infer_triangle(const OpArgs& a) {
  if (a.tensor("self").shape.size() < 2) return a.fail("self", "expected matrices, got " + describe(a.tensor("self")));
  const Dim& diagonal = a.dim("diagonal");
  constexpr int64_t kMost = int64_t{1} << 40;
  if (diagonal.is_constant() && (diagonal.constant() < -kMost || diagonal.constant() > kMost))
    return a.fail("diagonal", "it is beyond any matrix");
  return infer_unary(a);
}

Result<Types> infer_nan_to_num(const OpArgs& a) {
  if (const DType d = a.tensor("self").dtype; !is_compute_float(d) && d != DType::f64)
    return a.unsupported("self", "expected f32, f16, bf16 or f64, got " + describe(a.tensor("self")),
                         "cast to one of them");
  return infer_unary(a);
}

Result<Types> infer_square(const OpArgs& a) {
  QCG_TRY(p, promote_operands(a, {"self"}));
  p.dtype.add(Arg(Dim(2)));
  return finish(a, std::move(p), false);
}

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

Result<Shape> reduced_shape(const OpArgs& a) {
  if (a.node.op->arg_index("dim") < 0) return Shape{};  // of the whole tensor
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
  DType dtype = a.tensor("self").dtype;
  if (a.node.op->arg_index("dtype") >= 0) dtype = a.dtype("dtype").value_or(dtype);
  if (!is_floating(dtype))
    return a.fail("self", "expected a floating dtype, got " + describe(a.tensor("self")), "cast it before");
  return one(dtype, std::move(shape));
}

Result<Types> infer_variance(const OpArgs& a) {
  const double correction = correction_of(a.node);
  if (!std::isfinite(correction))
    return a.unsupported("correction", "a correction known only at run time", "export that size as a constant");
  if (correction != std::trunc(correction)) {
    const Value& self = a.tensor("self");
    QCG_TRY(axes, a.axes("dim", self.shape.size()));
    for (size_t axis : axes)
      if (!self.shape[axis].is_constant())
        return a.unsupported("correction", "a fraction, of an axis whose size is known only at run time",
                             "write it with mean, or export that axis with a size");
  }
  return infer_mean(a);
}

Result<Types> infer_log_sum(const OpArgs& a) {
  const Value& self = a.tensor("self");
  if (!is_floating(self.dtype)) return a.fail("self", "expected a floating dtype, got " + describe(self));
  QCG_TRY(shape, reduced_shape(a));
  return one(self.dtype, std::move(shape));
}

Result<Types> infer_extreme(const OpArgs& a) {
  QCG_TRY(shape, reduced_shape(a));
  if (product(a.tensor("self").shape).is_constant(0) && !product(shape).is_constant(0))
    return a.fail("self", "the maximum or minimum of no elements, of " + describe(a.tensor("self")),
                  "reduce over at least one element");
  return one(a.tensor("self").dtype, std::move(shape));
}

}  // namespace qcg
