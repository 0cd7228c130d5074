// Layers that slide over axes, and recurrent ones, written in operations that have kernels.
//
// Why here: expand_layers.cpp walks the graph and decides in which order axes lie; these say what a layer computes.
//
//   convolution      windows of x as rows, times the weight as a matrix; a product per group if there are several
//   pools            windows of x, their maximum or mean; where the maximum is, from look-ups of the windows
//   interpolations   look-ups of x at constant positions, times their shares
//   samples          look-ups of x at positions that the graph computes, times their shares
//   lstm, gru, rnn   a linear of all steps, then per step a linear of the state and pointwise operations
#pragma once

#include "graph/rewrite/op_emitter.h"

namespace qcg {

// x and the result have their channels last: [batch, axes…, channels].
struct ChannelLayer {
  Op op;
  // A bad node leaves its error in the emitter.
  ValueId (*write)(OpEmitter& e, Graph& graph, const Node& node, ValueId x);
  // The second output, the positions of the first; written where somebody reads it.
  ValueId (*positions)(OpEmitter& e, Graph& graph, const Node& node, ValueId x) = nullptr;
};
const ChannelLayer* find_channel_layer(Op op);  // nullptr: none of these

// Upsampling and downsampling, as a row of the above.
ValueId write_interpolation(OpEmitter& e, Graph& graph, const Node& node, ValueId x);

// The weight of one of the four elements around a place, by Keys' cubic with a = -0.75. The place lies `share` above
// tap 0; taps are -1 to 2.
ValueId cubic_share(OpEmitter& e, ValueId share, int tap);

// Where the largest elements of a pool are.
ValueId write_pool_positions(OpEmitter& e, Graph& graph, const Node& node, ValueId x);

// Samples of an image at computed places, and the places of an affine transform: one value.
std::vector<ValueId> write_grid_sample(OpEmitter& e, const Graph& graph, const Node& node);
std::vector<ValueId> write_affine_grid(OpEmitter& e, const Graph& graph, const Node& node);

bool is_recurrence(const Node& node);
// One value per output.
std::vector<ValueId> write_recurrence(OpEmitter& e, const Graph& graph, const Node& node);

}  // namespace qcg
