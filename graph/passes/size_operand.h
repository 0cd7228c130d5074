// SizeTensors: a number that is a size known only at run time, as a tensor of one element.
//
//   %y = aten.add.Tensor(%x, 2*s0)   ->   %n = aten.sum(aten.expand(@one, [s0])), %y = aten.add.Tensor(%x, aten.mul(%n, 2))
//
// Why here: decompose writes this. Kernels take numbers that are known when they are compiled, and tensors; counting
// ones makes a tensor of a size without a kernel of its own, and an epilogue may then read it like any other operand.
#pragma once

#include <map>
#include <string>

#include "graph/rewrite/op_emitter.h"

namespace qcg {

// Whether a number in the arithmetic of this node is such a size.
bool computes_with_size(const Node& node);

class SizeTensors {
 public:
  // The node with tensors in place of those sizes; Unsupported where it has no overload that takes them.
  ValueId put_into(OpEmitter& e, Graph& graph, const Node& node);

 private:
  ValueId tensor_of(OpEmitter& e, Graph& graph, const Dim& size, DType dtype);

  std::map<std::string, ValueId> counts_;  // by symbol
};

}  // namespace qcg
