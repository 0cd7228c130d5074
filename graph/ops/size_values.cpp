#include "graph/ops/size_values.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "graph/ir/elements.h"
#include "graph/ops/op_table.h"

namespace qcg {
namespace {

constexpr int kMaxSteps = 64;  // from the size to the number

constexpr Op kMoves[] = {"aten.to.dtype",         "aten.to.dtype_layout",         "aten.to.device",
                         "aten._to_copy.default", "aten.clone.default",           "aten.detach.default",
                         "aten.alias.default",    "aten.lift_fresh_copy.default", "aten.view.default",
                         "aten.reshape.default",  "aten.squeeze.default",         "aten.unsqueeze.default"};

bool is_any(Op op, std::span<const Op> ops) { return std::ranges::find(ops, op) != ops.end(); }

std::optional<Dim> held_by(const Graph& graph, ValueId id, int steps);

// A quotient of sizes by a number, as a tensor of floats holds it: exact for sizes below 2^24.
struct Fraction {
  Dim numerator;
  int64_t denominator = 1;
};

std::optional<Fraction> fraction_held_by(const Graph& graph, ValueId id, int steps);

std::optional<Fraction> fraction_of(const Graph& graph, const Arg& arg, int steps) {
  if (const Dim* number = arg.get<Dim>()) return Fraction{*number};
  if (const double* real = arg.get<double>(); real && *real == std::floor(*real) && std::abs(*real) < 0x1p53)
    return Fraction{static_cast<int64_t>(*real)};
  const ValueId* tensor = arg.get<ValueId>();
  return tensor && *tensor != kNoValue ? fraction_held_by(graph, *tensor, steps) : std::nullopt;
}

std::optional<Fraction> fraction_held_by(const Graph& graph, ValueId id, int steps) {
  constexpr int64_t kMostDenominator = int64_t{1} << 20;
  const Value& value = graph.value(id);
  if (!is_floating(value.dtype)) {
    auto size = held_by(graph, id, steps);
    return size ? std::optional(Fraction{std::move(*size)}) : std::nullopt;
  }
  if (steps == 0 || value.kind != ValueKind::node || !product(value.shape).is_constant(1)) return std::nullopt;
  const Node& node = graph.nodes[value.producer];
  if (is_any(node.op, kMoves)) return fraction_of(graph, node.arg("self"), steps - 1);
  if (node.op->arg_index("self") < 0 || node.op->arg_index("other") < 0) return std::nullopt;
  const auto a = fraction_of(graph, node.arg("self"), steps - 1), b = fraction_of(graph, node.arg("other"), steps - 1);
  if (!a || !b) return std::nullopt;
  if (is_op(node, "aten.div.Tensor")) {
    if (b->denominator != 1 || !b->numerator.is_constant() || b->numerator.constant() < 1 ||
        b->numerator.constant() > kMostDenominator / a->denominator)
      return std::nullopt;
    return Fraction{a->numerator, a->denominator * b->numerator.constant()};
  }
  const bool sum = is_op(node, "aten.add.Tensor"), difference = is_op(node, "aten.sub.Tensor");
  if ((!sum && !difference) || as_number(node.arg("alpha")) != 1.0 ||
      a->denominator > kMostDenominator / b->denominator)
    return std::nullopt;
  const Dim left = a->numerator * Dim(b->denominator), right = b->numerator * Dim(a->denominator);
  return Fraction{sum ? left + right : left - right, a->denominator * b->denominator};
}

// to(ceil(x), i64) and to(floor(x), i64) of such a quotient.
std::optional<Dim> rounded(const Graph& graph, const Arg& arg, int steps) {
  const ValueId* id = arg.get<ValueId>();
  const Value* value = id && *id != kNoValue ? &graph.value(*id) : nullptr;
  if (!value || value->kind != ValueKind::node || !is_floating(value->dtype)) return std::nullopt;
  const Node& node = graph.nodes[value->producer];
  const bool up = is_op(node, "aten.ceil.default");
  if (!up && !is_op(node, "aten.floor.default")) return std::nullopt;
  const auto x = fraction_of(graph, node.arg("self"), steps);
  if (!x) return std::nullopt;
  const Dim by(x->denominator);
  return up ? Dim(0) - Dim::floor_divide(Dim(0) - x->numerator, by) : Dim::floor_divide(x->numerator, by);
}

std::optional<Dim> operand(const Graph& graph, const Arg& arg, int steps) {
  if (const Dim* number = arg.get<Dim>()) return *number;
  const ValueId* tensor = arg.get<ValueId>();
  return tensor && *tensor != kNoValue ? held_by(graph, *tensor, steps) : std::nullopt;
}

std::optional<Dim> combined(const Graph& graph, const Node& node, int steps) {
  const Op op = node.op;
  if (op == "aten.neg.default") {
    const auto x = operand(graph, node.arg("self"), steps);
    return x ? std::optional(Dim(-1) * *x) : std::nullopt;
  }
  if (node.op->arg_index("self") < 0 || node.op->arg_index("other") < 0) return std::nullopt;
  if (node.op->arg_index("alpha") >= 0 && as_number(node.arg("alpha")) != 1) return std::nullopt;
  const auto a = operand(graph, node.arg("self"), steps), b = operand(graph, node.arg("other"), steps);
  if (!a || !b) return std::nullopt;
  if (op == "aten.add.Tensor" || op == "aten.add.Scalar") return *a + *b;
  if (op == "aten.sub.Tensor" || op == "aten.sub.Scalar") return *a - *b;
  if (op == "aten.rsub.Scalar" || op == "aten.rsub.Tensor") return *b - *a;
  if (op == "aten.mul.Tensor" || op == "aten.mul.Scalar") return *a * *b;
  if (op == "aten.floor_divide.default") return Dim::floor_divide(*a, *b);
  if (op == "aten.minimum.default") return Dim::smaller(*a, *b);
  if (op == "aten.maximum.default") return Dim::larger(*a, *b);
  return std::nullopt;
}

std::optional<Dim> held_by(const Graph& graph, ValueId id, int steps) {
  const Value& value = graph.value(id);
  if (!value.symbol.empty()) return Dim::symbol(value.symbol);
  const bool integers = !is_floating(value.dtype) && value.dtype != DType::boolean;
  if (value.kind == ValueKind::parameter && integers && value.data.bound() && value.data.numel() == 1)
    return Dim(read_elements<int64_t>(value.data)->front());
  if (steps == 0 || value.kind != ValueKind::node || !integers || !product(value.shape).is_constant(1))
    return std::nullopt;
  const Node& node = graph.nodes[value.producer];
  const Op op = node.op;
  if (op == "aten.scalar_tensor.default") return operand(graph, node.arg("s"), steps - 1);
  if (op == "aten.full.default") return operand(graph, node.arg("fill_value"), steps - 1);
  if (is_any(op, kMoves)) {
    auto size = rounded(graph, node.arg("self"), steps - 1);
    return size ? size : operand(graph, node.arg("self"), steps - 1);
  }
  return combined(graph, node, steps - 1);
}

}  // namespace

std::optional<Dim> size_held_by(const Graph& graph, ValueId id) {
  auto size = held_by(graph, id, kMaxSteps);
  return size && size->valid() ? size : std::nullopt;
}

ValueId input_held_by(const Graph& graph, ValueId id) {
  for (int steps = kMaxSteps; steps > 0; --steps) {
    const Value& value = graph.value(id);
    if (may_be_symbol(value)) return id;
    if (value.kind != ValueKind::node || value.dtype != DType::i64 || !product(value.shape).is_constant(1)) break;
    const Node& node = graph.nodes[value.producer];
    if (!is_any(node.op, kMoves) && node.op != Op("aten.select.int")) break;
    id = node.tensor("self");
    if (!product(graph.value(id).shape).is_constant(1)) break;
  }
  return kNoValue;
}

bool has_any(const Dim& size, const std::vector<std::string>& symbols) {
  return std::ranges::any_of(size.symbols(),
                             [&](const std::string& name) { return std::ranges::count(symbols, name) > 0; });
}

bool is_one_symbol(const Dim& size) {
  const auto symbols = size.symbols();
  return symbols.size() == 1 && size == Dim::symbol(symbols[0]);
}

Dim with_known(const Dim& dim, const KnownSizes& known) {
  if (!dim.valid() || dim.is_constant() || known.empty()) return dim;
  std::vector<Dim> terms;
  for (const auto& [monomial, coefficient] : dim.terms()) {
    Dim term = coefficient;
    for (const std::string& factor : monomial) {
      const auto found = known.find(factor);
      const auto call = found == known.end() ? Dim::as_call(factor) : std::nullopt;
      if (found != known.end()) term = term * found->second;
      else if (!call) term = term * Dim::symbol(factor);
      else {
        const Dim a = with_known(call->a, known), b = with_known(call->b, known);
        term = term * (call->function == "min" ? Dim::smaller(a, b) : Dim::floor_divide(a, b));
      }
    }
    terms.push_back(std::move(term));
  }
  return Dim::sum(terms);
}

}  // namespace qcg
