#include "graph/ops/op_table.h"

#include <algorithm>

namespace qcg {
namespace {

struct Row {
  std::string_view name;
  std::string_view signature;
  OpRole role;
};

// Signatures as torch 2.13 and torchao 0.18 print them, without alias annotations. "Tensor|Scalar" is ours: exporters put
// a Python number where these schemas say Tensor. Expr[] is ours too.
constexpr Row kRows[] = {
    // products
    {"aten.linear.default", "(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", OpRole::matmul},
    {"aten.mm.default", "(Tensor self, Tensor mat2) -> Tensor", OpRole::matmul},
    {"aten.addmm.default", "(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     OpRole::matmul},
    {"aten.bmm.default", "(Tensor self, Tensor mat2) -> Tensor", OpRole::matmul},
    {"aten.baddbmm.default", "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     OpRole::matmul},
    {"aten.matmul.default", "(Tensor self, Tensor other) -> Tensor", OpRole::matmul},
    {"aten._int_mm.default", "(Tensor self, Tensor mat2) -> Tensor", OpRole::matmul},
    {"aten._weight_int8pack_mm.default", "(Tensor self, Tensor mat2, Tensor scales) -> Tensor", OpRole::matmul},
    {"aten._weight_int4pack_mm.default", "(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor",
     OpRole::matmul},
    {"aten._weight_int4pack_mm_for_cpu.default",
     "(Tensor self, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor", OpRole::matmul},
    {"torchao.da8w4_linear_cpu.default",
     "(Tensor input, Tensor input_scales, Tensor input_qzeros, Tensor weight, Tensor weight_scales, Tensor "
     "weight_qzeros, "
     "Tensor compensation, Tensor? bias, ScalarType output_dtype) -> Tensor",
     OpRole::matmul},
    // products of quantized matrices, see scaled_product.h
    {"aten._scaled_mm.default",
     "(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, "
     "ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
     OpRole::matmul},
    {"aten._scaled_mm_v2.default",
     "(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, Tensor[] scale_b, int[] recipe_b, "
     "int[] swizzle_b, Tensor? bias=None, ScalarType? out_dtype=None, int[] contraction_dim=[], bool "
     "use_fast_accum=False) -> Tensor",
     OpRole::matmul},
    {"tensor_cast.static_quant_linear.default",
     "(Tensor x, Tensor w, Tensor w_scale, Tensor? w_offset=None, Tensor? x_scale=None, Tensor? x_offset=None, "
     "Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
     OpRole::matmul},
    {"tensor_cast.static_quant_linear_int4.default",
     "(Tensor x, Tensor w, Tensor w_scale, Tensor? w_offset=None, Tensor? x_scale=None, Tensor? x_offset=None, "
     "Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
     OpRole::matmul},
    {"tensor_cast.fp8_linear.default",
     "(Tensor x, Tensor w, Tensor x_scale, Tensor w_scale, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
     OpRole::matmul},
    {"tensor_cast.mxfp4_linear.default",
     "(Tensor x, Tensor w, Tensor x_scale, Tensor w_scale, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
     OpRole::matmul},
    // quantization
    {"torchao.choose_qparams_affine.default",
     "(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? quant_min=None, "
     "Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, "
     "bool keepdim=False) -> (Tensor, Tensor)",
     OpRole::quantize},
    {"torchao.choose_scale_float8.default",
     "(Tensor tensor, SymInt[] block_size, ScalarType float8_dtype=f8e4m3, ScalarType scale_dtype=f32, "
     "float? hp_value_lb=None, float? hp_value_ub=None) -> Tensor",
     OpRole::quantize},
    {"torchao.quantize_affine.default",
     "(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, "
     "Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor",
     OpRole::quantize},
    {"torchao.dequantize_affine.default",
     "(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype, "
     "Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=f32) -> Tensor",
     OpRole::quantize},
    {"tensor_cast.quantize.default", "(Tensor x, Tensor scale, Tensor? offset, ScalarType out_dtype=i8) -> Tensor",
     OpRole::quantize},
    // quantized_decomposed: PyTorch 2 Export's own quantization (torch.ao.quantization.fx._decomposed)
    {"quantized_decomposed.quantize_per_tensor.default",
     "(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.quantize_per_tensor.tensor",
     "(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.quantize_per_tensor.tensor2",
     "(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.quantize_per_channel.default",
     "(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> "
     "Tensor",
     OpRole::quantize},
    {"quantized_decomposed.quantize_per_token.default",
     "(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.quantize_per_channel_group.default",
     "(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, int "
     "group_size) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.dequantize_per_tensor.default",
     "(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? "
     "out_dtype=None) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.dequantize_per_tensor.tensor",
     "(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? "
     "out_dtype=None) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.dequantize_per_tensor.tensor2",
     "(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype, *, "
     "ScalarType? out_dtype=None) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.dequantize_per_channel.default",
     "(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, "
     "ScalarType? out_dtype=None) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.dequantize_per_token.default",
     "(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, ScalarType "
     "output_dtype) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.dequantize_per_channel_group.default",
     "(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int "
     "group_size, "
     "ScalarType output_dtype) -> Tensor",
     OpRole::quantize},
    {"quantized_decomposed.choose_qparams.tensor",
     "(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)", OpRole::quantize},
    {"quantized_decomposed.choose_qparams_symmetric.tensor",
     "(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)", OpRole::quantize},
    {"quantized_decomposed.choose_qparams_per_token.default", "(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
     OpRole::quantize},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric.default",
     "(Tensor input, ScalarType dtype) -> (Tensor, Tensor)", OpRole::quantize},
    {"quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default",
     "(Tensor input, ScalarType dtype) -> (Tensor, Tensor)", OpRole::quantize},
    {"quantized_decomposed.convert_element_type.no_fuse", "(Tensor input, ScalarType dtype) -> Tensor", OpRole::copy},
    {"qcg.dequantize_4bit",  // ours, for native JSON: see four_bit.h
     "(Tensor packed, Tensor scales, str format, SymInt[] shape, Tensor? global_scale=None, int group=0, "
     "str first_nibble='auto', ScalarType dtype=f32) -> Tensor",
     OpRole::quantize},
    // casts and copies
    {"aten.to.dtype",
     "(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> "
     "Tensor",
     OpRole::copy},
    {"aten.to.dtype_layout",
     "(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
     OpRole::copy},
    {"aten.to.device",
     "(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, "
     "MemoryFormat? memory_format=None) -> Tensor",
     OpRole::copy},
    {"aten._to_copy.default",
     "(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     OpRole::copy},
    {"aten.type_as.default", "(Tensor self, Tensor other) -> Tensor", OpRole::copy},
    {"aten.contiguous.default", "(Tensor self, *, MemoryFormat memory_format=0) -> Tensor", OpRole::copy},
    {"aten.clone.default", "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", OpRole::copy},
    {"aten.lift_fresh_copy.default", "(Tensor self) -> Tensor", OpRole::copy},
    {"aten.dropout.default", "(Tensor input, float p, bool train) -> Tensor", OpRole::copy},
    {"aten.cat.default", "(Tensor[] tensors, int dim=0) -> Tensor", OpRole::copy},
    {"aten.concat.default", "(Tensor[] tensors, int dim=0) -> Tensor", OpRole::copy},
    {"tensor_cast.cat.default", "(Tensor[] tensors, int dim=0) -> Tensor", OpRole::copy},  // of one dtype
    {"aten.stack.default", "(Tensor[] tensors, int dim=0) -> Tensor", OpRole::copy},
    {"prims.convert_element_type.default", "(Tensor a, ScalarType dtype) -> Tensor", OpRole::copy},
    {"aten._assert_tensor_metadata.default",
     "(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
     "Layout? layout=None) -> ()",
     OpRole::assertion},
    // views
    {"aten.detach.default", "(Tensor self) -> Tensor", OpRole::view},
    {"aten.detach_.default", "(Tensor self) -> Tensor", OpRole::view},
    {"aten.alias.default", "(Tensor self) -> Tensor", OpRole::view},
    {"aten.reshape.default", "(Tensor self, SymInt[] shape) -> Tensor", OpRole::view},
    {"aten.view.default", "(Tensor self, SymInt[] size) -> Tensor", OpRole::view},
    {"aten._unsafe_view.default", "(Tensor self, SymInt[] size) -> Tensor", OpRole::view},
    {"aten.flatten.using_ints", "(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor", OpRole::view},
    {"aten.unflatten.int", "(Tensor self, int dim, SymInt[] sizes) -> Tensor", OpRole::view},
    {"aten.t.default", "(Tensor self) -> Tensor", OpRole::view},
    {"aten.numpy_T.default", "(Tensor self) -> Tensor", OpRole::view},
    {"aten.mT.default", "(Tensor self) -> Tensor", OpRole::view},
    {"aten.transpose.int", "(Tensor self, int dim0, int dim1) -> Tensor", OpRole::view},
    {"aten.permute.default", "(Tensor self, int[] dims) -> Tensor", OpRole::view},
    {"aten.squeeze.default", "(Tensor self) -> Tensor", OpRole::view},
    {"aten.squeeze.dim", "(Tensor self, int dim) -> Tensor", OpRole::view},
    {"aten.squeeze.dims", "(Tensor self, int[] dim) -> Tensor", OpRole::view},
    {"aten.unsqueeze.default", "(Tensor self, int dim) -> Tensor", OpRole::view},
    {"aten.expand.default", "(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor", OpRole::view},
    {"aten.expand_as.default", "(Tensor self, Tensor other) -> Tensor", OpRole::view},
    {"aten.repeat.default", "(Tensor self, SymInt[] repeats) -> Tensor", OpRole::view},
    {"aten.tile.default", "(Tensor self, SymInt[] dims) -> Tensor", OpRole::view},
    {"aten.repeat_interleave.self_int",
     "(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor", OpRole::view},
    {"aten.slice.Tensor", "(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
     OpRole::view},
    {"aten.select.int", "(Tensor self, int dim, SymInt index) -> Tensor", OpRole::view},
    {"aten.narrow.default", "(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", OpRole::view},
    {"aten.split.Tensor", "(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", OpRole::view},
    {"aten.split_with_sizes.default", "(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]", OpRole::view},
    {"aten.chunk.default", "(Tensor self, int chunks, int dim=0) -> Tensor[]", OpRole::view},
    {"aten.unbind.int", "(Tensor self, int dim=0) -> Tensor[]", OpRole::view},
    {"aten.sym_size.int", "(Tensor self, int dim) -> SymInt", OpRole::view},
    // pointwise, two operands or parameters; the plain one-operand ones are in kUnary
    {"aten.add.Tensor", "(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", OpRole::pointwise},
    {"aten.add.Scalar", "(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", OpRole::pointwise},
    {"aten.sub.Tensor", "(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", OpRole::pointwise},
    {"aten.sub.Scalar", "(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", OpRole::pointwise},
    {"aten.rsub.Tensor", "(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", OpRole::pointwise},
    {"aten.rsub.Scalar", "(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", OpRole::pointwise},
    {"aten.mul.Tensor", "(Tensor self, Tensor|Scalar other) -> Tensor", OpRole::pointwise},
    {"aten.mul.Scalar", "(Tensor self, Scalar other) -> Tensor", OpRole::pointwise},
    {"aten.div.Tensor", "(Tensor self, Tensor|Scalar other) -> Tensor", OpRole::pointwise},
    {"aten.div.Scalar", "(Tensor self, Scalar other) -> Tensor", OpRole::pointwise},
    {"aten.maximum.default", "(Tensor self, Tensor|Scalar other) -> Tensor", OpRole::pointwise},
    {"aten.minimum.default", "(Tensor self, Tensor|Scalar other) -> Tensor", OpRole::pointwise},
    {"aten.pow.Tensor_Scalar", "(Tensor self, Scalar exponent) -> Tensor", OpRole::pointwise},
    {"aten.addcmul.default", "(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
     OpRole::pointwise},
    {"aten.gelu.default", "(Tensor self, *, str approximate='none') -> Tensor", OpRole::pointwise},
    {"aten.relu6.default", "(Tensor self) -> Tensor", OpRole::pointwise},
    {"aten.hardtanh.default", "(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", OpRole::pointwise},
    {"aten.clamp.default", "(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", OpRole::pointwise},
    {"aten.clamp.Tensor", "(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", OpRole::pointwise},
    {"aten.clamp_min.default", "(Tensor self, Scalar min) -> Tensor", OpRole::pointwise},
    {"aten.clamp_max.default", "(Tensor self, Scalar max) -> Tensor", OpRole::pointwise},
    {"aten.log_sigmoid.default", "(Tensor self) -> Tensor", OpRole::pointwise},
    {"aten.leaky_relu.default", "(Tensor self, Scalar negative_slope=0.01) -> Tensor", OpRole::pointwise},
    {"aten.elu.default", "(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
     OpRole::pointwise},
    {"aten.celu.default", "(Tensor self, Scalar alpha=1.0) -> Tensor", OpRole::pointwise},
    {"aten.softplus.default", "(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", OpRole::pointwise},
    {"aten.isnan.default", "(Tensor self) -> Tensor", OpRole::pointwise},
    {"aten.isinf.default", "(Tensor self) -> Tensor", OpRole::pointwise},
    {"aten.nan_to_num.default", "(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
     OpRole::pointwise},
    {"aten.where.self", "(Tensor condition, Tensor self, Tensor other) -> Tensor", OpRole::pointwise},
    {"aten.where.ScalarSelf", "(Tensor condition, Scalar self, Tensor other) -> Tensor", OpRole::pointwise},
    {"aten.where.ScalarOther", "(Tensor condition, Tensor self, Scalar other) -> Tensor", OpRole::pointwise},
    {"aten.where.Scalar", "(Tensor condition, Scalar self, Scalar other) -> Tensor", OpRole::pointwise},
    {"aten.masked_fill.Scalar", "(Tensor self, Tensor mask, Scalar value) -> Tensor", OpRole::pointwise},
    {"aten.masked_fill.Tensor", "(Tensor self, Tensor mask, Tensor value) -> Tensor", OpRole::pointwise},
    {"aten.logical_not.default", "(Tensor self) -> Tensor", OpRole::pointwise},
    {"aten.bitwise_not.default", "(Tensor self) -> Tensor", OpRole::pointwise},
    {"aten.full_like.default",
     "(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     OpRole::pointwise},
    {"aten.zeros_like.default",
     "(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     OpRole::pointwise},
    {"aten.ones_like.default",
     "(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     OpRole::pointwise},
    {"aten.full.default",
     "(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     OpRole::pointwise},
    {"aten.zeros.default",
     "(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     OpRole::pointwise},
    {"aten.ones.default",
     "(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     OpRole::pointwise},
    {"aten.scalar_tensor.default",
     "(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     OpRole::pointwise},
    // composed, see decompose.cpp
    {"aten.softmax.int", "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", OpRole::pointwise},
    {"aten.log_softmax.int", "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", OpRole::pointwise},
    {"aten._softmax.default", "(Tensor self, int dim, bool half_to_float) -> Tensor", OpRole::pointwise},
    {"aten._log_softmax.default", "(Tensor self, int dim, bool half_to_float) -> Tensor", OpRole::pointwise},
    {"aten.layer_norm.default",
     "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
     "bool cudnn_enable=True) -> Tensor",
     OpRole::pointwise},
    {"aten.native_layer_norm.default",
     "(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
     OpRole::pointwise},
    {"aten.rms_norm.default",
     "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", OpRole::pointwise},
    {"aten.batch_norm.default",
     "(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float "
     "momentum, float eps, bool cudnn_enabled) -> Tensor",
     OpRole::pointwise},
    {"aten._native_batch_norm_legit_no_training.default",
     "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) "
     "-> (Tensor, Tensor, Tensor)",
     OpRole::pointwise},
    {"aten.var.correction", "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
     OpRole::pointwise},
    {"aten.std.correction", "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
     OpRole::pointwise},
    {"aten.var.dim", "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", OpRole::pointwise},
    {"aten.std.dim", "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", OpRole::pointwise},
    {"aten.max.dim", "(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)", OpRole::pointwise},
    {"aten.min.dim", "(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)", OpRole::pointwise},
    {"aten.glu.default", "(Tensor self, int dim=-1) -> Tensor", OpRole::pointwise},
    {"aten.prelu.default", "(Tensor self, Tensor weight) -> Tensor", OpRole::pointwise},
    {"aten.linalg_vector_norm.default",
     "(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     OpRole::pointwise},
    // reductions
    {"aten.max.default", "(Tensor self) -> Tensor", OpRole::reduction},
    {"aten.min.default", "(Tensor self) -> Tensor", OpRole::reduction},
    {"aten.sum.default", "(Tensor self, *, ScalarType? dtype=None) -> Tensor", OpRole::reduction},
    {"aten.mean.default", "(Tensor self, *, ScalarType? dtype=None) -> Tensor", OpRole::reduction},
    {"aten.sum.dim_IntList", "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     OpRole::reduction},
    {"aten.mean.dim", "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     OpRole::reduction},
    {"aten.amax.default", "(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", OpRole::reduction},
    {"aten.amin.default", "(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", OpRole::reduction},
    // of constants, see passes/unpack_constants.cpp; the bit operations are in kBitOps
    {"aten.arange.default",
     "(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor",
     OpRole::constant},
    {"aten.arange.start",
     "(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     OpRole::constant},
    {"aten.arange.start_step",
     "(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     OpRole::constant},
    {"aten.floor_divide.default", "(Tensor self, Tensor|Scalar other) -> Tensor", OpRole::constant},
    {"aten.floor_divide.Scalar", "(Tensor self, Scalar other) -> Tensor", OpRole::constant},
    {"aten.div.Tensor_mode", "(Tensor self, Tensor|Scalar other, *, str? rounding_mode) -> Tensor", OpRole::constant},
    {"aten.div.Scalar_mode", "(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", OpRole::constant},
    {"aten.remainder.Tensor", "(Tensor self, Tensor|Scalar other) -> Tensor", OpRole::constant},
    {"aten.remainder.Scalar", "(Tensor self, Scalar other) -> Tensor", OpRole::constant},
    {"aten.exp2.default", "(Tensor self) -> Tensor", OpRole::constant},  // these two have kernels where they are floats
    {"aten.pow.Scalar", "(Scalar self, Tensor exponent) -> Tensor", OpRole::constant},
    {"aten.ldexp.Tensor", "(Tensor self, Tensor other) -> Tensor", OpRole::constant},
    {"aten.index.Tensor", "(Tensor self, Tensor?[] indices) -> Tensor", OpRole::constant},
    {"aten.index_select.default", "(Tensor self, int dim, Tensor index) -> Tensor", OpRole::constant},
    {"aten.embedding.default",
     "(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> "
     "Tensor",
     OpRole::constant},
    {"aten.gather.default", "(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
     OpRole::constant},
    {"aten.take.default", "(Tensor self, Tensor index) -> Tensor", OpRole::constant},
    {"aten.view.dtype", "(Tensor self, ScalarType dtype) -> Tensor", OpRole::constant},
    {"aten.empty.memory_format",
     "(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor",
     OpRole::constant},
    {"aten.copy.default", "(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", OpRole::constant},
    {"aten.slice_scatter.default",
     "(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
     OpRole::constant},
    // qcodegen's own, see graph.h
    {"qcg.linear",
     "(Tensor[] xs, Tensor? x_scale=None, Tensor? x_zero=None, Tensor[] weights, Tensor?[] scales=[], Tensor?[] "
     "zeros=[], "
     "Tensor?[] offsets=[], Tensor?[] biases=[], Tensor[] operands=[], str scheme='dense', int group=0, Expr[] "
     "epilogue) -> Tensor[]",
     OpRole::internal},
    {"qcg.loop", "(Tensor[] operands, Expr[] exprs, bool integers=False) -> Tensor[]", OpRole::internal},
    {"qcg.quantize_rows",
     "(Tensor x, str mapping, int quant_min, int quant_max, float? eps=None, ScalarType scale_dtype=f32) -> (Tensor, "
     "Tensor, Tensor)",
     OpRole::internal},
};

constexpr std::string_view kUnary[] = {"neg",   "abs",       "reciprocal",  "exp",   "log",     "sqrt", "rsqrt",
                                       "sin",   "cos",       "erf",         "tanh",  "sigmoid", "relu", "silu",
                                       "round", "floor",     "log1p",       "expm1", "square",  "sign", "selu",
                                       "mish",  "hardswish", "hardsigmoid", "ceil",  "trunc",   "log2", "log10"};

// Of two tensors, or of one and a number; logical ones of two tensors only.
constexpr std::string_view kComparisons[] = {"gt", "ge", "lt", "le", "eq", "ne"};
constexpr std::string_view kLogical[] = {"logical_and.default", "logical_or.default", "logical_xor.default"};

// Bit operations: those of two tensors have kernels where they are of truth values.
struct BitOp {
  std::string_view name;
  bool of_tensors, has_kernel;
};
constexpr BitOp kBitOps[] = {
    {"bitwise_and.Tensor", true, true},
    {"bitwise_or.Tensor", true, true},
    {"bitwise_xor.Tensor", true, true},
    {"__and__.Tensor", true, true},
    {"__or__.Tensor", true, true},
    {"__xor__.Tensor", true, true},
    {"bitwise_and.Scalar", false, false},
    {"bitwise_or.Scalar", false, false},
    {"bitwise_xor.Scalar", false, false},
    {"__and__.Scalar", false, false},
    {"__or__.Scalar", false, false},
    {"__xor__.Scalar", false, false},
    {"bitwise_left_shift.Tensor", true, false},
    {"bitwise_right_shift.Tensor", true, false},
    {"bitwise_left_shift.Tensor_Scalar", false, false},
    {"bitwise_right_shift.Tensor_Scalar", false, false},
    {"__lshift__.Tensor", true, false},
    {"__rshift__.Tensor", true, false},
    {"__lshift__.Scalar", false, false},
    {"__rshift__.Scalar", false, false},
};

// Ops whose in-place twin exists: graphs from torch.export are functional but for such leftovers, which mean the same.
constexpr std::string_view kInPlace[] = {"aten.add.Tensor",    "aten.add.Scalar",    "aten.sub.Tensor",
                                         "aten.sub.Scalar",    "aten.mul.Tensor",    "aten.mul.Scalar",
                                         "aten.div.Tensor",    "aten.div.Scalar",    "aten.gelu.default",
                                         "aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default",
                                         "aten.hardtanh.default", "aten.leaky_relu.default", "aten.elu.default",
                                         "aten.celu.default",   "aten.masked_fill.Scalar", "aten.masked_fill.Tensor"};

std::string add_underscore(std::string_view name) {
  size_t dot = name.rfind('.');
  return std::string(name.substr(0, dot)) + "_" + std::string(name.substr(dot));
}

struct KindName {
  std::string_view type;
  ArgKind kind;
};
constexpr KindName kKinds[] = {
    {"Tensor", ArgKind::tensor}, {"Tensor?", ArgKind::optional_tensor}, {"Tensor[]", ArgKind::tensors},
    {"Tensor?[]", ArgKind::optional_tensors}, {"Tensor|Scalar", ArgKind::tensor_or_scalar},
    {"int", ArgKind::integer}, {"SymInt", ArgKind::integer}, {"int?", ArgKind::optional_integer},
    {"SymInt?", ArgKind::optional_integer}, {"int[]", ArgKind::integers}, {"int[1]", ArgKind::integers},
    {"SymInt[]", ArgKind::integers}, {"int[1]?", ArgKind::optional_integers}, {"SymInt[]?", ArgKind::optional_integers},
    {"float", ArgKind::real}, {"float?", ArgKind::optional_real}, {"bool", ArgKind::boolean},
    {"bool?", ArgKind::optional_boolean}, {"str", ArgKind::string}, {"str?", ArgKind::optional_string},
    {"ScalarType", ArgKind::dtype}, {"ScalarType?", ArgKind::optional_dtype}, {"Scalar", ArgKind::scalar},
    {"Scalar?", ArgKind::optional_scalar}, {"Expr[]", ArgKind::exprs},
};

ArgKind parse_kind(std::string_view type, std::string_view name) {
  if (name == "pin_memory" || name == "non_blocking") return ArgKind::ignored;
  for (const auto& row : kKinds)
    if (row.type == type) return row.kind;
  return ArgKind::ignored;  // Device, Layout, MemoryFormat
}

// "Tensor self, *, Scalar alpha=1" split at its commas; no default in the table holds one.
std::vector<ArgSpec> parse_args(std::string_view list) {
  std::vector<ArgSpec> args;
  bool keyword_only = false;
  while (!list.empty()) {
    size_t comma = std::min(list.find(", "), list.size());
    std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 2, list.size()));
    if (item == "*") {
      keyword_only = true;
      continue;
    }
    size_t space = item.find(' ');
    std::string_view name = item.substr(space + 1);
    ArgSpec spec;
    spec.keyword_only = keyword_only;
    if (size_t equals = name.find('='); equals != std::string_view::npos) {
      spec.has_default = true;
      spec.default_text = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    spec.name = name;
    spec.kind = parse_kind(item.substr(0, space), name);
    args.push_back(std::move(spec));
  }
  return args;
}

OpSchema parse_schema(std::string_view name, std::string_view signature, OpRole role) {
  OpSchema op;
  op.name = name;
  op.signature = signature;
  op.role = role;
  size_t arrow = signature.find(") -> ");
  op.args = parse_args(signature.substr(1, arrow - 1));
  std::string_view returns = signature.substr(arrow + 5);
  if (returns == "Tensor[]") op.outputs = -1;
  else if (returns == "()") op.outputs = 0;
  else op.outputs = 1 + static_cast<int>(std::count(returns.begin(), returns.end(), ','));
  return op;
}

std::vector<OpSchema> make_table() {
  std::vector<OpSchema> table;
  for (const Row& row : kRows) table.push_back(parse_schema(row.name, row.signature, row.role));
  for (std::string_view base : kUnary)
    for (std::string_view tail : {".default", "_.default"})
      table.push_back(parse_schema("aten." + std::string(base) + std::string(tail), "(Tensor self) -> Tensor", OpRole::pointwise));
  for (std::string_view base : kComparisons) {
    const std::string name = "aten." + std::string(base);
    table.push_back(parse_schema(name + ".Scalar", "(Tensor self, Scalar other) -> Tensor", OpRole::pointwise));
    table.push_back(parse_schema(name + ".Tensor", "(Tensor self, Tensor|Scalar other) -> Tensor", OpRole::pointwise));
  }
  for (std::string_view name : kLogical)
    table.push_back(
        parse_schema("aten." + std::string(name), "(Tensor self, Tensor other) -> Tensor", OpRole::pointwise));
  for (const BitOp& op : kBitOps)
    table.push_back(
        parse_schema("aten." + std::string(op.name),
                     op.of_tensors ? "(Tensor self, Tensor other) -> Tensor" : "(Tensor self, Scalar other) -> Tensor",
                     op.has_kernel ? OpRole::pointwise : OpRole::constant));
  for (std::string_view name : kInPlace) {
    auto op = std::find_if(table.begin(), table.end(), [&](const OpSchema& row) { return row.name == name; });
    OpSchema twin = *op;
    twin.name = add_underscore(name);
    table.push_back(std::move(twin));
  }
  std::sort(table.begin(), table.end(), [](const OpSchema& a, const OpSchema& b) { return a.name < b.name; });
  return table;
}

const std::vector<OpSchema>& table() {
  static const std::vector<OpSchema> table = make_table();
  return table;
}

}  // namespace

std::span<const OpSchema> op_table() { return table(); }

const OpSchema* find_op(std::string_view name) {
  auto it = std::lower_bound(table().begin(), table().end(), name,
                             [](const OpSchema& op, std::string_view n) { return op.name < n; });
  return it != table().end() && it->name == name ? &*it : nullptr;
}

std::string functional_name(std::string_view name) {
  size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || name[dot - 1] != '_') return std::string(name);
  std::string plain = std::string(name.substr(0, dot - 1)) + std::string(name.substr(dot));
  return find_op(plain) ? plain : std::string(name);
}

}  // namespace qcg
