// dequantize_x, dequantize_w: a matrix of a scaled product as ordinary f32 numbers, in small operations.
//
// Why here: decompose writes both operands like this when nothing better is known, and fold_constants when the weight
// can be evaluated; recognition writes x like this when its scales change along K, which no kernel takes.
//
//   ValueId x = dequantize_x(e, graph, p.x, product(p.lead), p.k);   // (decoded x - zero) * scale, f32 [M, K]
#pragma once

#include "graph/ops/scaled_product.h"
#include "graph/rewrite/op_emitter.h"

namespace qcg {

// `rows` is M of x or N of w. x comes as [..., K], w as [K, N]; the result is [rows, K] for both.
ValueId dequantize_x(OpEmitter& e, const Graph& graph, const ScaledOperand& x, const Dim& rows, int64_t k);
ValueId dequantize_w(OpEmitter& e, const Graph& graph, const ScaledOperand& w, const Dim& rows, int64_t k);

// The whole node, as a matmul of both; an error stays in the emitter.
ValueId write_scaled_product(OpEmitter& e, const Graph& graph, const Node& node);

}  // namespace qcg
