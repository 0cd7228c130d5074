// Rows of the operator table (op_table.h): views, casts, copies and concatenation.
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/decomposed.cpp
ShapeRule infer_convert;
// shapes/views.cpp
ShapeRule infer_cast, infer_type_as, infer_same, infer_dropout, infer_cat, infer_cat_of_one_dtype, infer_stack,
    infer_convert_element_type, infer_nothing, infer_reshape, infer_flatten, infer_unflatten, infer_t, infer_reverse,
    infer_last_two, infer_transpose, infer_permute, infer_squeeze, infer_unsqueeze, infer_expand, infer_expand_as,
    infer_reshape_as, infer_repeat, infer_repeat_interleave, infer_slice, infer_select, infer_narrow, infer_split,
    infer_split_with_sizes, infer_chunk, infer_unbind, infer_sym_size;
// strides.cpp
ShapeRule infer_flip, infer_unfold, infer_diagonal;
StrideRule stride_unfold, stride_reverse, stride_last_two, stride_transpose, stride_permute, stride_expand,
    stride_slice, stride_select, stride_narrow, stride_flip, stride_diagonal;

namespace rows {

// clang-format off
inline constexpr OpRow kViews[] = {
    {"quantized_decomposed.convert_element_type.no_fuse", "(Tensor input, ScalarType dtype) -> Tensor",
     copy, infer_convert},
    {"aten.to.dtype",
     "(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) "
     "-> Tensor", copy, infer_cast, "cast(self)"},
    {"aten.to.dtype_layout",
     "(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor", copy, infer_cast},
    {"aten.to.device",
     "(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
     "memory_format=None) -> Tensor", copy, infer_cast},
    {"aten._to_copy.default",
     "(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor", copy, infer_cast},
    {"aten.type_as.default", "(Tensor self, Tensor other) -> Tensor", copy, infer_type_as},
    {"aten.contiguous.default", "(Tensor self, *, MemoryFormat memory_format=0) -> Tensor", copy, infer_same},
    {"aten.clone.default", "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", copy, infer_same},
    {"aten.lift_fresh_copy.default", "(Tensor self) -> Tensor", copy, infer_same},
    {"aten.dropout.default", "(Tensor input, float p, bool train) -> Tensor", copy, infer_dropout},
    {"aten.feature_dropout.default", "(Tensor input, float p, bool train) -> Tensor", copy, infer_dropout},
    {"aten.alpha_dropout.default", "(Tensor input, float p, bool train) -> Tensor", copy, infer_dropout},
    {"aten.feature_alpha_dropout.default", "(Tensor input, float p, bool train) -> Tensor", copy, infer_dropout},
    {"aten.dropout_.default", "(Tensor self, float p, bool train) -> Tensor", copy, infer_dropout},  // writes nothing
    {"aten.cat.default", "(Tensor[] tensors, int dim=0) -> Tensor", copy, infer_cat},
    {"aten.concat.default", "(Tensor[] tensors, int dim=0) -> Tensor", copy, infer_cat},
    {"tensor_cast.cat.default", "(Tensor[] tensors, int dim=0) -> Tensor", copy, infer_cat_of_one_dtype},
    {"aten.stack.default", "(Tensor[] tensors, int dim=0) -> Tensor", copy, infer_stack},
    {"prims.convert_element_type.default", "(Tensor a, ScalarType dtype) -> Tensor", copy, infer_convert_element_type},
    {"aten._assert_tensor_metadata.default",
     "(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
     "Layout? layout=None) -> ()", assertion, infer_nothing},
    {"aten._assert_async.msg", "(Tensor self, str assert_msg) -> ()", assertion, infer_nothing},
    {"aten.detach.default", "(Tensor self) -> Tensor", view, infer_same, {}, in_place},
    {"aten.alias.default", "(Tensor self) -> Tensor", view, infer_same},
    {"aten.reshape.default", "(Tensor self, SymInt[] shape) -> Tensor", view, infer_reshape},
    {"aten.view.default", "(Tensor self, SymInt[] size) -> Tensor", view, infer_reshape},
    {"aten._unsafe_view.default", "(Tensor self, SymInt[] size) -> Tensor", view, infer_reshape},
    {"aten.flatten.using_ints", "(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor", view, infer_flatten},
    {"aten.unflatten.int", "(Tensor self, int dim, SymInt[] sizes) -> Tensor", view, infer_unflatten},
    {"aten.t.default", "(Tensor self) -> Tensor", view, infer_t, stride_reverse},
    {"aten.numpy_T.default", "(Tensor self) -> Tensor", view, infer_reverse, stride_reverse},
    {"aten.mT.default", "(Tensor self) -> Tensor", view, infer_last_two, stride_last_two},
    {"aten.transpose.int", "(Tensor self, int dim0, int dim1) -> Tensor", view, infer_transpose, stride_transpose},
    {"aten.permute.default", "(Tensor self, int[] dims) -> Tensor", view, infer_permute, stride_permute},
    {"aten.squeeze.default", "(Tensor self) -> Tensor", view, infer_squeeze},
    {"aten.squeeze.dim", "(Tensor self, int dim) -> Tensor", view, infer_squeeze},
    {"aten.squeeze.dims", "(Tensor self, int[] dim) -> Tensor", view, infer_squeeze},
    {"aten.unsqueeze.default", "(Tensor self, int dim) -> Tensor", view, infer_unsqueeze},
    {"aten.expand.default", "(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
     view, infer_expand, stride_expand},
    {"aten.expand_as.default", "(Tensor self, Tensor other) -> Tensor", view, infer_expand_as},
    {"aten.reshape_as.default", "(Tensor self, Tensor other) -> Tensor", view, infer_reshape_as},
    {"aten.view_as.default", "(Tensor self, Tensor other) -> Tensor", view, infer_reshape_as},
    {"aten.repeat.default", "(Tensor self, SymInt[] repeats) -> Tensor", view, infer_repeat},
    {"aten.tile.default", "(Tensor self, SymInt[] dims) -> Tensor", view, infer_repeat},
    {"aten.repeat_interleave.self_int",
     "(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
     view, infer_repeat_interleave},
    {"aten.slice.Tensor", "(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
     view, infer_slice, stride_slice},
    {"aten.select.int", "(Tensor self, int dim, SymInt index) -> Tensor", view, infer_select, stride_select},
    {"aten.flip.default", "(Tensor self, int[] dims) -> Tensor", view, infer_flip, stride_flip},
    {"aten.diagonal.default", "(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     view, infer_diagonal, stride_diagonal},
    {"aten.swapaxes.default", "(Tensor self, int axis0, int axis1) -> Tensor", view, infer_transpose, stride_transpose},
    {"aten.narrow.default", "(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
     view, infer_narrow, stride_narrow},
    {"aten.unfold.default", "(Tensor self, int dimension, int size, int step) -> Tensor",
     view, infer_unfold, stride_unfold},
    {"aten.split.Tensor", "(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", view, infer_split},
    {"aten.split_with_sizes.default", "(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
     view, infer_split_with_sizes},
    {"aten.chunk.default", "(Tensor self, int chunks, int dim=0) -> Tensor[]", view, infer_chunk},
    {"aten.unbind.int", "(Tensor self, int dim=0) -> Tensor[]", view, infer_unbind},
    {"aten.sym_size.int", "(Tensor self, int dim) -> SymInt", view, infer_sym_size},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
