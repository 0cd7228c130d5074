// OpEmitter: writes small graphs node by node, types inferred.
//
// Why here: decompose and the recognizers that put work in front of a linear spell the same chains of casts, products
// and reshapes. After an error every call is a no-op, so that a chain needs one check at its end.
//
//   OpEmitter e(graph, node);                                  // new nodes take their place and origins from `node`
//   ValueId y = e.binary("aten.mul.Tensor", e.to(x, DType::f32), scale);
//   QCG_CHECK(e.status());
#pragma once

#include "graph/rewrite/rewrite.h"

namespace qcg {

inline Dim axis_number(size_t axis) { return Dim(static_cast<int64_t>(axis)); }

class OpEmitter {
 public:
  OpEmitter(Graph& graph, Node like) : graph_(graph), like_(std::move(like)) {}

  // Arguments that are not named take their defaults.
  ValueId op(Op name, std::vector<NamedArg> named);
  ValueId unary(Op name, ValueId x) { return op(name, {{"self", x}}); }
  ValueId binary(Op name, ValueId a, Arg b) { return op(name, {{"self", a}, {"other", std::move(b)}}); }
  ValueId to(ValueId x, DType dtype);
  ValueId widened(ValueId x);                  // f16 and bf16 as f32
  ValueId wide_product(ValueId a, ValueId b);  // of matrices, not rounded to f16 and bf16: more is added to it
  ValueId reshape(ValueId x, const Shape& shape);
  ValueId transpose(ValueId x);  // of a matrix
  ValueId parameter(const std::string& name, Tensor data);

  void fail(Error error) { error_ = std::move(error); }
  const Status& status() const { return error_; }

 protected:
  Graph& graph_;
  Node like_;
  Status error_;
};

}  // namespace qcg
