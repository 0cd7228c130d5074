// Steps: where a small difference of the argument is a whole one of the result, as in every quantization. What a step
// is given has to be what the graph says, bf16 and f16 roundings included; elsewhere a fused chain is rounded once, at
// its end.
//
// Why here: the passes ask which roundings they may drop, the oracle asks which it has to make.
//
//   %a = aten.amax(%x) : bf16[]                 decides a step: another scale is another %q
//   %s = aten.div(%a, 127) : bf16[]             decides a step
//   %q = qcg.loop([%x, %s], [cast_i8(round_even(div(in0, in1)))]) : i8[4, 8]
//   %y = aten.mul(%x, %x) : bf16[4, 8]          decides none, if only products and outputs read it
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

// What steps give: integers, truth values, 8-bit floats. Storing another number as one of them is a step.
bool is_code(DType dtype);

// round_even, floor, a rest, a comparison, a cast to a code: this node of the expression, not its arguments.
bool is_step(const Expr& expr);

// By value: whether it decides a step. Not as a factor of a product, whose own sums are not defined to the bit.
std::vector<bool> find_step_inputs(const Graph& graph);

}  // namespace qcg
