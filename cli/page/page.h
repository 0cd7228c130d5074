// The page of `qcodegen report`: what is known of a program, as JSON, and the HTML that draws it.
//
// Why here: report_command.cpp reads flags. Here a program directory, its records and the graph it came from become one
// document. What is drawn from it, and how, is in web/, which the binary carries. Names from files reach the page as
// JSON strings alone, and become text nodes there.
//
//   QCG_TRY(program, read_page_program({.program = "mlp.qcg"}));
//   const std::string html = page_html(page_data({&program, 1}));
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/kernel/source_graph.h"
#include "codegen/plan/plan.h"
#include "codegen/program/compile_report.h"
#include "codegen/tune/tune.h"
#include "graph/ir/graph.h"
#include "runtime/program_manifest.h"

namespace qcg {

struct PageSource {
  std::string program;
  std::string target;                // of the program's; empty: the one that runs here
  std::string graph;                 // that it was compiled from; empty: where it was then
  std::vector<std::string> weights;  // likewise
};

// A program and all that its directory says of it.
struct PageProgram {
  std::string path;
  ProgramManifest manifest;
  std::vector<TuneRecord> log;            // empty: there is none
  std::optional<CompileReport> compiled;  // nullopt: it has no report of its compile
  std::vector<int> log_kernels;           // by record of the log: a place in `modules`, or -1
  std::vector<std::string> modules;  // of all steps, each once; the number of a kernel in the page is its place here

  // The graph as it was read, and what the passes and the planner make of it. Without it, `why_no_graph`.
  std::optional<Graph> graph;
  std::optional<Plan> plan;  // with the steps of the manifest
  SourceGraph source;
  std::vector<PassReport> passes;
  std::string why_no_graph;

  // The methods of the program: one for a program without named methods.
  std::vector<const ProgramManifest*> methods() const;
  int kernel_of(const std::string& module) const;  // -1: none of the program
};

// Error BadInput: no program, or a damaged one. A graph that is gone or a log that cannot be read is no error.
Result<PageProgram> read_page_program(const PageSource& source);

nlohmann::json program_json(const PageProgram& program);
// Steps, the times of steps at some sizes, and the memory plan at these.
nlohmann::json methods_json(const PageProgram& program);
// The graph before the passes, and the step that took each node.
nlohmann::json graph_json(const PageProgram& program);

// One program, or two to compare.
nlohmann::json page_data(std::span<const PageProgram> programs);
std::string page_html(const nlohmann::json& data);

}  // namespace qcg
