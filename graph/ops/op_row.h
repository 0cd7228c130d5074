// OpRow: all that is said about one op in one place.
//
// Why here: the rows lie in rows_*.h by kind of op; op_table.h joins them.
//
//   {"aten.hardswish.default", "(Tensor self) -> Tensor", pointwise, infer_activation,
//    "div(mul(self, clamp(add(self, 3), 0, 6)), 6)", in_place},
//
// Signatures are as torch 2.13 and torchao 0.18 print them, without alias annotations. "Tensor|Scalar" is ours:
// exporters put a Python number where these schemas say Tensor. Expr[] is ours too.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/ir/op.h"

namespace qcg {

struct OpArgs;
struct Strided;
struct ValueType;

// Dtype and shape of every output (infer.h).
using ShapeRule = Result<std::vector<ValueType>>(const OpArgs&);
// Where the elements of the output lie, of those of the only tensor that is read (strides.h).
using StrideRule = Result<Strided>(const OpArgs&, const Strided& in);

struct OpRow {
  std::string_view name, signature;
  OpRole role = OpRole::view;
  ShapeRule* shape = nullptr;
  std::string_view formula;       // pointwise ops: of one element (formula.h)
  bool in_place = false;          // has a twin, relu_ for relu, that means the same: graphs are functional
  StrideRule* strides = nullptr;  // views other than reshapes

  constexpr OpRow() = default;
  constexpr OpRow(std::string_view name, std::string_view signature, OpRole role, ShapeRule* shape,
                  std::string_view formula = {}, bool in_place = false)
      : name(name), signature(signature), role(role), shape(shape), formula(formula), in_place(in_place) {}
  constexpr OpRow(std::string_view name, std::string_view signature, OpRole role, ShapeRule* shape, StrideRule* strides)
      : name(name), signature(signature), role(role), shape(shape), strides(strides) {}
};

// What rows are written in.
namespace rows {
using enum OpRole;
inline constexpr bool in_place = true;
}  // namespace rows

}  // namespace qcg
