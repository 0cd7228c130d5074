// Rows of the operator table (op_table.h): products of matrices and rows in other spellings, and sums along an axis that
// weigh or leave out elements. A pass writes them as products, sums and pointwise operations (passes/library/).
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/sums.cpp
ShapeRule infer_tensordot, infer_inner, infer_dot_of_rows, infer_scaled_sum, infer_chain, infer_matrix_power,
    infer_cross, infer_bilinear, infer_trilinear, infer_vander, infer_trapezoid, infer_distance,
    infer_distances_of_pairs, infer_renorm;
// shapes/library.cpp
ShapeRule infer_median;
// shapes/pointwise.cpp
ShapeRule infer_sum, infer_mean;

namespace rows {

// clang-format off
inline constexpr OpRow kSums[] = {
    {"aten.tensordot.default", "(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
     pointwise, infer_tensordot},
    {"aten.inner.default", "(Tensor self, Tensor other) -> Tensor", pointwise, infer_inner},
    {"aten.vdot.default", "(Tensor self, Tensor other) -> Tensor", pointwise, infer_inner},
    {"aten.linalg_vecdot.default", "(Tensor x, Tensor y, *, int dim=-1) -> Tensor", pointwise, infer_dot_of_rows},
    {"aten.addr.default", "(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     pointwise, infer_scaled_sum},
    {"aten.addmv.default", "(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     pointwise, infer_scaled_sum},
    {"aten.addbmm.default", "(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     pointwise, infer_scaled_sum},
    {"aten.linalg_multi_dot.default", "(Tensor[] tensors) -> Tensor", pointwise, infer_chain},
    {"aten.matrix_power.default", "(Tensor self, int n) -> Tensor", pointwise, infer_matrix_power},
    {"aten.cross.default", "(Tensor self, Tensor other, int? dim=None) -> Tensor", pointwise, infer_cross},
    {"aten.linalg_cross.default", "(Tensor self, Tensor other, *, int dim=-1) -> Tensor", pointwise, infer_cross},
    {"aten.bilinear.default", "(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
     pointwise, infer_bilinear},
    {"aten._trilinear.default",
     "(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1) "
     "-> Tensor", pointwise, infer_trilinear},
    {"aten.vander.default", "(Tensor x, int? N=None, bool increasing=False) -> Tensor", pointwise, infer_vander},
    {"aten.linalg_vander.default", "(Tensor x, *, SymInt? N=None) -> Tensor", pointwise, infer_vander},
    {"aten.trapezoid.dx", "(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", pointwise, infer_trapezoid},
    {"aten.trapezoid.x", "(Tensor y, Tensor x, *, int dim=-1) -> Tensor", pointwise, infer_trapezoid},
    {"aten.cumulative_trapezoid.dx", "(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", pointwise, infer_trapezoid},
    {"aten.cumulative_trapezoid.x", "(Tensor y, Tensor x, *, int dim=-1) -> Tensor", pointwise, infer_trapezoid},
    {"aten.nansum.default",
     "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", pointwise, infer_sum},
    {"aten.nanmean.default",
     "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", pointwise, infer_mean},
    {"aten.dist.default", "(Tensor self, Tensor other, Scalar p=2) -> Tensor", pointwise, infer_distance},
    {"aten.pdist.default", "(Tensor self, float p=2.0) -> Tensor", pointwise, infer_distances_of_pairs},
    {"aten._pdist_forward.default", "(Tensor self, float p=2.0) -> Tensor", pointwise, infer_distances_of_pairs},
    {"aten.renorm.default", "(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", pointwise, infer_renorm},
    {"aten.nanmedian.default", "(Tensor self) -> Tensor", pointwise, infer_median},
    {"aten.nanmedian.dim", "(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
     pointwise, infer_median},
    {"aten.mode.default", "(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor, Tensor)", pointwise, infer_median},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
