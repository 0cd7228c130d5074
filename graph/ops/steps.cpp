#include "graph/ops/steps.h"

#include <algorithm>

#include "graph/ops/op_table.h"

namespace qcg {
namespace {

// Products, whatever their role.
constexpr Op kProducts[] = {"qcg.matmul", "qcg.attention", "aten.scaled_dot_product_attention.default",
                            "aten._scaled_dot_product_flash_attention_for_cpu.default",
                            "aten._scaled_dot_product_attention_math.default"};

// Functions with steps. Those whose parts meet, such as leaky_relu, compare and have none.
constexpr Op kSteps[] = {
    "aten.round.default",     "aten.round.decimals",     "aten.floor.default",        "aten.ceil.default",
    "aten.trunc.default",     "aten.frac.default",       "aten.fmod.Tensor",          "aten.fmod.Scalar",
    "aten.remainder.Tensor",  "aten.remainder.Scalar",   "aten.floor_divide.default", "aten.floor_divide.Scalar",
    "aten.div.Tensor_mode",   "aten.div.Scalar_mode",    "aten.sign.default",         "aten.sgn.default",
    "aten.heaviside.default", "aten.hardshrink.default", "aten.threshold.default"};

bool has_step(const Expr& expr) { return is_step(expr) || std::any_of(expr.args.begin(), expr.args.end(), has_step); }

bool has_step(const Node& node) {
  return std::any_of(node.args.begin(), node.args.end(), [](const Arg& arg) {
    const auto* exprs = arg.get<std::vector<Expr>>();
    return exprs && std::any_of(exprs->begin(), exprs->end(), [](const Expr& e) { return has_step(e); });
  });
}

bool makes_codes(const Graph& graph, const Node& node) {
  bool reads_numbers = false;
  for_each_input(node, [&](ValueId id) { reads_numbers = reads_numbers || !is_code(graph.value(id).dtype); });
  return reads_numbers && std::any_of(node.outputs.begin(), node.outputs.end(),
                                      [&](ValueId id) { return is_code(graph.value(id).dtype); });
}

bool makes_steps(const Graph& graph, const Node& node) {
  if (node.op->role == OpRole::view) return false;
  return is_any_op(node, kSteps) || has_step(node) || makes_codes(graph, node);
}

// What the node's result follows step by step: of a linear only what its epilogue reads.
template <class F>
void for_each_exact_input(const Node& node, F&& f) {
  if (node.op->role == OpRole::matmul || is_any_op(node, kProducts)) return;
  if (!is_op(node, "qcg.linear")) return for_each_input(node, f);
  for (ValueId id : *node.arg("operands").get<std::vector<ValueId>>()) f(id);
}

}  // namespace

bool is_code(DType dtype) { return !is_floating(dtype) || is_float8(dtype); }

bool is_step(const Expr& expr) {
  if (expr.kind == ExprKind::cast) return is_code(expr.dtype);
  return expr.kind == ExprKind::call &&
         (expr.function == "round_even" || expr.function == "floor" || expr.function == "gt" || expr.function == "ge" ||
          expr.function.ends_with("_div") || expr.function.ends_with("mod"));
}

std::vector<bool> find_step_inputs(const Graph& graph) {
  std::vector<bool> decides(graph.values.size(), false);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool exact = makes_steps(graph, *node) ||
                       std::any_of(node->outputs.begin(), node->outputs.end(), [&](ValueId id) { return decides[id]; });
    if (exact) for_each_exact_input(*node, [&](ValueId id) { decides[id] = true; });
  }
  return decides;
}

}  // namespace qcg
