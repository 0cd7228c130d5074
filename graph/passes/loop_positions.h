// Loops that read no tensor, as an arange becomes: their elements are expressions of their positions, and so are those
// of what views make of them.
//
//   %i = qcg.loop([], [pos0], shape = [s0]) : i64[s0]
//   %c = aten.reshape(%i, [s0, 1])             element of %c, seen from [s0, s1]: pos0
//   %d = aten.slice(%i, 0, 3, step = 2)        element of %d: add(mul(2, pos0), 3)
//
// Why here: fuse_loops writes these into the loops that read them, so that no tensor of positions is made.
#pragma once

#include <optional>

#include "graph/ops/formula.h"

namespace qcg {

struct SeenPositions {
  const Node* loop;  // dies with the next emit()
  Expr expr;         // over positions of the reader and `sizes`
  std::vector<Dim> sizes;
};

// The elements of `id` for a reader of this shape, which it broadcasts to; nullopt where it is no view of such a loop,
// or of a view that strides cannot say.
std::optional<SeenPositions> see_positions(const Graph& graph, ValueId id, const Shape& shape);

}  // namespace qcg
