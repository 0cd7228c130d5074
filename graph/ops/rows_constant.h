// Rows of the operator table (op_table.h): ops whose operands have to be constants (passes/unpack_constants.cpp), and
// look-ups.
#pragma once

#include "graph/ops/op_row.h"

namespace qcg {

// shapes/constant.cpp
ShapeRule infer_arange, infer_eye, infer_numbers, infer_remainder, infer_quotient, infer_exp2, infer_power_of,
    infer_ldexp, infer_index, infer_index_select, infer_embedding, infer_gather, infer_take, infer_take_along,
    infer_view_dtype, infer_empty, infer_copy, infer_slice_scatter, infer_integers, infer_select_scatter,
    infer_index_copy, infer_index_put, infer_scatter, infer_linspace, infer_triangle_indices;

namespace rows {

// clang-format off
inline constexpr OpRow kConstant[] = {
    {"aten.arange.default",
     "(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
     "Tensor", constant, infer_arange, "column"},
    {"aten.arange.start",
     "(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_arange, "plus(start, column)"},
    {"aten.arange.start_step",
     "(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor", constant, infer_arange, "plus(start, times(step, column))"},
    {"aten.linspace.default",
     "(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_linspace},
    {"aten.logspace.default",
     "(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor", constant, infer_linspace},
    {"aten.tril_indices.default",
     "(int row, int col, int offset=0, *, ScalarType? dtype=i64, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_triangle_indices},
    {"aten.triu_indices.default",
     "(int row, int col, int offset=0, *, ScalarType? dtype=i64, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor", constant, infer_triangle_indices},
    {"aten.floor_divide.default", "(Tensor self, Tensor|Scalar other) -> Tensor", constant, infer_remainder, "quotient(self, other)"},
    {"aten.floor_divide.Scalar", "(Tensor self, Scalar other) -> Tensor", constant, infer_remainder, "quotient(self, other)"},
    {"aten.div.Tensor_mode", "(Tensor self, Tensor|Scalar other, *, str? rounding_mode) -> Tensor",
     constant, infer_quotient, "quotient(self, other)"},
    {"aten.div.Scalar_mode", "(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", constant, infer_quotient, "quotient(self, other)"},
    {"aten.remainder.Tensor", "(Tensor self, Tensor|Scalar other) -> Tensor", constant, infer_remainder, "remainder(self, other)"},
    {"aten.remainder.Scalar", "(Tensor self, Scalar other) -> Tensor", constant, infer_remainder, "remainder(self, other)"},
    {"aten.fmod.Tensor", "(Tensor self, Tensor|Scalar other) -> Tensor",
     constant, infer_remainder, "rest(self, other)"},
    {"aten.fmod.Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_remainder, "rest(self, other)"},
    {"aten.eye.default",
     "(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     constant, infer_eye, "eq(row, column)"},
    {"aten.eye.m",
     "(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) "
     "-> Tensor", constant, infer_eye, "eq(row, column)"},
    {"aten.erfinv.default", "(Tensor self) -> Tensor", constant, infer_exp2, "erfinv(self)"},
    {"aten.exp2.default", "(Tensor self) -> Tensor", constant, infer_exp2, "pow(2, self)"},
    {"aten.pow.Scalar", "(Scalar self, Tensor exponent) -> Tensor", constant, infer_power_of, "pow(held(self), held(exponent))"},
    {"aten.ldexp.Tensor", "(Tensor self, Tensor other) -> Tensor", constant, infer_ldexp, "mul(self, pow(2, other))"},
    {"aten.index.Tensor", "(Tensor self, Tensor?[] indices) -> Tensor", look_up, infer_index},
    {"aten._unsafe_index.Tensor", "(Tensor self, Tensor?[] indices) -> Tensor", look_up, infer_index},
    {"aten.index_select.default", "(Tensor self, int dim, Tensor index) -> Tensor", look_up, infer_index_select},
    {"aten.embedding.default",
     "(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> "
     "Tensor", look_up, infer_embedding},
    {"aten.gather.default", "(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
     look_up, infer_gather},
    {"aten.take_along_dim.default", "(Tensor self, Tensor indices, int? dim=None) -> Tensor",
     look_up, infer_take_along},
    {"aten.take.default", "(Tensor self, Tensor index) -> Tensor", look_up, infer_take},
    {"aten.view.dtype", "(Tensor self, ScalarType dtype) -> Tensor", constant, infer_view_dtype},
    {"aten.empty.memory_format",
     "(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor", constant, infer_empty},
    {"aten.copy.default", "(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", constant, infer_copy},
    {"aten.slice_scatter.default",
     "(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
     constant, infer_slice_scatter},
    {"aten.select_scatter.default", "(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
     constant, infer_select_scatter},
    {"aten.index_copy.default", "(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
     constant, infer_index_copy},
    {"aten.index_put.default", "(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
     constant, infer_index_put},
    {"aten.index_add.default", "(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
     constant, infer_index_copy},
    {"aten.scatter_add.default", "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", constant, infer_scatter},
    {"aten.scatter.src", "(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", constant, infer_scatter},
    {"aten.scatter.value", "(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", constant, infer_scatter},
    {"aten.bitwise_and.Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_integers, "bit_and(self, other)"},
    {"aten.bitwise_or.Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_integers, "bit_or(self, other)"},
    {"aten.bitwise_xor.Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_integers, "bit_xor(self, other)"},
    {"aten.__and__.Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_integers, "bit_and(self, other)"},
    {"aten.__or__.Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_integers, "bit_or(self, other)"},
    {"aten.__xor__.Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_integers, "bit_xor(self, other)"},
    {"aten.bitwise_left_shift.Tensor", "(Tensor self, Tensor other) -> Tensor",
     constant, infer_numbers, "shift_left(self, other)"},
    {"aten.bitwise_right_shift.Tensor", "(Tensor self, Tensor other) -> Tensor",
     constant, infer_numbers, "shift_right(self, other)"},
    {"aten.bitwise_left_shift.Tensor_Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_numbers, "shift_left(self, other)"},
    {"aten.bitwise_right_shift.Tensor_Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_numbers, "shift_right(self, other)"},
    {"aten.__lshift__.Tensor", "(Tensor self, Tensor other) -> Tensor",
     constant, infer_numbers, "shift_left(self, other)"},
    {"aten.__rshift__.Tensor", "(Tensor self, Tensor other) -> Tensor",
     constant, infer_numbers, "shift_right(self, other)"},
    {"aten.__lshift__.Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_numbers, "shift_left(self, other)"},
    {"aten.__rshift__.Scalar", "(Tensor self, Scalar other) -> Tensor",
     constant, infer_numbers, "shift_right(self, other)"},
};
// clang-format on

}  // namespace rows
}  // namespace qcg
