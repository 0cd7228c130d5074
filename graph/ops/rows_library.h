// Rows of the operator table (op_table.h): ops that torch's library computes with other ops. A pass writes them as those
// (passes/library/library.h).
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/library.cpp
ShapeRule infer_norm_of_axes, infer_cosine_similarity, infer_pairwise_distance, infer_distances, infer_patches,
    infer_patch_sums, infer_unpool, infer_median, infer_kth_value, infer_quantile, infer_searchsorted;
// shapes/constant.cpp
ShapeRule infer_scatter, infer_index_copy;
// shapes/arrangements.cpp
ShapeRule infer_parts, infer_joined, infer_moved, infer_ravel, infer_trace, infer_diag, infer_diag_embed, infer_kron,
    infer_channel_shuffle, infer_moments, infer_both_extremes, infer_count_nonzero, infer_logit;

namespace rows {

// clang-format off
inline constexpr OpRow kLibrary[] = {
    {"aten.linalg_vector_norm.default",
     "(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     pointwise, infer_norm_of_axes},
    {"aten.linalg_norm.default",
     "(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     pointwise, infer_norm_of_axes},
    {"aten.linalg_norm.ord_str",
     "(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     pointwise, infer_norm_of_axes},
    {"aten.linalg_matrix_norm.str_ord",
     "(Tensor self, str ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     pointwise, infer_norm_of_axes},
    {"aten.norm.Scalar", "(Tensor self, Scalar p=2) -> Tensor", pointwise, infer_norm_of_axes},
    {"aten.norm.ScalarOpt_dim", "(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
     pointwise, infer_norm_of_axes},
    {"aten.norm.ScalarOpt_dim_dtype",
     "(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor", pointwise, infer_norm_of_axes},
    {"aten.norm.ScalarOpt_dtype", "(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
     pointwise, infer_norm_of_axes},
    {"aten.frobenius_norm.dim", "(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
     pointwise, infer_norm_of_axes},
    {"aten.cosine_similarity.default", "(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
     pointwise, infer_cosine_similarity},
    {"aten.pairwise_distance.default",
     "(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
     pointwise, infer_pairwise_distance},
    {"aten.cdist.default", "(Tensor x1, Tensor x2, float p=2.0, int? compute_mode=None) -> Tensor",
     pointwise, infer_distances},
    {"aten._cdist_forward.default", "(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
     pointwise, infer_distances},
    {"aten._euclidean_dist.default", "(Tensor x1, Tensor x2) -> Tensor", pointwise, infer_distances},
    {"aten.im2col.default", "(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
     pointwise, infer_patches},
    {"aten.col2im.default",
     "(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
     pointwise, infer_patch_sums},
    {"aten.max_unpool2d.default", "(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
     pointwise, infer_unpool},
    {"aten.max_unpool3d.default",
     "(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
     pointwise, infer_unpool},
    {"aten.median.default", "(Tensor self) -> Tensor", pointwise, infer_median},
    {"aten.median.dim", "(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)", pointwise, infer_median},
    {"aten.kthvalue.default", "(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor, Tensor)",
     pointwise, infer_kth_value},
    {"aten.quantile.scalar",
     "(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
     pointwise, infer_quantile},
    {"aten.quantile.default",
     "(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
     pointwise, infer_quantile},
    {"aten.searchsorted.Tensor",
     "(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? "
     "sorter=None) -> Tensor", pointwise, infer_searchsorted},
    {"aten.unsafe_chunk.default", "(Tensor self, int chunks, int dim=0) -> Tensor[]", pointwise, infer_parts},
    {"aten.tensor_split.sections", "(Tensor self, SymInt sections, int dim=0) -> Tensor[]", pointwise, infer_parts},
    {"aten.tensor_split.indices", "(Tensor self, SymInt[] indices, int dim=0) -> Tensor[]", pointwise, infer_parts},
    {"aten.hstack.default", "(Tensor[] tensors) -> Tensor", pointwise, infer_joined},
    {"aten.vstack.default", "(Tensor[] tensors) -> Tensor", pointwise, infer_joined},
    {"aten.column_stack.default", "(Tensor[] tensors) -> Tensor", pointwise, infer_joined},
    {"aten.movedim.int", "(Tensor self, int source, int destination) -> Tensor", pointwise, infer_moved},
    {"aten.moveaxis.int", "(Tensor self, int source, int destination) -> Tensor", pointwise, infer_moved},
    {"aten.ravel.default", "(Tensor self) -> Tensor", pointwise, infer_ravel},
    {"aten.trace.default", "(Tensor self) -> Tensor", pointwise, infer_trace},
    {"aten.diag.default", "(Tensor self, int diagonal=0) -> Tensor", pointwise, infer_diag},
    {"aten.diag_embed.default", "(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
     pointwise, infer_diag_embed},
    {"aten.kron.default", "(Tensor self, Tensor other) -> Tensor", pointwise, infer_kron},
    {"aten.channel_shuffle.default", "(Tensor self, SymInt groups) -> Tensor", pointwise, infer_channel_shuffle},
    {"aten.var_mean.correction",
     "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
     pointwise, infer_moments},
    {"aten.var_mean.dim", "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
     pointwise, infer_moments},
    {"aten.std_mean.correction",
     "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
     pointwise, infer_moments},
    {"aten.std_mean.dim", "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
     pointwise, infer_moments},
    {"aten.aminmax.default", "(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor, Tensor)",
     pointwise, infer_both_extremes},
    {"aten.count_nonzero.default", "(Tensor self, int? dim=None) -> Tensor", pointwise, infer_count_nonzero},
    {"aten.count_nonzero.dim_IntList", "(Tensor self, int[] dim) -> Tensor", pointwise, infer_count_nonzero},
    {"aten.scatter_reduce.two",
     "(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
     pointwise, infer_scatter},
    {"aten.scatter.reduce", "(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
     pointwise, infer_scatter},
    {"aten.scatter.value_reduce", "(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
     pointwise, infer_scatter},
    {"aten.index_reduce.default",
     "(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
     pointwise, infer_index_copy},
    {"aten.logit.default", "(Tensor self, float? eps=None) -> Tensor", pointwise, infer_logit},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
