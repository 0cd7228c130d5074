// Rows of the operator table (op_table.h): qcodegen's own ops, made by passes (ir/graph.h).
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/products.cpp
ShapeRule infer_qcg_matmul;
// shapes/own.cpp
ShapeRule infer_qcg_linear, infer_grouped_linear, infer_qcg_loop, infer_quantize_rows, infer_qcg_attention,
    infer_qcg_rows, infer_measure;
// shapes/constant.cpp
ShapeRule infer_scatter;
// shapes/layers.cpp
ShapeRule infer_windows;

namespace rows {

// clang-format off
inline constexpr OpRow kOwn[] = {
    {"qcg.linear",
     "(Tensor[] xs, Tensor? x_scale=None, Tensor? x_zero=None, Tensor[] weights, Tensor?[] scales=[], Tensor?[] "
     "zeros=[], Tensor?[] offsets=[], Tensor?[] biases=[], Tensor[] operands=[], str scheme='dense', int group=0, "
     "Expr[] epilogue) -> Tensor[]", internal, infer_qcg_linear},
    {"qcg.grouped_linear",
     "(Tensor x, Tensor ends, Tensor weight, Tensor? scale=None, Tensor? zero=None, Tensor? offset=None, str "
     "scheme='dense', int group=0) -> Tensor", internal, infer_grouped_linear},
    {"qcg.matmul", "(Tensor self, Tensor other, ScalarType dtype) -> Tensor", internal, infer_qcg_matmul},
    {"qcg.loop",
     "(Tensor[] operands, Expr[] exprs, ScalarType arithmetic=f32, SymInt[] sizes=[], SymInt[] shape=[]) -> Tensor[]",
     internal, infer_qcg_loop},
    {"qcg.attention",
     "(Tensor query, Tensor key, Tensor value, Tensor[] operands=[], Expr[] mask=[], Expr[] score, SymInt[] sizes=[], str "
     "empty='zero') -> Tensor", internal, infer_qcg_attention},
    {"qcg.quantize_rows",
     "(Tensor x, str mapping, int quant_min, int quant_max, float? eps=None, ScalarType scale_dtype=f32) -> "
     "(Tensor, Tensor, Tensor)", internal, infer_quantize_rows},
    {"qcg.rows",
     "(Tensor[] operands, Expr[] steps, str reduce, int[] stores, SymInt[] shape) -> Tensor[]", internal,
     infer_qcg_rows},
    {"qcg.combine_at", "(Tensor self, int dim, Tensor index, Tensor src, str reduce) -> Tensor", internal, infer_scatter},
    {"qcg.windows",
     "(Tensor x, Tensor? weight, str op, int[] kernel, int[] stride, int[] dilation, int[] before, SymInt[] places, "
     "Tensor[] operands=[], Expr[] epilogue=[], ScalarType? dtype=None) -> Tensor", internal, infer_windows},
    {"qcg.measure", "(Tensor value, SymInt size, SymInt most) -> ()", internal, infer_measure},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
