// Rows of the operator table (op_table.h): matrix products, of quantized matrices too (scaled_product.h).
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/products.cpp
ShapeRule infer_linear, infer_mm, infer_addmm, infer_bmm, infer_grouped_mm, infer_matmul, infer_int_mm,
    infer_weight_int8pack_mm;
// shapes/packed.cpp
ShapeRule infer_int4pack_cuda, infer_int4pack_cpu, infer_da8w4;
// shapes/coded.cpp
ShapeRule infer_scaled_product;

namespace rows {

// clang-format off
inline constexpr OpRow kProducts[] = {
    {"aten.linear.default", "(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", matmul, infer_linear},
    {"aten.mm.default", "(Tensor self, Tensor mat2) -> Tensor", matmul, infer_mm},
    {"aten.addmm.default", "(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     matmul, infer_addmm},
    {"transformers.grouped_mm_fallback.default", "(Tensor input, Tensor weight, Tensor offs) -> Tensor",
     matmul, infer_grouped_mm},
    {"aten._grouped_mm.default",
     "(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
     matmul, infer_grouped_mm},
    {"aten.bmm.default", "(Tensor self, Tensor mat2) -> Tensor", matmul, infer_bmm},
    {"aten.matmul.default", "(Tensor self, Tensor other) -> Tensor", matmul, infer_matmul},
    {"aten._int_mm.default", "(Tensor self, Tensor mat2) -> Tensor", matmul, infer_int_mm},
    {"aten._weight_int8pack_mm.default", "(Tensor self, Tensor mat2, Tensor scales) -> Tensor",
     matmul, infer_weight_int8pack_mm},
    {"aten._weight_int4pack_mm.default", "(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor",
     matmul, infer_int4pack_cuda},
    {"aten._weight_int4pack_mm_for_cpu.default",
     "(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor", matmul, infer_int4pack_cpu},
    {"torchao.da8w4_linear_cpu.default",
     "(Tensor input, Tensor input_scales, Tensor input_qzeros, Tensor weight, Tensor weight_scales, Tensor "
     "weight_qzeros, Tensor compensation, Tensor? bias, ScalarType output_dtype) -> Tensor", matmul, infer_da8w4},
    {"aten._scaled_mm.default",
     "(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, "
     "ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor", matmul, infer_scaled_product},
    {"aten._scaled_mm_v2.default",
     "(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, Tensor[] scale_b, int[] "
     "recipe_b, int[] swizzle_b, Tensor? bias=None, ScalarType? out_dtype=None, int[] contraction_dim=[], bool "
     "use_fast_accum=False) -> Tensor", matmul, infer_scaled_product},
    {"tensor_cast.static_quant_linear.default",
     "(Tensor x, Tensor w, Tensor w_scale, Tensor? w_offset=None, Tensor? x_scale=None, Tensor? x_offset=None, "
     "Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor", matmul, infer_scaled_product},
    {"tensor_cast.static_quant_linear_int4.default",
     "(Tensor x, Tensor w, Tensor w_scale, Tensor? w_offset=None, Tensor? x_scale=None, Tensor? x_offset=None, "
     "Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor", matmul, infer_scaled_product},
    {"tensor_cast.fp8_linear.default",
     "(Tensor x, Tensor w, Tensor x_scale, Tensor w_scale, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
     matmul, infer_scaled_product},
    {"tensor_cast.mxfp4_linear.default",
     "(Tensor x, Tensor w, Tensor x_scale, Tensor w_scale, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
     matmul, infer_scaled_product},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
