#include "graph/rewrite/exact_integers.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

double most_of_expr(const Expr& e, std::span<const double> ins) {
  if (e.kind == ExprKind::number) return std::fabs(e.value);
  if (e.kind == ExprKind::in) return ins[static_cast<size_t>(e.index)];
  if (e.args.empty()) return INFINITY;
  std::vector<double> args;
  for (const Expr& arg : e.args) args.push_back(most_of_expr(arg, ins));
  if (*std::ranges::max_element(args) > ExactIntegers::kMost) return INFINITY;
  if (e.kind == ExprKind::cast && e.dtype == DType::u8) return 255;  // -1 wraps to 255
  if (e.kind == ExprKind::cast) return is_floating(e.dtype) ? INFINITY : e.dtype == DType::boolean ? 1 : args[0];
  if (e.function == "gt" || e.function == "ge") return 1;
  if (e.function == "add" || e.function == "sub") return args[0] + args[1];
  if (e.function == "mul") return args[0] * args[1];
  if (e.function == "max" || e.function == "min") return std::max(args[0], args[1]);
  if (e.function == "neg" || e.function == "abs") return args[0];
  if (e.function == "where") return std::max(args[1], args[2]);
  return INFINITY;
}

}  // namespace

double ExactIntegers::most(ValueId id) {
  if (const auto it = known_.find(id); it != known_.end()) return it->second;
  const double bound = bound_of(id);
  return known_[id] = bound <= kMost ? bound : INFINITY;
}

double ExactIntegers::bound_of(ValueId id) {
  const Value& value = graph_.value(id);
  if (is_floating(value.dtype)) return INFINITY;
  if (value.dtype == DType::boolean) return 1;
  if (dtype_bytes(value.dtype) == 1) return 255;
  const Node* node = producer_of(graph_, id);
  if (!node) return INFINITY;
  if (is_op(*node, "qcg.loop")) {
    if (*node->arg("arithmetic").get<DType>() != DType::i64) return INFINITY;
    std::vector<double> ins;
    for (ValueId operand : *node->arg("operands").get<std::vector<ValueId>>()) ins.push_back(most(operand));
    return most_of_expr((*node->arg("exprs").get<std::vector<Expr>>())[value.output], ins);
  }
  if (is_op(*node, "aten.reshape.default")) return most(node->tensor("self"));
  if (is_op(*node, "aten.amax.default") || is_op(*node, "aten.amin.default")) return most(node->tensor("self"));
  if (!is_op(*node, "aten.sum.dim_IntList")) return INFINITY;
  const Dim all = product(graph_.value(node->tensor("self")).shape);
  const std::optional<Dim> each = all.divide_exactly(product(value.shape));
  return most(node->tensor("self")) * static_cast<double>(range_of(each ? *each : all, graph_.symbols).max);
}

}  // namespace qcg
