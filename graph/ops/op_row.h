// OpRow: all that is said about one op in one place.
//
// Why here: the rows lie in rows_*.h by kind of op; op_table.h joins them.
//
//   {"aten.hardswish.default", "(Tensor self) -> Tensor", pointwise, infer_activation,
//    "div(mul(self, clamp(add(self, 3), 0, 6)), 6)", in_place},
//
// Signatures are as torch 2.13 and torchao 0.18 print them, without alias annotations. "Tensor|Scalar" is ours: exporters put a
// Python number where these schemas say Tensor. Expr[] is ours too.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/ir/op.h"

namespace qcg {

struct OpArgs;
struct ValueType;

// Dtype and shape of every output (infer.h).
using ShapeRule = Result<std::vector<ValueType>>(const OpArgs&);

struct OpRow {
  std::string_view name, signature;
  OpRole role;
  ShapeRule* shape;
  std::string_view formula = {};  // pointwise ops: of one element (formula.h)
  bool in_place = false;          // has a twin, relu_ for relu, that means the same: graphs are functional
};

// What rows are written in.
namespace rows {
using enum OpRole;
inline constexpr bool in_place = true;
}  // namespace rows

}  // namespace qcg
