#include "graph/passes/row_builder.h"

#include <algorithm>
#include <limits>

#include "graph/ops/op_table.h"

namespace qcg {

namespace {

Expr step_call(std::string_view function, Expr a) { return Expr::call(function, {std::move(a)}); }
Expr step_call(std::string_view function, Expr a, Expr b) { return Expr::call(function, {std::move(a), std::move(b)}); }
Expr clamped(Expr x, double low, double high) {
  return Expr::call("clamp", {std::move(x), Expr::number(low), Expr::number(high)});
}

int count_reads(const Expr& e, int step) {
  if (e.kind == ExprKind::acc) return e.index == step ? 1 : 0;
  int count = 0;
  for (const Expr& arg : e.args) count += count_reads(arg, step);
  return count;
}

}  // namespace

Expr RowBuilder::operand(ValueId id) {
  auto it = std::ranges::find(operands_, id);
  if (it == operands_.end()) it = operands_.insert(operands_.end(), id);
  return Expr::in(static_cast<int>(it - operands_.begin()));
}

Expr RowBuilder::add(Expr expr, RowReduction reduction) {
  program_.steps.push_back({std::move(expr), reduction});
  return Expr::acc(static_cast<int>(program_.steps.size() - 1));
}

Expr RowBuilder::pointwise(Expr expr, DType dtype) {
  const bool rounds = dtype != DType::f32 && dtype != DType::f64;
  if (rounds && !(expr.kind == ExprKind::cast && expr.dtype == dtype)) expr = Expr::cast(dtype, std::move(expr));
  return add(std::move(expr));
}

Expr RowBuilder::reduce(RowReduction reduction, Expr argument, DType dtype) {
  Expr value = add(std::move(argument), reduction);
  return dtype == DType::f32 || dtype == DType::f64 ? value : pointwise(std::move(value), dtype);
}

bool RowBuilder::can_quantize(const Node& node) {
  return *node.arg("mapping").get<std::string>() != "PER_TOKEN_ASYMMETRIC";  // whose elements are scaled in f64
}

RowBuilder::Quantized RowBuilder::quantize(const Graph& graph, const Node& node, const Expr& x) {
  const std::string& mapping = *node.arg("mapping").get<std::string>();
  const DType input = graph.value(node.tensor("x")).dtype, scale_dtype = *node.arg("scale_dtype").get<DType>();
  const double low = *as_number(node.arg("quant_min")), high = *as_number(node.arg("quant_max"));
  const double smallest_normal = input == DType::f16 ? 0x1p-14 : static_cast<double>(std::numeric_limits<float>::min());
  const double given = as_number(node.arg("eps")).value_or(0);
  const Expr eps = Expr::number(given > 0 ? given : smallest_normal);
  const DType steps = mapping == "PER_TOKEN" ? scale_dtype : input;
  const auto rounded = [&](Expr e, DType dtype) { return dtype == DType::f32 ? e : Expr::cast(dtype, std::move(e)); };
  Expr scale, zero;
  if (mapping == "ASYMMETRIC") {
    const Expr lo = add(step_call("min", add(x, RowReduction::amin), Expr::number(0))),
               hi = add(step_call("max", add(x, RowReduction::amax), Expr::number(0)));
    scale = add(step_call(
        "max", rounded(step_call("div", rounded(step_call("sub", hi, lo), steps), Expr::number(high - low)), steps),
        rounded(eps, steps)));
    const Expr steps_below = step_call("round_even", rounded(step_call("div", lo, scale), steps));
    zero = add(clamped(rounded(step_call("sub", Expr::number(low), steps_below), steps), low, high));
  } else {
    const double divisor = mapping == "PER_TOKEN" ? 127 : (high - low) / 2;
    const Expr largest = add(step_call("abs", x), RowReduction::amax);
    scale =
        add(step_call("max", rounded(step_call("div", largest, Expr::number(divisor)), steps), rounded(eps, steps)));
    zero = add(Expr::number(mapping == "PER_TOKEN" ? 0 : (static_cast<int64_t>(high + low + 1) / 2)));
  }
  const Expr inverse = add(rounded(step_call("div", Expr::number(1), scale), scale_dtype));
  const Expr scaled = step_call("round_even", rounded(step_call("mul", x, inverse), scale_dtype));
  const bool shifts = !(program_.steps[static_cast<size_t>(zero.index)].expr == Expr::number(0));
  return {add(clamped(shifts ? step_call("add", scaled, zero) : scaled, low, high)), scale, zero};
}

void RowBuilder::store(const Expr& step) { program_.stores.push_back(static_cast<size_t>(step.index)); }

// `value`: what readers read instead.
void RowBuilder::drop(size_t step, const Expr* value) {
  const auto moved = [&](size_t j) { return j > step ? j - 1 : j; };
  for (RowStep& other : program_.steps)
    other.expr = other.expr.map_leaves([&](Expr leaf) {
      if (leaf.kind != ExprKind::acc) return leaf;
      if (value && static_cast<size_t>(leaf.index) == step) return *value;
      return Expr::acc(static_cast<int>(moved(static_cast<size_t>(leaf.index))));
    });
  for (size_t& stored : program_.stores) stored = moved(stored);
  program_.steps.erase(program_.steps.begin() + static_cast<std::ptrdiff_t>(step));
}

void RowBuilder::tidy(const Graph& graph) {
  std::vector<bool> per_row;
  for (ValueId id : operands_) per_row.push_back(is_per_row(graph.value(id).shape));
  find_per_row(program_, per_row);
  for (size_t j = program_.steps.size(); j-- > 0;) {
    if (std::ranges::find(program_.stores, j) != program_.stores.end()) continue;
    const RowStep step = program_.steps[j];
    int reads = 0;
    bool by_elements = false;
    for (const RowStep& other : program_.steps) {
      const int of = count_reads(other.expr, static_cast<int>(j));
      reads += of;
      by_elements = by_elements || (of > 0 && (!other.per_row || other.reduction != RowReduction::none));
    }
    const bool moves = step.reduction == RowReduction::none && reads == 1 && !(step.per_row && by_elements);
    if (reads == 0) drop(j, nullptr);
    else if (moves || (step.expr.args.empty() && step.reduction == RowReduction::none)) drop(j, &step.expr);
  }
}

}  // namespace qcg
