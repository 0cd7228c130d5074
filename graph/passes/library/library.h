// LibraryOp: an op that torch's library computes with others, written as these.
//
// Why here: expand_layers.cpp writes them, before products are recognized as linears and before decompose takes what is
// left: they may be written in any op that it takes.
//
//   norms                      powers, sums or extremes
//   cosine_similarity, pairwise_distance   norms of both, or of their difference
//   cdist                      norms of differences; of many rows a product
//   im2col, col2im             windows; a sum at their positions
//   max_unpool                 a write at positions
//   median, kthvalue, quantile   an order along an axis, and what stands at places of it
//   searchsorted, bucketize    how many comparisons hold
//   parts, stacks, diagonals   slices, cats, views, a mask
//   var_mean, aminmax          two ops
//   products                   matmuls of permuted axes, chains, scaled sums
//   trapezoids, nansum         weighted sums of slices, sums of what is no NaN
//   frexp, mvlgamma            a power of two by a logarithm; a sum of logarithms
//   losses                     pointwise ops, sums over rows, look-ups of classes
//   Fourier transforms         products with matrices of cosines and sines
//   scatter_reduce, index_reduce   writes that combine (qcg.combine_at); a mean is a sum by a count
#pragma once

#include <span>

#include "graph/rewrite/op_emitter.h"

namespace qcg {

struct LibraryOp {
  Op op;
  // One value per output of `node`, of any shape with as many elements; a bad node leaves its error in the emitter.
  std::vector<ValueId> (*write)(OpEmitter& e, const Graph& graph, const Node& node);
};
const LibraryOp* find_library_op(Op op);  // nullptr: none of these

std::span<const LibraryOp> library_distances();
std::span<const LibraryOp> library_patches();
std::span<const LibraryOp> library_orders();
std::span<const LibraryOp> library_arrangements();
std::span<const LibraryOp> library_writes();
std::span<const LibraryOp> library_fourier();
std::span<const LibraryOp> library_losses();
std::span<const LibraryOp> library_functions();
std::span<const LibraryOp> library_products();
std::span<const LibraryOp> library_sums();

}  // namespace qcg
