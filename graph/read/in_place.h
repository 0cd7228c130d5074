// In-place operators (sub_, add_) as plain ones: allowed where nobody can tell the difference.
//
// Why here: exporters leave a few in (torchao writes sub_ on a fresh product). The IR is functional and reads sub_ as sub,
// which is wrong if the overwritten tensor, or a view of it, is used again: such graphs are refused.
//
//   %y = sub_(%acc, %b);  relu(%y)      fine
//   %y = sub_(%acc, %b);  relu(%acc)    refused: relu would read the old value
#pragma once

#include "graph/ir/graph.h"

namespace qcg {

Status check_in_place(const Graph& graph);  // precondition: verified

}  // namespace qcg
