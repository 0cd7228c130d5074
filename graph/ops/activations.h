// Activations that are more than one function of expr.h, as expressions of in0.
//
// Why here: the oracle evaluates what the passes fold and fuse, so that each has one text; torch's own values test it
// (tests/graph_core/torch_cases.txt). None but softplus has a step: where(x > 0, …) is written as max(x, 0) and
// min(x, 0), of which one is always 0, so that nothing in front of them has to keep its roundings (steps.h).
//
//   activation_of(%y = aten.leaky_relu(%x, negative_slope = 0.1))   ->   add(max(in0, 0), mul(min(in0, 0), 0.1))
#pragma once

#include <optional>

#include "graph/ir/graph.h"

namespace qcg {

std::optional<Expr> activation_of(const Node& node);  // nullopt: another op, or a parameter that is no number

}  // namespace qcg
