// Pointwise ops as scalar expressions.
//
// Why here: fold_epilogue hangs them on a linear, lower_loops on a loop; both need the same answer to "what does this
// node compute for one element": the formula of its op, or that of a quantization with constant parameters.
//
//   as_pointwise(graph, aten.add.Tensor(%a, %b, alpha = 2))  ->  {add(in0, mul(2, in1)), {%a, %b}}
#pragma once

#include <optional>
#include <span>

#include "graph/ops/formula.h"

namespace qcg {

// nullopt when the node is not pointwise or an argument is not understood. Casts (aten.to.dtype) are pointwise.
std::optional<Pointwise> as_pointwise(const Graph& graph, const Node& node);

// The same, of a node whose elements depend on those of its operands alone and not on where they are, as tril and eye do:
// it may change places with what moves elements.
std::optional<Pointwise> as_elementwise(const Graph& graph, const Node& node);

// The dequantization of a whole tensor says the shape of its operand as block_size: corrects it in `node`, which has
// got another operand. Other nodes stay as they are.
void fit_block_size(const Graph& graph, Node& node);

// What a loop is told besides its operands: the shape of its result where they do not span it.
Shape shape_beyond(const Graph& graph, const std::vector<ValueId>& operands, const Shape& result);

// The expression with every leaf inI replaced by with[I].
Expr substitute_inputs(const Expr& expr, std::span<const Expr> with);
// The expression with accI / inI renumbered: index -> map[index].
Expr renumber(const Expr& expr, std::span<const int> acc_map, std::span<const int> in_map);

bool is_call(const Expr& expr, std::string_view function);

// x * sigmoid(x) becomes silu(x), and a cast of a cast to the same dtype is dropped. With keep_casts false, casts to a
// floating type are dropped, too, because an intermediate is not rounded. Those below a step (graph/ops/steps.h), to 8
// bits, or to fewer bits than `result` has stay: there the rounding shows.
Expr simplify(Expr expr, DType result, bool keep_casts);

}  // namespace qcg
