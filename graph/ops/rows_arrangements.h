// Rows of the operator table (op_table.h): elements in other places, and elements at positions. A pass writes them as
// slices, views, stacks and writes (passes/library/).
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/arrangements.cpp
ShapeRule infer_parts, infer_joined, infer_turned, infer_moved_axes, infer_at_least, infer_block_diag,
    infer_cartesian_product, infer_combinations, infer_diagonal_scatter, infer_sum_to_size, infer_sorted_rows;
// shapes/positions.cpp
ShapeRule infer_isin, infer_index_fill, infer_put;

namespace rows {

// clang-format off
inline constexpr OpRow kArrangements[] = {
    {"aten.hsplit.int", "(Tensor self, int sections) -> Tensor[]", pointwise, infer_parts},
    {"aten.hsplit.array", "(Tensor self, int[] indices) -> Tensor[]", pointwise, infer_parts},
    {"aten.vsplit.int", "(Tensor self, int sections) -> Tensor[]", pointwise, infer_parts},
    {"aten.vsplit.array", "(Tensor self, int[] indices) -> Tensor[]", pointwise, infer_parts},
    {"aten.dsplit.int", "(Tensor self, int sections) -> Tensor[]", pointwise, infer_parts},
    {"aten.dsplit.array", "(Tensor self, int[] indices) -> Tensor[]", pointwise, infer_parts},
    {"aten.dstack.default", "(Tensor[] tensors) -> Tensor", pointwise, infer_joined},
    {"aten.rot90.default", "(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", pointwise, infer_turned},
    {"aten.fliplr.default", "(Tensor self) -> Tensor", pointwise, infer_turned},
    {"aten.flipud.default", "(Tensor self) -> Tensor", pointwise, infer_turned},
    {"aten.movedim.intlist", "(Tensor self, int[] source, int[] destination) -> Tensor", pointwise, infer_moved_axes},
    {"aten.moveaxis.intlist", "(Tensor self, int[] source, int[] destination) -> Tensor", pointwise, infer_moved_axes},
    {"aten.atleast_1d.default", "(Tensor self) -> Tensor", pointwise, infer_at_least},
    {"aten.atleast_2d.default", "(Tensor self) -> Tensor", pointwise, infer_at_least},
    {"aten.atleast_3d.default", "(Tensor self) -> Tensor", pointwise, infer_at_least},
    {"aten.block_diag.default", "(Tensor[] tensors) -> Tensor", pointwise, infer_block_diag},
    {"aten.cartesian_prod.default", "(Tensor[] tensors) -> Tensor", pointwise, infer_cartesian_product},
    {"aten.combinations.default", "(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
     pointwise, infer_combinations},
    {"aten.diagonal_scatter.default", "(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     pointwise, infer_diagonal_scatter},
    {"aten.sum_to_size.default", "(Tensor self, SymInt[] size) -> Tensor", pointwise, infer_sum_to_size},
    {"aten.msort.default", "(Tensor self) -> Tensor", pointwise, infer_sorted_rows},
    {"aten.isin.Tensor_Tensor",
     "(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
     pointwise, infer_isin},
    {"aten.isin.Tensor_Scalar",
     "(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor",
     pointwise, infer_isin},
    {"aten.isin.Scalar_Tensor",
     "(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
     pointwise, infer_isin},
    {"aten.index_fill.int_Scalar", "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
     pointwise, infer_index_fill},
    {"aten.index_fill.int_Tensor", "(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
     pointwise, infer_index_fill},
    {"aten.put.default", "(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
     pointwise, infer_put},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
