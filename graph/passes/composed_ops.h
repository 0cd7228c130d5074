// ComposedOp: an op that torch computes in one kernel, as small operations that have kernels here.
//
// Why here: decompose.cpp calls it for what no pattern took; these are formulas, those are quantizations.
//
//   softmax, log_softmax     amax and sum over the axis, pointwise
//   layer_norm, rms_norm     means over the last axes, pointwise
//   batch_norm               a product and a sum by channels
//   group_norm, instance_norm   means over the groups, pointwise
//   pixel_shuffle            a permute of split axes
//   var, std                 sum of squares of what is left of the mean
//   max, min over an axis    amax, amin
//   any, all                 a comparison of the sum of truth values
//   diff, pad                slices and cats
//   glu, prelu, baddbmm      slices, products and sums
//   stack                    cat of reshapes
//   einsum, roll, outer, …   see spelled_ops.h
//   tensor_cast.quantize     clamp(round(x / scale) + offset)
//
// As torch's kernels do, what is bf16 or f16 is computed in f32 and rounded once, at the end.
#pragma once

#include "graph/rewrite/op_emitter.h"

namespace qcg {

struct ComposedOp {
  Op op;
  // One value per output of `node`, of any floating dtype; a bad node leaves its error in the emitter.
  std::vector<ValueId> (*write)(OpEmitter& e, const Graph& graph, const Node& node);
};

const ComposedOp* find_composed(Op op);  // nullptr: none of these

// batch_norm of x, of whose shape `channels` is what the parameters are broadcast from.
ValueId normalize_channels(OpEmitter& e, const Node& node, ValueId x, const Shape& channels);

}  // namespace qcg
