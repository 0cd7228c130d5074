// The oracle's rules for pointwise ops, reductions and qcg.loop. Floating results are expressions (expr.h) in double;
// integer results are computed in integers and wrap to their dtype.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/ops/formula.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

// "amax" for "aten.amax.default".
std::string_view base_name(const RefContext& c) {
  std::string_view name = Op(c.node.op).row().name;
  return name.substr(5, name.rfind('.') - 5);
}

size_t count_elements(const std::vector<int64_t>& shape) { return static_cast<size_t>(count_of(shape)); }

// ---- expressions ----------------------------------------------------------------------------------------------------

// In these a small difference becomes a whole one.
bool rounds(const Expr& e) {
  if (e.kind == ExprKind::call && (e.function == "round_even" || e.function == "floor")) return true;
  return std::any_of(e.args.begin(), e.args.end(), rounds);
}

// The position of every element along one axis.
std::vector<int64_t> positions_along(size_t axis, const std::vector<int64_t>& shape) {
  std::vector<int64_t> out(count_elements(shape));
  int64_t behind = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) behind *= shape[i];
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(i) / behind % shape[axis];
  return out;
}

// An expression over the elements of its operands alone: positions and sizes follow them as further operands.
template <class T>
struct Operands {
  Expr expr;
  std::vector<std::vector<T>> ins;
};
template <class T>
Operands<T> read_operands(const Pointwise& p, const RefContext& c, const std::vector<const RefValue*>& operands,
                          const std::vector<int64_t>& shape, std::vector<T> (*read)(const Tensor&)) {
  Operands<T> out;
  for (const RefValue* v : operands) out.ins.push_back(read(broadcast_to(v->data, shape)));
  const size_t first_pos = out.ins.size();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const std::vector<int> axes = p.expr.leaves(ExprKind::pos);
    const bool is_read = std::ranges::find(axes, static_cast<int>(axis)) != axes.end();
    const std::vector<int64_t> at = is_read ? positions_along(axis, shape) : std::vector<int64_t>();
    out.ins.emplace_back(at.begin(), at.end());
  }
  out.expr = p.expr.as_inputs(static_cast<int>(first_pos), static_cast<int>(out.ins.size()));
  for (const Dim& size : p.sizes) out.ins.emplace_back(count_elements(shape), static_cast<T>(c.evaluate(size)));
  return out;
}

Tensor evaluate_doubles(const RefContext& c, const Pointwise& p, const std::vector<const RefValue*>& operands,
                        size_t output, bool round_operands) {
  const std::vector<int64_t> shape = c.sizes(output);
  Operands<double> of = read_operands(p, c, operands, shape, read_doubles);
  for (size_t i = 0; round_operands && i < operands.size(); ++i)
    for (double& x : of.ins[i]) x = round_as_eager(operands[i]->dtype, x);
  // Kernels read f64 as f32 then, which near a pole of lgamma moves the result by more than rounding it does.
  for (size_t i = 0; !p.expr.has_f64() && i < operands.size(); ++i)
    if (operands[i]->dtype == DType::f64)
      for (double& x : of.ins[i]) x = static_cast<float>(x);
  return store_results(c.dtype(output), shape, of.expr.evaluate_all(of.ins, count_elements(shape)));
}

Tensor evaluate_integers(const RefContext& c, const Pointwise& p, const std::vector<const RefValue*>& operands,
                         size_t output) {
  const std::vector<int64_t> shape = c.sizes(output);
  const Operands<int64_t> of = read_operands(p, c, operands, shape, read_ints);
  std::vector<int64_t> out = of.expr.evaluate_all_integers(of.ins, count_elements(shape));
  for (int64_t& v : out) v = wrap_to_dtype(c.dtype(output), v);
  return make_ints(shape, std::move(out));
}

Result<Tensors> run_loop(const RefContext& c) {
  Tensors results;
  const bool integers = *c.node.arg("arithmetic").get<DType>() == DType::i64;
  const auto& exprs = *c.node.arg("exprs").get<std::vector<Expr>>();
  for (size_t i = 0; i < exprs.size(); ++i) {
    const Pointwise p{exprs[i], {}, *c.node.arg("sizes").get<std::vector<Dim>>()};
    results.push_back(integers ? evaluate_integers(c, p, c.tensors("operands"), i)
                               : evaluate_doubles(c, p, c.tensors("operands"), i, false));
  }
  return results;
}

