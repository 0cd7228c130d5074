// Shape and dtype rules of torchao's quantization ops.
#include <fmt/format.h>

#include "graph/ops/infer.h"
#include "graph/ops/rows_quantize.h"

namespace qcg {

static Status check_quant_range(const OpArgs& a, std::string_view dtype_arg) {
  DType dtype = *a.dtype(dtype_arg);
  if (!is_byte(dtype) && dtype != DType::i16 && dtype != DType::i32)
    return a.unsupported(dtype_arg, fmt::format("quantization to {}", dtype_name(dtype)), "use i8 or u8");
  for (std::string_view name : {"quant_min", "quant_max"}) {
    const Arg& arg = a.node.arg(name);
    if (arg.is_none()) continue;
    const Dim* d = arg.get<Dim>();
    if (!d || !d->is_constant()) return a.unsupported(name, "a limit that is not an integer", "use an integer");
  }
  return {};
}

// One number per block, as many axes as the tensor has.
static Result<Shape> block_counts(const OpArgs& a, const Value& x) {
  QCG_CHECK(block_shape(a, x.shape));
  Shape shape;
  const std::vector<Dim> block = a.dims("block_size");
  for (size_t i = 0; i < block.size(); ++i) {
    auto count = x.shape[i].divide_exactly(block[i]);
    if (!count) return a.fail("block_size", fmt::format("{} does not divide {}", block[i].str(), x.shape[i].str()));
    shape.push_back(*count);
  }
  return shape;
}

Result<Types> infer_choose_scale_float8(const OpArgs& a) {
  const Value& x = a.tensor("tensor");
  if (!is_floating(x.dtype)) return a.fail("tensor", "expected a floating dtype, got " + describe(x));
  if (const DType to = *a.dtype("float8_dtype"); to != DType::f8e4m3 && to != DType::f8e5m2)
    return a.unsupported("float8_dtype", fmt::format("quantization to {}", dtype_name(to)), "use e4m3 or e5m2");
  if (*a.dtype("scale_dtype") != DType::f32)
    return a.unsupported("scale_dtype", "scales that are rounded to powers of two", "use f32");
  QCG_TRY(shape, block_counts(a, x));
  return one(DType::f32, std::move(shape));
}

Result<Types> infer_choose_qparams(const OpArgs& a) {
  const Value* x = a.optional_tensor("input");
  if (!x) return a.fail("input", "without it there is nothing to measure");
  if (!is_floating(x->dtype)) return a.fail("input", "expected a floating dtype, got " + describe(*x));
  const std::string& mapping = a.string("mapping_type");
  if (mapping != "SYMMETRIC" && mapping != "ASYMMETRIC" && mapping != "SYMMETRIC_NO_CLIPPING_ERR")
    return a.unsupported("mapping_type", fmt::format("mapping '{}'", mapping.substr(0, 40)),
                         "use SYMMETRIC or ASYMMETRIC");
  QCG_CHECK(check_quant_range(a, "target_dtype"));
  QCG_TRY(blocks, block_shape(a, x->shape));
  Shape shape = blocks.reduced_shape();
  if (a.boolean("keepdim")) {
    QCG_TRY(counts, block_counts(a, *x));
    shape = std::move(counts);
  }
  DType zero = a.dtype("zero_point_dtype").value_or(mapping == "ASYMMETRIC" ? DType::i32 : x->dtype);
  return Types{{a.dtype("scale_dtype").value_or(x->dtype), shape}, {zero, shape}};
}

static Status check_qparams(const OpArgs& a, const Value& x) {
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
  if (x.dtype != *a.dtype("input_dtype"))
    return a.fail("input", fmt::format("expected {}, got {}", dtype_name(*a.dtype("input_dtype")), describe(x)));
  QCG_CHECK(check_quant_range(a, "input_dtype"));
  QCG_CHECK(check_qparams(a, x));
  if (!is_floating(*a.dtype("output_dtype"))) return a.fail("output_dtype", "expected a floating dtype");
  return one(*a.dtype("output_dtype"), x.shape);
}

// tensor_cast's: scale and offset broadcast.
Result<Types> infer_quantize_by(const OpArgs& a) {
  const Value& x = a.tensor("x");
  if (!is_floating(x.dtype)) return a.fail("x", "expected a floating dtype, got " + describe(x));
  if (!is_floating(a.tensor("scale").dtype))
    return a.fail("scale", "expected a floating dtype, got " + describe(a.tensor("scale")));
  for (std::string_view name : {"scale", "offset"})
    if (const Value* v = a.optional_tensor(name); v && broadcast(x.shape, v->shape) != x.shape)
      return a.fail(name, fmt::format("{} does not broadcast to {}", describe(*v), to_string(x.shape)));
  if (!is_byte(*a.dtype("out_dtype")))
    return a.unsupported("out_dtype", fmt::format("quantization to {}", dtype_name(*a.dtype("out_dtype"))),
                         "use i8 or u8");
  return one(*a.dtype("out_dtype"), x.shape);
}

}  // namespace qcg
