// Shape and dtype rules of quantized_decomposed.*, the ops PyTorch 2 Export quantizes with. As torch's own meta
// functions have it, chosen scales are f64 and chosen zero points i64.
#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/ops/rows_quantize.h"
#include "graph/ops/rows_views.h"

namespace qcg {

Result<const Value*> float_input(const OpArgs& a) {
  const Value& x = a.tensor("input");
  if (is_compute_float(x.dtype)) return &x;
  return a.fail("input", "expected f32, bf16 or f16, got " + describe(x), "cast it to f32 first");
}

static Status check_quantized(const OpArgs& a) {
  const DType dtype = *a.dtype("dtype");
  if (dtype != DType::i8 && dtype != DType::u8 && dtype != DType::i16 && dtype != DType::i32)
    return a.unsupported("dtype", fmt::format("quantization to {}", dtype_name(dtype)), "use i8 or u8");
  for (std::string_view name : {"quant_min", "quant_max", "zero_point"})
    if (const int at = a.node.op->arg_index(name); at >= 0 && a.node.arg(name).get<Dim>()) QCG_CHECK(a.constant(name));
  return {};
}

static Status check_quantized_input(const OpArgs& a) {
  const Value& x = a.tensor("input");
  QCG_CHECK(check_quantized(a));
  if (x.dtype == *a.dtype("dtype")) return {};
  return a.fail("input", fmt::format("expected {}, got {}", dtype_name(*a.dtype("dtype")), describe(x)));
}

// A tensor of parameters holds `count` elements, if it is there at all.
static Status check_count(const OpArgs& a, std::string_view name, const Dim& count) {
  if (a.node.op->arg_index(name) < 0 || !a.node.arg(name).get<ValueId>()) return {};
  const Value* v = a.optional_tensor(name);
  if (!v || product(v->shape) == count) return {};
  return a.fail(name, fmt::format("expected {} elements, got {}", count.str(), describe(*v)));
}

// How many scales the op reads: one, one per channel, per row, or per group of a row.
static Result<Dim> count_scales(const OpArgs& a) {
  const Shape& shape = a.tensor("input").shape;
  if (a.node.op->arg_index("axis") >= 0) {
    if (shape.empty()) return a.fail("input", "a tensor without axes has no channels");
    QCG_TRY(axis, a.axis("axis", shape.size()));
    return shape[axis];
  }
  if (a.node.op->arg_index("group_size") >= 0) {
    QCG_TRY(group, a.constant("group_size"));
    if (shape.size() != 2) return a.fail("input", "expected two axes, got " + describe(a.tensor("input")));
    const Dim scales = product(a.tensor("scales").shape);
    if (scales == shape[0]) return scales;  // one group, whatever its size
    auto count = group > 1 ? shape[1].divide_exactly(Dim(group)) : std::nullopt;
    if (!count) return a.fail("group_size", fmt::format("{} does not divide {}", group, shape[1].str()));
    return shape[0] * *count;
  }
  if (a.node.op->arg_index("scales") < 0) return Dim(1);
  if (shape.empty()) return a.fail("input", "a tensor without axes has no rows");
  return product(Shape(shape.begin(), shape.end() - 1));
}

static Status check_parameters(const OpArgs& a) {
  QCG_TRY(count, count_scales(a));
  for (std::string_view name : {"scale", "scales", "zero_point", "zero_points"}) QCG_CHECK(check_count(a, name, count));
  for (std::string_view name : {"quant_min", "quant_max"}) QCG_CHECK(check_count(a, name, Dim(1)));
  return {};
}

Result<Types> infer_decomposed_quantize(const OpArgs& a) {
  QCG_TRY(x, float_input(a));
  QCG_CHECK(check_quantized(a));
  QCG_CHECK(check_parameters(a));
  return one(*a.dtype("dtype"), x->shape);
}

Result<Types> infer_decomposed_dequantize(const OpArgs& a) {
  QCG_CHECK(check_quantized_input(a));
  QCG_CHECK(check_parameters(a));
  const std::string_view out = a.node.op->arg_index("out_dtype") >= 0 ? "out_dtype" : "output_dtype";
  const DType dtype = a.dtype(out).value_or(DType::f32);
  if (!is_floating(dtype)) return a.fail(out, "expected a floating dtype");
  return one(dtype, a.tensor("input").shape);
}

Result<Types> infer_choose_tensor(const OpArgs& a) {
  QCG_CHECK(float_input(a));
  QCG_CHECK(check_quantized(a));
  return Types{{DType::f64, {Dim(1)}}, {DType::i64, {Dim(1)}}};
}

Result<Types> infer_choose_rows(const OpArgs& a) {
  QCG_TRY(x, float_input(a));
  if (*a.dtype("dtype") != DType::i8)
    return a.unsupported("dtype", fmt::format("rows quantized to {}", dtype_name(*a.dtype("dtype"))), "use i8");
  if (x->shape.empty()) return a.fail("input", "a tensor without axes has no rows");
  Shape rows = x->shape;
  rows.back() = Dim(1);
  return Types{{DType::f64, rows}, {DType::i64, rows}};
}

Result<Types> infer_convert(const OpArgs& a) { return one(*a.dtype("dtype"), a.tensor("input").shape); }

}  // namespace qcg
