// Rows of the operator table (op_table.h): ops of torch's library that are other ops, put together
// (passes/library/library.h).
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/library.cpp
ShapeRule infer_norm_of_axes, infer_cosine_similarity, infer_pairwise_distance, infer_distances, infer_patches,
    infer_patch_sums, infer_median, infer_kth_value, infer_quantile, infer_searchsorted;

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
};
// clang-format on

}  // namespace rows
}  // namespace qcg
