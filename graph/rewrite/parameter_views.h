// Views of parameters, computed on the tensor's strides: t(@w) is @w read another way, not an operation.
//
// Why here: fold_noops uses it; it is apart because strides are a story of their own.
//
//   std::optional<Tensor> wt = view_of_tensor(graph, node, graph.value(w).data);   // aten.t, aten.slice, aten.reshape …
#pragma once

#include <optional>

#include "graph/ir/graph.h"

namespace qcg {

// What `node`, a view op whose input is `input`, makes of it: same storage, other shape, strides, offset. nullopt when
// the op is not a view, an argument is symbolic or out of range, or no strided view exists. Needs no bytes.
std::optional<Tensor> view_of_tensor(const Graph& graph, const Node& node, const Tensor& input);

// The strided view of `input` under another shape with as many elements; nullopt when it would take a copy.
std::optional<Tensor> view_as_shape(const Tensor& input, const std::vector<int64_t>& shape);

}  // namespace qcg
