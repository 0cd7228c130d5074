// compile_program: the pipeline, from a graph file to a program directory.
//
// Why here: the whole product in one function that reads like a table of contents; cli/ only parses flags and prints.
//
//   CompileOptions options{.input = "mlp.pt2", .output = "mlp.qcg"};
//   QCG_TRY(report, compile_program(options));
#pragma once

#include <vector>

#include "base/result.h"
#include "codegen/kernel/source_graph.h"
#include "codegen/plan/plan.h"
#include "codegen/program/compile_options.h"
#include "codegen/program/compile_report.h"
#include "graph/ir/graph.h"
#include "graph/passes/pass_list.h"
#include "graph/read/read_graph.h"

namespace qcg {

Result<CompileReport> compile_program(const CompileOptions& options);

// Reads and runs the passes only: what `explain` shows. Weights are optional.
struct Explanation {
  Graph as_read, graph;                // before and after the passes
  SourceGraph source;                  // before them
  Plan plan;
  std::vector<PassReport> passes;
  ReadInfo read;
  int nodes_read = 0;
};
Result<Explanation> explain_graph(const CompileOptions& options);

// --emit: the lowered graph, the plan, the best-guess sources or their assembly, handed to options.on_emit.
Status emit_text(const CompileOptions& options);

}  // namespace qcg
