// Rows of the operator table (op_table.h): convolutions, pools and recurrent layers (passes/expand_layers.cpp).
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/layers.cpp
ShapeRule infer_convolution, infer_pool, infer_adaptive_pool, infer_recurrence, infer_upsample, infer_grid_sample,
    infer_affine_grid, infer_group_norm, infer_pixel_shuffle, infer_batch_statistics, infer_cell;

namespace rows {

// clang-format off
inline constexpr OpRow kLayers[] = {
    {"aten.conv1d.default",
     "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, SymInt[1] dilation=1, "
     "SymInt groups=1) -> Tensor", pointwise, infer_convolution},
    {"aten.conv1d.padding",
     "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, str padding='valid', SymInt[1] dilation=1, "
     "SymInt groups=1) -> Tensor", pointwise, infer_convolution},
    {"aten.conv2d.default",
     "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1, "
     "SymInt groups=1) -> Tensor", pointwise, infer_convolution},
    {"aten.conv2d.padding",
     "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, str padding='valid', SymInt[2] dilation=1, "
     "SymInt groups=1) -> Tensor", pointwise, infer_convolution},
    {"aten.conv3d.default",
     "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, SymInt[3] padding=0, SymInt[3] dilation=1, "
     "SymInt groups=1) -> Tensor", pointwise, infer_convolution},
    {"aten.conv3d.padding",
     "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, str padding='valid', SymInt[3] dilation=1, "
     "SymInt groups=1) -> Tensor", pointwise, infer_convolution},
    {"aten.convolution.default",
     "(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
     "transposed, SymInt[] output_padding, SymInt groups) -> Tensor", pointwise, infer_convolution},
    {"aten.max_pool1d.default",
     "(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) "
     "-> Tensor", pointwise, infer_pool},
    {"aten.max_pool2d.default",
     "(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) "
     "-> Tensor", pointwise, infer_pool},
    {"aten.max_pool3d.default",
     "(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) "
     "-> Tensor", pointwise, infer_pool},
    {"aten.max_pool1d_with_indices.default",
     "(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) "
     "-> (Tensor, Tensor)", pointwise, infer_pool},
    {"aten.max_pool2d_with_indices.default",
     "(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) "
     "-> (Tensor, Tensor)", pointwise, infer_pool},
    {"aten.max_pool3d_with_indices.default",
     "(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) "
     "-> (Tensor, Tensor)", pointwise, infer_pool},
    {"aten.avg_pool1d.default",
     "(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, bool "
     "count_include_pad=True) -> Tensor", pointwise, infer_pool},
    {"aten.avg_pool2d.default",
     "(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool "
     "count_include_pad=True, int? divisor_override=None) -> Tensor", pointwise, infer_pool},
    {"aten.avg_pool3d.default",
     "(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool "
     "count_include_pad=True, int? divisor_override=None) -> Tensor", pointwise, infer_pool},
    {"aten.adaptive_avg_pool1d.default", "(Tensor self, int[1] output_size) -> Tensor",
     pointwise, infer_adaptive_pool},
    {"aten.adaptive_avg_pool2d.default", "(Tensor self, SymInt[2] output_size) -> Tensor",
     pointwise, infer_adaptive_pool},
    {"aten._adaptive_avg_pool2d.default", "(Tensor self, SymInt[2] output_size) -> Tensor",
     pointwise, infer_adaptive_pool},
    {"aten.adaptive_avg_pool3d.default", "(Tensor self, SymInt[3] output_size) -> Tensor",
     pointwise, infer_adaptive_pool},
    {"aten._adaptive_avg_pool3d.default", "(Tensor self, SymInt[3] output_size) -> Tensor",
     pointwise, infer_adaptive_pool},
    {"aten.adaptive_max_pool1d.default", "(Tensor self, int[1] output_size) -> (Tensor, Tensor)",
     pointwise, infer_adaptive_pool},
    {"aten.adaptive_max_pool2d.default", "(Tensor self, int[2] output_size) -> (Tensor, Tensor)",
     pointwise, infer_adaptive_pool},
    {"aten.adaptive_max_pool3d.default", "(Tensor self, int[3] output_size) -> (Tensor, Tensor)",
     pointwise, infer_adaptive_pool},
    {"aten.upsample_nearest1d.vec",
     "(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_nearest2d.vec",
     "(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_nearest_exact1d.vec",
     "(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_nearest_exact2d.vec",
     "(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_nearest2d.default",
     "(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_nearest_exact2d.default",
     "(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_nearest3d.vec",
     "(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_nearest_exact3d.vec",
     "(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_nearest1d.default",
     "(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_nearest_exact1d.default",
     "(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_nearest3d.default",
     "(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> "
     "Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_nearest_exact3d.default",
     "(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None) -> "
     "Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_linear1d.vec",
     "(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_bilinear2d.vec",
     "(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_trilinear3d.vec",
     "(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_linear1d.default",
     "(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_trilinear3d.default",
     "(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? "
     "scales_w=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_bicubic2d.vec",
     "(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_bilinear2d_aa.vec",
     "(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_bicubic2d_aa.vec",
     "(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_bilinear2d.default",
     "(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten.upsample_bicubic2d.default",
     "(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_bilinear2d_aa.default",
     "(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten._upsample_bicubic2d_aa.default",
     "(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
     pointwise, infer_upsample},
    {"aten.grid_sampler.default",
     "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
     pointwise, infer_grid_sample},
    {"aten.grid_sampler_2d.default",
     "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
     pointwise, infer_grid_sample},
    {"aten.grid_sampler_3d.default",
     "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
     pointwise, infer_grid_sample},
    {"aten.affine_grid_generator.default", "(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
     pointwise, infer_affine_grid},
    {"aten.conv_transpose1d.default",
     "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, SymInt[1] "
     "output_padding=0, SymInt groups=1, SymInt[1] dilation=1) -> Tensor", pointwise, infer_convolution},
    {"aten.conv_transpose2d.input",
     "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] "
     "output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor", pointwise, infer_convolution},
    {"aten.conv_transpose3d.input",
     "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, SymInt[3] padding=0, SymInt[3] "
     "output_padding=0, SymInt groups=1, SymInt[3] dilation=1) -> Tensor", pointwise, infer_convolution},
    {"aten.group_norm.default",
     "(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) "
     "-> Tensor", pointwise, infer_group_norm},
    {"aten.native_group_norm.default",
     "(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, "
     "Tensor, Tensor)", pointwise, infer_group_norm},
    {"aten.instance_norm.default",
     "(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, "
     "float momentum, float eps, bool cudnn_enabled) -> Tensor", pointwise, infer_group_norm},
    {"aten._native_batch_norm_legit.no_stats",
     "(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, "
     "Tensor)", pointwise, infer_batch_statistics},
    {"aten.pixel_shuffle.default", "(Tensor self, int upscale_factor) -> Tensor", pointwise, infer_pixel_shuffle},
    {"aten.pixel_unshuffle.default", "(Tensor self, int downscale_factor) -> Tensor", pointwise, infer_pixel_shuffle},
    {"aten.lstm_cell.default",
     "(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)",
     pointwise, infer_cell},
    {"aten.gru_cell.default",
     "(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
     pointwise, infer_cell},
    {"aten.rnn_tanh_cell.default",
     "(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
     pointwise, infer_cell},
    {"aten.rnn_relu_cell.default",
     "(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
     pointwise, infer_cell},
    {"aten.lstm.input",
     "(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool "
     "bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)", pointwise, infer_recurrence},
    {"aten.gru.input",
     "(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool "
     "bidirectional, bool batch_first) -> (Tensor, Tensor)", pointwise, infer_recurrence},
    {"aten.rnn_tanh.input",
     "(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool "
     "bidirectional, bool batch_first) -> (Tensor, Tensor)", pointwise, infer_recurrence},
    {"aten.rnn_relu.input",
     "(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool "
     "bidirectional, bool batch_first) -> (Tensor, Tensor)", pointwise, infer_recurrence},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
