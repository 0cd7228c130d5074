// Formulas: what a pointwise op computes for one element, as a scalar expression over its operands.
//
// Why here: a row of the operator table says it once; fold_epilogue and lower_loops write kernels from it, the oracle
// evaluates it.
//
//   read_formula(graph, %y = aten.add.Tensor(%a, %b, alpha = 2))  ->  {add(in0, mul(2, in1)), {%a, %b}}
//
// A formula calls the functions of expr.h over arguments of the op, numbers, and `row` and `column`, the element's
// positions along the last two axes of the result. Operands are numbered as they are met, as are numbers that are sizes
// known only at run time.
// Functions of its own:
//   plus(a, b)                  add, which leaves out a number 0
//   times(a, b)                 mul, which leaves out a number 1; two numbers become their product (of div the quotient)
//   lt le eq ne not             written with gt and ge; truth values are 1 and 0, and only ne holds for NaN
//   truth(x)                    x != 0
//   quotient(a, b)              rounded down, or toward zero where `rounding_mode` says so; of integers floor_div or trunc_div
//   bit_and bit_or bit_xor inverse   for truth values: of their only bit
//   ten_to(n)                   10^n; 1 for a negative n
//   rest remainder              of a quotient rounded toward zero, and of one rounded down
//   polygamma(n, x)             digamma, trigamma, or a multiple of zeta; n is a number
//   common(x)                   in the dtype that self and other are compared in: 0.1 of bf16 equals 0.1
//   held(x)                     in the dtype that torch adds in, if that is bf16 or f16: a number is rounded
//   factor(x)                   the same of tensors with axes alone: torch multiplies by numbers as they are
//   clamp(x, low, high)         without a limit that is absent
//   cast(x)                     to the dtype of the result
//   gelu(x)                     or gelu_tanh, as `approximate` says, if there is one
//   power(x, y)                 x * x for 2; as products of integers, which are exact
//   finite(x)                   nan_to_num
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

struct Pointwise {
  Expr expr;                      // over in0, in1, …, pos0, …, size0, …
  std::vector<ValueId> operands;  // tensors that broadcast to the output; the same tensor once
  std::vector<Dim> sizes;         // the same size once
};

// What the reader of a formula knows of its arguments.
struct FormulaReader {
  std::function<std::optional<double>(const Arg&)> number = as_number;
  // A tensor that is one number everywhere, to be written as that number; none unless given.
  std::function<std::optional<double>(ValueId)> uniform = [](ValueId) { return std::nullopt; };
};

// What nan_to_num puts in the place of infinity.
double largest_finite(DType dtype);

// nullopt: an op without a formula, or a parameter that is no number.
std::optional<Pointwise> read_formula(const Graph& graph, const Node& node, const FormulaReader& reader = {});

}  // namespace qcg
