// Plan: the lowered graph as a list of kernel launches over buffers. What compile.cpp builds and ProgramWriter writes.
//
// Why here: the only place where values become bytes: buffers, row strides, concatenations written in place, and which
// Problem each step runs. Pure: no compiler, no clock, no files.
//
//   QCG_TRY(plan, plan_kernels(graph, target));
//   print_plan(plan);      // --emit=plan
//
// Buffers hold one of: a user input, a user output, constants (packed or plain), a state, a temporary. A value is a
// view of a buffer: element offset and one stride per axis. Views (reshape, transpose, slice) make no step; a consumer
// that cannot read the strides it gets makes a copy step first.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/family.h"
#include "codegen/kernel/source_graph.h"
#include "codegen/kernel/target.h"
#include "graph/ir/graph.h"

namespace qcg {

enum class BufferKind : uint8_t { input, output, weights, temp, state };

struct PlanBuffer {
  BufferKind kind = BufferKind::temp;
  int index = 0;              // input, output, state: position in the signature
  Dim bytes;                  // temp: size; weights: constant
  int first = -1, last = -1;  // temp: alive from step to step, both included
};

struct PlanArg {
  int buffer = 0;
  Dim offset_bytes;
  std::optional<Dim> stride;  // elements between rows; nullopt: the row stride of the caller's own tensor
};

// A step that the runtime runs once per group of rows, with the weights of the group. Rows are sorted by group.
struct PlanGroups {
  int64_t count = 0;
  int weights = 0;          // the argument with packed weights of all groups
  DType ends = DType::i32;  // of the last argument: where each group's rows end
};

struct PlanStep {
  std::string name;  // for people: "gate_proj+up_proj", "silu·mul"
  int problem = 0;   // into Plan::problems; equal problems are shared
  std::vector<PlanArg> args;
  std::vector<Dim> params;
  std::vector<std::string> nodes;  // source nodes, topological order
  Dim rows;                        // of its first output: everything but the last axis; what logs call m
  std::optional<PlanGroups> groups = std::nullopt;
};

// Constants begin at multiples of this many bytes.
inline constexpr int64_t kSectionAlign = 4096;
constexpr int64_t align_section(int64_t bytes) { return (bytes + kSectionAlign - 1) / kSectionAlign * kSectionAlign; }

// Constant bytes of the program: a plain tensor, or one problem's packed weights. Those of several groups of rows are
// one after the other, in one buffer.
struct PlanConstant {
  int buffer = 0;
  int64_t bytes = 0;
  Tensor plain;                          // bound: plain row-major bytes
  int problem = -1;                      // >= 0: packed with this problem's layout …
  std::vector<SegmentTensors> segments;  // … from these
};

// A tensor that persists between runs.
struct PlanState {
  std::string name;
  ValueType type;
  int initial = -1;  // into Plan::constants: its value before the first run; -1: zeros
};

// A size that the run computes: before step `step` the symbol is the i64 at the start of `buffer`, at most `most`.
struct PlanMeasure {
  std::string symbol;
  int step = 0, buffer = 0;
  Dim most;
};

struct Plan {
  Target target;
  std::vector<Symbol> symbols;
  std::vector<SizeCondition> conditions;
  std::vector<ValueType> input_types, output_types;
  std::vector<std::string> input_names, output_names;
  std::vector<std::string> input_symbols;  // those whose values inputs are, by input; empty: of none
  std::vector<PlanMeasure> measures;       // in the order of their steps
  std::vector<PlanState> states;
  std::vector<PlanBuffer> buffers;
  std::vector<PlanStep> steps;
  std::vector<KernelProblem> problems;
  std::vector<PackedLayout> layouts;  // per problem; meaningful for GEMMs
  std::vector<PlanConstant> constants;
};

// Error Unsupported names the node that has no lowering. `source`: what steps are named after, and kernels' comments
// list.
Result<Plan> plan_kernels(const Graph& graph, const Target& target, const SourceGraph& source = {});
std::string print_plan(const Plan& plan);

}  // namespace qcg
