// Rows of the operator table (op_table.h): reductions, and ops that decompose into them (passes/composed_ops.h).
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/composed.cpp
ShapeRule infer_baddbmm, infer_softmax, infer_norm, infer_native_layer_norm, infer_batch_norm, infer_extreme_of_axis,
    infer_glu, infer_prelu, infer_any, infer_diff, infer_pad, infer_attention, infer_running_sum, infer_running_extreme,
    infer_running_log_sum, infer_one_hot, infer_bucketize, infer_argsort, infer_histogram, infer_order,
    infer_arg_extreme;
// shapes/spelled.cpp
ShapeRule infer_einsum, infer_outer, infer_product_of_vector, infer_weight_norm, infer_roll, infer_meshgrid,
    infer_masked_scatter, infer_broadcast_tensors;
// shapes/constant.cpp
ShapeRule infer_embedding_bag;
// shapes/pointwise.cpp
ShapeRule infer_variance, infer_log_sum, infer_extreme, infer_sum, infer_mean;

namespace rows {

// clang-format off
inline constexpr OpRow kComposed[] = {
    {"aten.baddbmm.default", "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     matmul, infer_baddbmm},
    {"aten.scaled_dot_product_attention.default",
     "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, "
     "float? scale=None, bool enable_gqa=False) -> Tensor", pointwise, infer_attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default",
     "(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, Tensor? attn_mask=None, "
     "float? scale=None) -> (Tensor, Tensor)", pointwise, infer_attention},
    {"aten._scaled_dot_product_attention_math.default",
     "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, "
     "Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
     pointwise, infer_attention},
    {"aten.softmax.int", "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", pointwise, infer_softmax},
    {"aten.log_softmax.int", "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", pointwise, infer_softmax},
    {"aten._softmax.default", "(Tensor self, int dim, bool half_to_float) -> Tensor", pointwise, infer_softmax},
    {"aten._log_softmax.default", "(Tensor self, int dim, bool half_to_float) -> Tensor", pointwise, infer_softmax},
    {"aten.layer_norm.default",
     "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool "
     "cudnn_enable=True) -> Tensor", pointwise, infer_norm},
    {"aten.native_layer_norm.default",
     "(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
     pointwise, infer_native_layer_norm},
    {"aten.rms_norm.default",
     "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
     pointwise, infer_norm},
    {"aten.batch_norm.default",
     "(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float "
     "momentum, float eps, bool cudnn_enabled) -> Tensor", pointwise, infer_batch_norm},
    {"aten._native_batch_norm_legit_no_training.default",
     "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float "
     "eps) -> (Tensor, Tensor, Tensor)", pointwise, infer_batch_norm},
    {"aten.var.correction", "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
     pointwise, infer_variance},
    {"aten.std.correction", "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
     pointwise, infer_variance},
    {"aten.var.dim", "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
     pointwise, infer_variance},
    {"aten.std.dim", "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
     pointwise, infer_variance},
    {"aten.var.default", "(Tensor self, bool unbiased=True) -> Tensor", pointwise, infer_variance},
    {"aten.std.default", "(Tensor self, bool unbiased=True) -> Tensor", pointwise, infer_variance},
    {"aten.max.dim", "(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
     pointwise, infer_extreme_of_axis},
    {"aten.min.dim", "(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
     pointwise, infer_extreme_of_axis},
    {"aten.any.default", "(Tensor self) -> Tensor", pointwise, infer_any},
    {"aten.any.dim", "(Tensor self, int dim, bool keepdim=False) -> Tensor", pointwise, infer_any},
    {"aten.any.dims", "(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", pointwise, infer_any},
    {"aten.all.default", "(Tensor self) -> Tensor", pointwise, infer_any},
    {"aten.all.dim", "(Tensor self, int dim, bool keepdim=False) -> Tensor", pointwise, infer_any},
    {"aten.all.dims", "(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", pointwise, infer_any},
    {"aten.diff.default", "(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
     pointwise, infer_diff},
    {"aten.constant_pad_nd.default", "(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", pointwise, infer_pad},
    {"aten.pad.default", "(Tensor self, SymInt[] pad, str mode='constant', float? value=None) -> Tensor",
     pointwise, infer_pad},
    {"aten.reflection_pad1d.default", "(Tensor self, SymInt[2] padding) -> Tensor", pointwise, infer_pad},
    {"aten.reflection_pad2d.default", "(Tensor self, SymInt[4] padding) -> Tensor", pointwise, infer_pad},
    {"aten.reflection_pad3d.default", "(Tensor self, SymInt[6] padding) -> Tensor", pointwise, infer_pad},
    {"aten.replication_pad1d.default", "(Tensor self, SymInt[2] padding) -> Tensor", pointwise, infer_pad},
    {"aten.replication_pad2d.default", "(Tensor self, SymInt[4] padding) -> Tensor", pointwise, infer_pad},
    {"aten.replication_pad3d.default", "(Tensor self, SymInt[6] padding) -> Tensor", pointwise, infer_pad},
    {"aten.embedding_bag.default",
     "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
     "Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)",
     reduction, infer_embedding_bag},
    {"aten.embedding_bag.padding_idx",
     "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? "
     "per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)",
     reduction, infer_embedding_bag},
    {"aten._embedding_bag.default",
     "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
     "Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> "
     "(Tensor, Tensor, Tensor, Tensor)", reduction, infer_embedding_bag},
    {"aten._embedding_bag_forward_only.default",
     "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
     "Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> "
     "(Tensor, Tensor, Tensor, Tensor)", reduction, infer_embedding_bag},
    {"aten.einsum.default", "(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", matmul, infer_einsum},
    {"aten.outer.default", "(Tensor self, Tensor vec2) -> Tensor", pointwise, infer_outer},
    {"aten.mv.default", "(Tensor self, Tensor vec) -> Tensor", matmul, infer_product_of_vector},
    {"aten.dot.default", "(Tensor self, Tensor tensor) -> Tensor", matmul, infer_product_of_vector},
    {"aten.logsumexp.default", "(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", reduction, infer_log_sum},
    {"aten._weight_norm.default", "(Tensor v, Tensor g, int dim=0) -> Tensor", pointwise, infer_weight_norm},
    {"aten.roll.default", "(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", pointwise, infer_roll},
    {"aten.broadcast_tensors.default", "(Tensor[] tensors) -> Tensor[]", pointwise, infer_broadcast_tensors},
    {"aten.meshgrid.default", "(Tensor[] tensors) -> Tensor[]", pointwise, infer_meshgrid},
    {"aten.meshgrid.indexing", "(Tensor[] tensors, *, str indexing) -> Tensor[]", pointwise, infer_meshgrid},
    {"aten.masked_scatter.default", "(Tensor self, Tensor mask, Tensor source) -> Tensor",
     pointwise, infer_masked_scatter},
    {"aten.histc.default", "(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
     pointwise, infer_histogram},
    {"aten.one_hot.default", "(Tensor self, int num_classes=-1) -> Tensor", pointwise, infer_one_hot},
    {"aten.bucketize.Tensor",
     "(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
     pointwise, infer_bucketize},
    {"aten.argsort.default", "(Tensor self, int dim=-1, bool descending=False) -> Tensor", reduction, infer_argsort},
    {"aten.argsort.stable", "(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
     reduction, infer_argsort},
    {"aten.glu.default", "(Tensor self, int dim=-1) -> Tensor", pointwise, infer_glu},
    {"aten.prelu.default", "(Tensor self, Tensor weight) -> Tensor", pointwise, infer_prelu},
    {"aten.cumsum.default", "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     reduction, infer_running_sum},
    {"aten.cumprod.default", "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     reduction, infer_running_sum},
    {"aten.cummax.default", "(Tensor self, int dim) -> (Tensor, Tensor)", reduction, infer_running_extreme},
    {"aten.cummin.default", "(Tensor self, int dim) -> (Tensor, Tensor)", reduction, infer_running_extreme},
    {"aten.logcumsumexp.default", "(Tensor self, int dim) -> Tensor", reduction, infer_running_log_sum},
    {"aten.sort.default", "(Tensor self, int dim=-1, bool descending=False) -> (Tensor, Tensor)",
     reduction, infer_order},
    {"aten.sort.stable", "(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor, Tensor)",
     reduction, infer_order},
    {"aten.topk.default",
     "(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor, Tensor)",
     reduction, infer_order},
    {"aten.argmax.default", "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     reduction, infer_arg_extreme},
    {"aten.argmin.default", "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     reduction, infer_arg_extreme},
    {"aten.max.default", "(Tensor self) -> Tensor", reduction, infer_extreme},
    {"aten.min.default", "(Tensor self) -> Tensor", reduction, infer_extreme},
    {"aten.sum.default", "(Tensor self, *, ScalarType? dtype=None) -> Tensor", reduction, infer_sum},
    {"aten.mean.default", "(Tensor self, *, ScalarType? dtype=None) -> Tensor", reduction, infer_mean},
    {"aten.sum.dim_IntList", "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     reduction, infer_sum},
    {"aten.mean.dim", "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     reduction, infer_mean},
    {"aten.prod.default", "(Tensor self, *, ScalarType? dtype=None) -> Tensor", reduction, infer_sum},
    {"aten.prod.dim_int", "(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     reduction, infer_sum},
    {"aten.amax.default", "(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", reduction, infer_extreme},
    {"aten.amin.default", "(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", reduction, infer_extreme},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
