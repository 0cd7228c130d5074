// Sizes that a graph carries through tensors: torch.tensor(x.shape[0]) - 1 is a tensor of one integer, and .item() of it a
// size again.
//
// Why here: torch.export gives such a number a symbol of its own, u0, and the lengths of slices by it others; the sizes
// of the inputs determine them all.
//
//   const auto size = size_held_by(graph, id);      // 64 - min(64, s70)
//   known.emplace("u0", *size);   with_known(dim, known);
#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph/ir/graph.h"

namespace qcg {

// The only element of an integer tensor, where sizes alone determine it; nullopt: data does.
std::optional<Dim> size_held_by(const Graph& graph, ValueId id);

// The input of one integer whose element the tensor holds; kNoValue: there is none.
ValueId input_held_by(const Graph& graph, ValueId id);

bool has_any(const Dim& size, const std::vector<std::string>& symbols);  // of these symbols, in calls, too
bool is_one_symbol(const Dim& size);                                     // s0, not 2*s0 or s0+1

using KnownSizes = std::map<std::string, Dim, std::less<>>;

// The size with known symbols replaced; may be invalid.
Dim with_known(const Dim& dim, const KnownSizes& known);

}  // namespace qcg
