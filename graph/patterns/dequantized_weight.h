// Weights written as torchao.dequantize_affine(@w, block_size, @scale, @zero, …).
//
// Why here: weight-only and dynamically quantized linears share this half of their pattern.
#pragma once

#include "graph/patterns/recognizer.h"

namespace qcg {

// The bits that a dequantize_affine promises for its input: 4 when quant_min..quant_max lies in [-8, 7], else 8.
int dequantized_bits(const Node& dequantize);

// Fills weight, scale, zero, scheme (w4 or w8) and group; says what is missing if this is not such a weight.
std::optional<std::string> take_dequantized_weight(Graph& graph, NodeId dequantize, bool weight_kn, LinearSpec& spec);

// Does the block of a (de)quantize node cover exactly one row (all axes but the last are 1)?
bool is_row_block(const Graph& graph, const Node& node);

}  // namespace qcg
