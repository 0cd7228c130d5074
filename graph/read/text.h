// The IR text form, read.
//
// Why here: a reader like the others; tests, goldens and `qcodegen compile` take graphs in it. print_graph (ir/graph.h)
// writes it.
//
//   QCG_TRY(graph, parse_graph("graph(%x: f32[4]) {\n  return %x\n}\n"));
#pragma once

#include <string_view>

#include "graph/ir/graph.h"

namespace qcg {

Result<Graph> parse_graph(std::string_view text);

}  // namespace qcg
