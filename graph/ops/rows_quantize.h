// Rows of the operator table (op_table.h): quantization and its inverse.
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/quantize.cpp
ShapeRule infer_choose_qparams, infer_choose_scale_float8, infer_quantize, infer_dequantize, infer_quantize_by;
// shapes/decomposed.cpp
ShapeRule infer_decomposed_quantize, infer_decomposed_dequantize, infer_choose_tensor, infer_choose_rows;
// shapes/coded.cpp
ShapeRule infer_dequantize_4bit;

namespace rows {

// clang-format off
inline constexpr OpRow kQuantize[] = {
    {"torchao.choose_qparams_affine.default",
     "(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? quant_min=None, "
     "Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, "
     "bool keepdim=False) -> (Tensor, Tensor)", quantize, infer_choose_qparams},
    {"torchao.choose_scale_float8.default",
     "(Tensor tensor, SymInt[] block_size, ScalarType float8_dtype=f8e4m3, ScalarType scale_dtype=f32, float? "
     "hp_value_lb=None, float? hp_value_ub=None) -> Tensor", quantize, infer_choose_scale_float8},
    {"torchao.quantize_affine.default",
     "(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, Scalar? "
     "quant_min=None, Scalar? quant_max=None) -> Tensor", quantize, infer_quantize},
    {"torchao.dequantize_affine.default",
     "(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype, Scalar? "
     "quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=f32) -> Tensor", quantize, infer_dequantize},
    {"tensor_cast.quantize.default", "(Tensor x, Tensor scale, Tensor? offset, ScalarType out_dtype=i8) -> Tensor",
     quantize, infer_quantize_by},
    {"quantized_decomposed.quantize_per_tensor.default",
     "(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     quantize, infer_decomposed_quantize},
    {"quantized_decomposed.quantize_per_tensor.tensor",
     "(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     quantize, infer_decomposed_quantize},
    {"quantized_decomposed.quantize_per_tensor.tensor2",
     "(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype) -> "
     "Tensor", quantize, infer_decomposed_quantize},
    {"quantized_decomposed.quantize_per_channel.default",
     "(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) "
     "-> Tensor", quantize, infer_decomposed_quantize},
    {"quantized_decomposed.quantize_per_token.default",
     "(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     quantize, infer_decomposed_quantize},
    {"quantized_decomposed.quantize_per_channel_group.default",
     "(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, int "
     "group_size) -> Tensor", quantize, infer_decomposed_quantize},
    {"quantized_decomposed.dequantize_per_tensor.default",
     "(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? "
     "out_dtype=None) -> Tensor", quantize, infer_decomposed_dequantize},
    {"quantized_decomposed.dequantize_per_tensor.tensor",
     "(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype, *, "
     "ScalarType? out_dtype=None) -> Tensor", quantize, infer_decomposed_dequantize},
    {"quantized_decomposed.dequantize_per_tensor.tensor2",
     "(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype, *, "
     "ScalarType? out_dtype=None) -> Tensor", quantize, infer_decomposed_dequantize},
    {"quantized_decomposed.dequantize_per_channel.default",
     "(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, "
     "*, ScalarType? out_dtype=None) -> Tensor", quantize, infer_decomposed_dequantize},
    {"quantized_decomposed.dequantize_per_token.default",
     "(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, ScalarType "
     "output_dtype) -> Tensor", quantize, infer_decomposed_dequantize},
    {"quantized_decomposed.dequantize_per_channel_group.default",
     "(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int "
     "group_size, ScalarType output_dtype) -> Tensor", quantize, infer_decomposed_dequantize},
    {"quantized_decomposed.choose_qparams.tensor",
     "(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)",
     quantize, infer_choose_tensor},
    {"quantized_decomposed.choose_qparams_symmetric.tensor",
     "(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)",
     quantize, infer_choose_tensor},
    {"quantized_decomposed.choose_qparams_per_token.default", "(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
     quantize, infer_choose_rows},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric.default",
     "(Tensor input, ScalarType dtype) -> (Tensor, Tensor)", quantize, infer_choose_rows},
    {"quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default",
     "(Tensor input, ScalarType dtype) -> (Tensor, Tensor)", quantize, infer_choose_rows},
    {"qcg.dequantize_4bit",
     "(Tensor packed, Tensor scales, str format, SymInt[] shape, Tensor? global_scale=None, int group=0, str "
     "first_nibble='auto', ScalarType dtype=f32) -> Tensor", quantize, infer_dequantize_4bit},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
