// Ops that are another spelling of products, sums, slices and look-ups.
//
// Why here: rows of composed_ops.cpp, in a file of their own; expand_layers.cpp writes einsum, so that a product with a
// weight is recognized as a linear.
//
//   einsum          a permute and a reshape of both sides, one matmul per tensor but the first
//   outer, mv, dot  a product of reshaped operands
//   logsumexp       amax, exp, sum, log
//   _weight_norm    a sum of squares per slice, pointwise
//   roll            a cat of two slices per axis
//   pad with what is there   a cat of slices, which are flipped, or expanded, per axis
//   meshgrid, broadcast_tensors   expands
//   masked_scatter  a running sum of the mask, a look-up, a where
#pragma once

#include "graph/rewrite/op_emitter.h"

namespace qcg {

bool is_einsum(Op op);

// One value per output of `node`; a bad node leaves its error in the emitter.
std::vector<ValueId> write_einsum(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_outer(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_product_of_vector(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_log_sum(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_weight_norm(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_roll(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_continuation(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_meshgrid(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_broadcast_tensors(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_masked_scatter(OpEmitter& e, const Graph& graph, const Node& node);

}  // namespace qcg
