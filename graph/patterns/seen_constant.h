// SeenConstant: a parameter as it arrives somewhere: cast, reshaped, permuted, repeated.
//
// Why here: scales of groups and blocks are repeated along one axis of a weight or both. A reshape of an expanded
// tensor has no strides of its own, but it still is its axes, cut finely enough, in another order:
//
//   reshape(expand(@s [2, 4, 1], [2, 4, 16]), [2, 64])     axes [2, 4, 16], strides [4, 1, 0]: groups of 16
#pragma once

#include <optional>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

struct SeenConstant {
  ValueId parameter = kNoValue;
  std::vector<DType> casts;  // those that change numbers, in order
  Tensor axes;               // the parameter in axes of which every one of `shape` is a product
  std::vector<int64_t> shape;

  bool reshape(std::vector<int64_t> to);           // false: not as many elements
  bool permute(const std::vector<size_t>& order);  // this one and the next: false also when an axis cannot be cut
  bool expand(const std::vector<int64_t>& to);
  int64_t different() const;  // elements that are not repetitions

 private:
  std::optional<std::vector<size_t>> cut_axes();
};

// nullopt: depends on an input, or on something that is not a view.
std::optional<SeenConstant> see_constant(const Graph& graph, ValueId id);
// The same change of shape as this node's, a reshape, permute or expand. False: it is none, or has symbolic sizes.
bool apply_view(const Graph& graph, const Node& node, SeenConstant& seen);

// One number per block of `block` columns of a [rows, columns] matrix, as a parameter of shape [rows, columns / block];
// kNoValue when numbers change within a block.
ValueId add_block_numbers(Graph& graph, SeenConstant seen, int64_t block);
// The longest block for which there is one number; seen is a matrix.
int64_t longest_block(const SeenConstant& seen);

}  // namespace qcg
