// compile_model: the pipeline, from a model to a program directory.
//
// Why here: the whole product in one function that reads like a table of contents; cli/ only parses flags and prints.
//
//   GraphModel model(std::move(graph), {{"w", weight}});
//   QCG_TRY(report, compile_model(model, {.output = "mlp.qcg"}));
//
//   QCG_TRY(report, compile_program({.input = "mlp.pt2", .output = "mlp.qcg"}));      // from files
#pragma once

#include <vector>

#include "base/result.h"
#include "codegen/kernel/source_graph.h"
#include "codegen/plan/plan.h"
#include "codegen/program/compile_options.h"
#include "codegen/program/compile_report.h"
#include "codegen/program/model_source.h"
#include "graph/ir/graph.h"
#include "graph/passes/pass_list.h"
#include "graph/read/read_graph.h"

namespace qcg {

// options.input, .weights and .int4_packing are not looked at: the model is all there is.
Result<CompileReport> compile_model(ModelSource& model, const CompileOptions& options);
// The model is that of options.input and options.weights.
Result<CompileReport> compile_program(const CompileOptions& options);

// Runs the passes and plans only: what `explain` shows. Weights are optional.
struct Explanation {
  Graph graph;         // after the passes
  SourceGraph source;  // before them
  Plan plan;
  std::vector<PassReport> passes;
  ReadInfo read;
  int nodes_read = 0;
};
Result<Explanation> explain_model(const Model& model, const CompileOptions& options, PassCheckpoint& checkpoint);
// Likewise of options.input and options.weights.
Result<Explanation> explain_graph(const CompileOptions& options);

// --emit: the lowered graph, the plan, the best-guess sources or their assembly, handed to options.on_emit.
Status emit_text(const CompileOptions& options);

}  // namespace qcg
