// Look-ups of activations at positions that are constants: index with tensors, index_select.
//
//   %y = aten.index(%x [B, 27, 27], [None, @i [351], @j [351]])      ->      %f = aten.reshape(%x, [B, 729])
//                                                                            %y = aten.cat(26 slices of %f, dim = 1)
//
// Why here: positions of models come in runs (a triangle of products, every other column, halves that change places),
// and a run is a slice, which needs no kernel. What this refuses is looked up at run time (codegen/gather/).
#pragma once

#include "graph/ir/graph.h"

namespace qcg {

bool is_look_up(const Node& node);

// Its result from slices, appended to the graph. Unsupported where positions have no bytes, stand apart or make too
// many runs, or where there are more than elements_left, which all look-ups of a graph share, to choose from.
Result<ValueId> gather_slices(Graph& graph, const Node& node, int64_t& elements_left);

}  // namespace qcg