// Powers of integers wrap; an expression has none.
Result<Tensors> run_power(const RefContext& c) {
  if (is_floating(c.dtype(0))) return run_formula(c);
  std::vector<int64_t> out = read_ints(c.tensor("self").data);
  for (int64_t& v : out) v = wrap_to_dtype(c.dtype(0), power_wrap(v, static_cast<int64_t>(c.number("exponent"))));
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

Result<Tensors> run_nan_to_num(const RefContext& c) {
  const double largest = largest_finite(c.dtype(0));
  std::vector<double> y = read_doubles(c.tensor("self").data);
  for (double& v : y) {
    v = round_as_eager(c.tensor("self").dtype, v);
    if (std::isnan(v)) v = c.has("nan") ? c.number("nan") : 0;
    else if (v == INFINITY) v = c.has("posinf") ? c.number("posinf") : largest;
    else if (v == -INFINITY) v = c.has("neginf") ? c.number("neginf") : -largest;
  }
  return Tensors{make_doubles(c.sizes(0), std::move(y))};
}

Result<Tensors> run_like(const RefContext& c) {
  const std::string_view name = base_name(c);
  const auto is = [&](std::string_view kind) { return name.find(kind) != name.npos; };
  const bool integer = !is_floating(c.dtype(0)) && c.dtype(0) != DType::boolean;
  if (integer && (is("full") || is("scalar"))) return run_formula(c);  // exact beyond 2^53
  const double value = is("full") ? c.number("fill_value") : is("scalar") ? c.number("s") : is("ones") ? 1 : 0;
  const std::vector<int64_t> shape = c.sizes(0);
  return Tensors{store_results(c.dtype(0), shape, std::vector<double>(count_elements(shape), value))};
}

// ---- reductions -----------------------------------------------------------------------------------------------------

// The tensor seen as [kept elements in order, reduced elements].
struct Reduction {
  Tensor view;
  int64_t kept = 1, reduced = 1;
};
Reduction arrange(const RefContext& c) {
  const Tensor& t = c.tensor("self").data;
  std::vector<bool> is_reduced(t.shape.size());
  const std::vector<Dim> dims = named_axes(c.graph, c.node);
  if (dims.empty()) is_reduced.assign(t.shape.size(), true);
  else if (!t.shape.empty())
    for (const Dim& d : dims) is_reduced[(c.evaluate(d) + t.shape.size()) % t.shape.size()] = true;
  std::vector<size_t> order;
  Reduction r;
  for (bool wanted : {false, true})
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (is_reduced[i] == wanted) {
        order.push_back(i);
        (wanted ? r.reduced : r.kept) *= t.shape[i];
      }
  r.view = t.permute(order);
  return r;
}

template <class T, class F>
std::vector<T> fold_rows(const Reduction& r, const std::vector<T>& values, T start, F&& f) {
  std::vector<T> out(r.kept, start);
  for (int64_t i = 0; i < r.kept; ++i)
    for (int64_t j = 0; j < r.reduced; ++j) out[i] = f(out[i], values[i * r.reduced + j]);
  return out;
}

Result<Tensors> run_sum(const RefContext& c) {
  Reduction r = arrange(c);
  if (!is_floating(c.dtype(0))) {
    auto out = fold_rows<int64_t>(r, read_ints(r.view), 0, add_wrap);
    for (int64_t& v : out) v = wrap_to_dtype(c.dtype(0), v);
    return Tensors{make_ints(c.sizes(0), std::move(out))};
  }
  return Tensors{make_doubles(c.sizes(0),
                              fold_rows<double>(r, read_doubles(r.view), 0, [](double a, double b) { return a + b; }))};
}

Result<Tensors> run_product(const RefContext& c) {
  const Reduction r = arrange(c);
  if (is_floating(c.dtype(0)))
    return Tensors{make_doubles(c.sizes(0), fold_rows<double>(r, read_doubles(r.view), 1, std::multiplies<double>()))};
  auto out = fold_rows<int64_t>(r, read_ints(r.view), 1, mul_wrap);
  for (int64_t& v : out) v = wrap_to_dtype(c.dtype(0), v);
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

Result<Tensors> run_mean(const RefContext& c) {
  Reduction r = arrange(c);
  auto out = fold_rows<double>(r, read_doubles(r.view), 0, [](double a, double b) { return a + b; });
  for (double& v : out) v /= static_cast<double>(r.reduced);
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_log_sum(const RefContext& c) {
  const Reduction r = arrange(c);
  const std::vector<double> x = read_doubles(r.view);
  std::vector<double> out = fold_rows<double>(r, x, -INFINITY, [](double m, double v) { return max_nan(v, m); });
  for (size_t i = 0; i < out.size(); ++i) {
    const double largest = std::isfinite(out[i]) ? out[i] : 0;
    double sum = 0;
    for (int64_t j = 0; j < r.reduced; ++j) sum += std::exp(x[i * r.reduced + j] - largest);
    out[i] = std::log(sum) + largest;
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_variance(const RefContext& c) {
  const Reduction r = arrange(c);
  const std::vector<double> x = read_doubles(r.view);
  const double count = static_cast<double>(r.reduced), correction = correction_of(c.node);
  std::vector<double> out;
  for (auto row = x.begin(); static_cast<int64_t>(out.size()) < r.kept; row += r.reduced) {
    const double mean = std::accumulate(row, row + r.reduced, 0.0) / count;
    double squares = 0;
    for (auto it = row; it != row + r.reduced; ++it) squares += (*it - mean) * (*it - mean);
    const double variance = squares / std::max(count - correction, 0.0);
    out.push_back(c.node.op->name.starts_with("aten.std") ? std::sqrt(variance) : variance);
  }
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_extreme(const RefContext& c) {
  Reduction r = arrange(c);
  if (r.reduced == 0 && r.kept > 0)
    return Error::bad_input(c.node.where, "the maximum or minimum of no elements is undefined",
                            "reduce over at least one element");
  bool largest = base_name(c).ends_with("max");
  if (!is_floating(c.dtype(0))) {
    auto pick = [&](int64_t a, int64_t b) { return largest ? std::max(a, b) : std::min(a, b); };
    return Tensors{
        make_ints(c.sizes(0), fold_rows<int64_t>(r, read_ints(r.view), largest ? INT64_MIN : INT64_MAX, pick))};
  }
  auto pick = [&](double a, double b) {
    return std::isnan(a) ? a : std::isnan(b) ? b : largest ? std::max(a, b) : std::min(a, b);
  };
  return Tensors{
      make_doubles(c.sizes(0), fold_rows<double>(r, read_doubles(r.view), largest ? -INFINITY : INFINITY, pick))};
}

constexpr RefRow kRules[] = {
    {"qcg.loop", run_loop},
    {"aten.pow.Tensor_Scalar", run_power},
    {"aten.nan_to_num.default", run_nan_to_num},
    {"aten.full.default", run_like},
    {"aten.zeros.default", run_like},
    {"aten.ones.default", run_like},
    {"aten.new_full.default", run_like},
    {"aten.new_zeros.default", run_like},
    {"aten.new_ones.default", run_like},
    {"aten.scalar_tensor.default", run_like},
    {"aten.full_like.default", run_like},
    {"aten.empty_like.default", run_like},
    {"aten.empty_permuted.default", run_like},
    {"aten.new_empty.default", run_like},
    {"aten.zeros_like.default", run_like},
    {"aten.ones_like.default", run_like},
    {"aten.sum.default", run_sum},
    {"aten.sum.dim_IntList", run_sum},
    {"aten.prod.default", run_product},
    {"aten.prod.dim_int", run_product},
    {"aten.mean.default", run_mean},
    {"aten.mean.dim", run_mean},
    {"aten.logsumexp.default", run_log_sum},
    {"aten.var.correction", run_variance},
    {"aten.std.correction", run_variance},
    {"aten.var.dim", run_variance},
    {"aten.std.dim", run_variance},
    {"aten.var.default", run_variance},
    {"aten.std.default", run_variance},
    {"aten.amax.default", run_extreme},
    {"aten.amin.default", run_extreme},
    {"aten.max.default", run_extreme},
    {"aten.min.default", run_extreme},
};

}  // namespace

Result<Tensors> run_formula(const RefContext& c) {
  const auto pointwise = read_formula(c.graph, c.node);
  if (!pointwise) return Error::internal(c.node.where, c.node.op->name + " has no formula of these arguments");
  std::vector<const RefValue*> operands;
  bool integers = !is_floating(c.dtype(0)) && pointwise->expr.is_integer();
  for (ValueId id : pointwise->operands) {
    operands.push_back(&c.values[id]);
    integers = integers && !is_floating(c.graph.value(id).dtype);
  }
  if (integers) return Tensors{evaluate_integers(c, *pointwise, operands, 0)};
  const bool round = c.dtype(0) == DType::boolean || rounds(pointwise->expr);
  return Tensors{evaluate_doubles(c, *pointwise, operands, 0, round)};
}

std::span<const RefRow> reference_pointwise() { return kRules; }

}  // namespace qcg
