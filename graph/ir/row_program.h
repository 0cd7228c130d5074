// RowProgram: what qcg.rows computes for every row of its shape: reductions along the last axis, and pointwise
// expressions before, between and behind them.
//
// Why here: the pass that fuses rows writes it, shape rule, oracle and planner read it, the kernel is printed from it.
//
//   steps = [mul(in0, in0), rsqrt(add(acc0, 1e-06)), mul(in1, mul(in0, acc1))], reduce = "mean - -", stores = [2]
//
// Step J may read the operands (inI) and the steps before it (accJ). A step that reduces has one value per row; so has
// one that reads nothing but such steps and operands whose last axis is 1. Every other has one value per element.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

enum class RowReduction : uint8_t { none, sum, mean, amax, amin };
std::string_view row_reduction_name(RowReduction reduction);  // "-", "sum", …
std::optional<RowReduction> row_reduction_from_name(std::string_view name);

struct RowStep {
  Expr expr;
  RowReduction reduction = RowReduction::none;
  bool per_row = false;  // of its value; the argument of a reduction has one per element
};

struct RowProgram {
  std::vector<RowStep> steps;
  std::vector<size_t> stores;  // by output: the step whose value it is

  std::string reductions() const;  // "mean - -"
};

// One value per row: its last axis is 1, or it has none.
bool is_per_row(const Shape& operand);

// Sets per_row of every step. `operands`: by operand, whether it has one value per row.
void find_per_row(RowProgram& program, const std::vector<bool>& operands);

// The program of a qcg.rows node; nullopt where its arguments are none: counts differ, a word or a number is unknown.
std::optional<RowProgram> read_row_program(const Graph& graph, const Node& node);

}  // namespace qcg
