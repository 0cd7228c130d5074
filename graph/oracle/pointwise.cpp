// The oracle's rules for pointwise ops, reductions and qcg.loop. Floating results are expressions (expr.h) in double;
// integer results are computed in integers and wrap to their dtype.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/ops/activations.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"
#include "graph/oracle/ops.h"

namespace qcg {
namespace {

// ---- floating -------------------------------------------------------------------------------------------------------

struct Unary {
  std::string_view op, function;
};
constexpr Unary kUnary[] = {
    {"aten.neg.default", "neg"},     {"aten.abs.default", "abs"},     {"aten.reciprocal.default", "reciprocal"},
    {"aten.exp.default", "exp"},     {"aten.log.default", "log"},     {"aten.sqrt.default", "sqrt"},
    {"aten.rsqrt.default", "rsqrt"}, {"aten.sin.default", "sin"},     {"aten.cos.default", "cos"},
    {"aten.erf.default", "erf"},     {"aten.tanh.default", "tanh"},   {"aten.sigmoid.default", "sigmoid"},
    {"aten.relu.default", "relu"},   {"aten.silu.default", "silu"},   {"aten.round.default", "round_even"},
    {"aten.floor.default", "floor"}, {"aten.log1p.default", "log1p"}, {"aten.expm1.default", "expm1"}};

std::string_view base_name(const RefContext& c) {
  std::string_view name = c.node.op->name;
  name = name.substr(5, name.rfind('.') - 5);
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

// in0 is self; in1 the other operand when it is a tensor.
Expr second_operand(const RefContext& c, std::string_view arg) {
  return c.node.arg(arg).get<ValueId>() ? Expr::in(1) : Expr::number(c.number(arg));
}

Expr scaled(Expr e, double alpha) { return alpha == 1 ? e : Expr::call("mul", {std::move(e), Expr::number(alpha)}); }

Expr clamped(double lo, double hi) { return Expr::call("clamp", {Expr::in(0), Expr::number(lo), Expr::number(hi)}); }

Expr expression_of(const RefContext& c) {
  std::string_view name = base_name(c);
  std::string op = functional_name(c.node.op->name);
  for (const Unary& row : kUnary)
    if (row.op == op) return Expr::call(row.function, {Expr::in(0)});
  if (auto activation = activation_of(c.node)) return std::move(*activation);
  if (name == "add") return Expr::call("add", {Expr::in(0), scaled(second_operand(c, "other"), c.number("alpha"))});
  if (name == "sub") return Expr::call("sub", {Expr::in(0), scaled(second_operand(c, "other"), c.number("alpha"))});
  if (name == "rsub") return Expr::call("sub", {second_operand(c, "other"), scaled(Expr::in(0), c.number("alpha"))});
  if (name == "mul") return Expr::call("mul", {Expr::in(0), second_operand(c, "other")});
  if (name == "div") return Expr::call("div", {Expr::in(0), second_operand(c, "other")});
  if (name == "maximum") return Expr::call("max", {Expr::in(0), second_operand(c, "other")});
  if (name == "minimum") return Expr::call("min", {Expr::in(0), second_operand(c, "other")});
  if (name == "pow") return Expr::call("pow", {Expr::in(0), second_operand(c, "exponent")});
  if (name == "gelu")
    return Expr::call(*c.node.arg("approximate").get<std::string>() == "tanh" ? "gelu_tanh" : "gelu", {Expr::in(0)});
  if (name == "relu6") return clamped(0, 6);
  if (name == "hardtanh") return clamped(c.number("min_val"), c.number("max_val"));
  if (name == "clamp_min") return clamped(c.number("min"), INFINITY);
  if (name == "clamp_max") return clamped(-INFINITY, c.number("max"));
  return clamped(c.has("min") ? c.number("min") : -INFINITY, c.has("max") ? c.number("max") : INFINITY);
}

std::vector<double> evaluate_all(const Expr& e, const std::vector<std::vector<double>>& operands, size_t count) {
  std::vector<double> out(count);
  std::vector<double> ins(operands.size());
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < operands.size(); ++k) ins[k] = operands[k][i];
    out[i] = e.evaluate({}, ins);
  }
  return out;
}

// Rounding ops turn a small difference into a whole one, so that their operand is rounded to its own dtype first.
bool is_step(std::string_view name) { return name == "round" || name == "floor" || name == "ceil" || name == "trunc"; }

std::vector<double> operand_doubles(const RefContext& c, const RefValue& v, const std::vector<int64_t>& shape) {
  std::vector<double> values = read_doubles(broadcast_to(v.data, shape));
  if (is_step(base_name(c)))
    for (double& x : values) x = round_as_eager(v.dtype, x);
  return values;
}

// ---- integers -------------------------------------------------------------------------------------------------------

struct IntegerLimits {
  int64_t lo, hi;
};
IntegerLimits integer_limits(const RefContext& c, std::string_view lo, std::string_view hi) {
  bool has_lo = !lo.empty() && c.has(lo), has_hi = !hi.empty() && c.has(hi);
  return {has_lo ? static_cast<int64_t>(c.number(lo)) : INT64_MIN,
          has_hi ? static_cast<int64_t>(c.number(hi)) : INT64_MAX};
}

int64_t apply_integer(std::string_view name, int64_t a, int64_t b, int64_t alpha, IntegerLimits limits) {
  if (name == "add") return add_wrap(a, mul_wrap(b, alpha));
  if (name == "sub") return sub_wrap(a, mul_wrap(b, alpha));
  if (name == "rsub") return sub_wrap(b, mul_wrap(a, alpha));
  if (name == "mul") return mul_wrap(a, b);
  if (name == "maximum") return std::max(a, b);
  if (name == "minimum") return std::min(a, b);
  if (name == "pow") return power_wrap(a, b);
  if (name == "square") return mul_wrap(a, a);
  if (name == "neg") return sub_wrap(0, a);
  if (name == "abs") return a < 0 ? sub_wrap(0, a) : a;
  if (name == "relu") return std::max<int64_t>(a, 0);
  if (name == "sign") return (a > 0) - (a < 0);
  if (is_step(name)) return a;
  return std::min(std::max(a, limits.lo), limits.hi);  // clamp and its kin; torch's order, for lo > hi
}

Result<Tensors> run_integer(const RefContext& c) {
  std::vector<int64_t> shape = c.sizes(0);
  std::string_view name = base_name(c);
  std::vector<int64_t> out = read_ints(broadcast_to(c.tensor("self").data, shape));
  std::string_view other = c.node.op->arg_index("other") >= 0      ? "other"
                           : c.node.op->arg_index("exponent") >= 0 ? "exponent"
                                                                   : "";
  std::vector<int64_t> operand;
  int64_t scalar = 0;
  if (!other.empty() && c.node.arg(other).get<ValueId>())
    operand = read_ints(broadcast_to(c.tensor(other).data, shape));
  else if (!other.empty()) scalar = static_cast<int64_t>(c.number(other));
  int64_t alpha = c.node.op->arg_index("alpha") >= 0 ? static_cast<int64_t>(c.number("alpha")) : 1;
  IntegerLimits limits{INT64_MIN, INT64_MAX};
  if (name == "hardtanh") limits = integer_limits(c, "min_val", "max_val");
  if (name == "clamp") limits = integer_limits(c, "min", "max");
  if (name == "clamp_min") limits = integer_limits(c, "min", "");
  if (name == "clamp_max") limits = integer_limits(c, "", "max");
  for (size_t i = 0; i < out.size(); ++i)
    out[i] =
        wrap_to_dtype(c.dtype(0), apply_integer(name, out[i], operand.empty() ? scalar : operand[i], alpha, limits));
  return Tensors{make_ints(shape, std::move(out))};
}

Result<Tensors> run_pointwise(const RefContext& c) {
  if (!is_floating(c.dtype(0))) return run_integer(c);
  std::vector<int64_t> shape = c.sizes(0);
  std::vector<std::vector<double>> operands{operand_doubles(c, c.tensor("self"), shape)};
  for (std::string_view name : {"other", "exponent"})
    if (c.node.op->arg_index(name) >= 0 && c.node.arg(name).get<ValueId>())
      operands.push_back(operand_doubles(c, c.tensor(name), shape));
  size_t count = operands[0].size();
  return Tensors{make_doubles(shape, evaluate_all(expression_of(c), operands, count))};
}

Result<Tensors> run_addcmul(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  std::vector<double> y = operand_doubles(c, c.tensor("self"), shape);
  const std::vector<double> a = operand_doubles(c, c.tensor("tensor1"), shape),
                            b = operand_doubles(c, c.tensor("tensor2"), shape);
  for (size_t i = 0; i < y.size(); ++i) y[i] += c.number("value") * a[i] * b[i];
  return Tensors{make_doubles(shape, std::move(y))};
}

Result<Tensors> run_clamp_of_tensors(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  std::vector<double> y = operand_doubles(c, c.tensor("self"), shape);
  for (const bool low : {true, false}) {
    const RefValue* limit = c.optional_tensor(low ? "min" : "max");
    if (!limit) continue;
    const std::vector<double> limits = operand_doubles(c, *limit, shape);
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = std::isnan(y[i]) || std::isnan(limits[i]) ? NAN
             : low                                     ? std::max(y[i], limits[i])
                                                       : std::min(y[i], limits[i]);
  }
  return Tensors{make_doubles(shape, std::move(y))};
}

// isnan and isinf.
Result<Tensors> run_classify(const RefContext& c) {
  const bool nan = base_name(c) == "isnan";
  std::vector<int64_t> out;
  for (double x : read_doubles(c.tensor("self").data)) {
    const double v = round_as_eager(c.tensor("self").dtype, x);
    out.push_back(nan ? std::isnan(v) : std::isinf(v));
  }
  return Tensors{make_ints(c.sizes(0), std::move(out))};
}

Result<Tensors> run_nan_to_num(const RefContext& c) {
  const double largest = c.dtype(0) == DType::f16 ? 65504 : c.dtype(0) == DType::bf16 ? 0x1.fep127 : 0x1.fffffep127;
  std::vector<double> y = read_doubles(c.tensor("self").data);
  for (double& v : y) {
    v = round_as_eager(c.tensor("self").dtype, v);
    if (std::isnan(v)) v = c.has("nan") ? c.number("nan") : 0;
    else if (v == INFINITY) v = c.has("posinf") ? c.number("posinf") : largest;
    else if (v == -INFINITY) v = c.has("neginf") ? c.number("neginf") : -largest;
  }
  return Tensors{make_doubles(c.sizes(0), std::move(y))};
}

template <class T>
std::vector<T> read_as(const Tensor& t) {
  if constexpr (std::is_same_v<T, double>) return read_doubles(t);
  else return read_ints(t);
}

template <class T>
bool holds(std::string_view comparison, T a, T b) {
  if (comparison == "gt") return a > b;
  if (comparison == "ge") return a >= b;
  if (comparison == "lt") return a < b;
  if (comparison == "le") return a <= b;
  return comparison == "eq" ? a == b : a != b;
}

// Both sides in their common dtype, as torch converts them; integers exactly.
Result<Tensors> run_compare(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  const Arg& other = c.node.arg("other");
  Promotion promotion;
  promotion.add(c.graph.value(c.node.tensor("self")));
  if (const ValueId* id = other.get<ValueId>()) promotion.add(c.graph.value(*id));
  else promotion.add(other);
  const DType common = promotion.result();
  auto compare = [&]<class T>(T number) {
    std::vector<T> a = read_as<T>(broadcast_to(c.tensor("self").data, shape));
    std::vector<T> b = other.get<ValueId>() ? read_as<T>(broadcast_to(c.tensor("other").data, shape))
                                            : std::vector<T>(a.size(), number);
    if constexpr (std::is_same_v<T, double>)
      for (std::vector<T>* side : {&a, &b})
        for (double& v : *side) v = round_as_eager(common, v);
    std::vector<int64_t> out;
    for (size_t i = 0; i < a.size(); ++i) out.push_back(holds(base_name(c), a[i], b[i]));
    return Tensors{make_ints(shape, std::move(out))};
  };
  const double number = other.get<ValueId>() ? 0 : c.number("other");
  return is_floating(common) ? compare(number) : compare(static_cast<int64_t>(number));
}

// logical_and, logical_not, …: of truth values, which NaN is one of.
Result<Tensors> run_logical(const RefContext& c) {
  const std::vector<int64_t> shape = c.sizes(0);
  auto truths = [&](std::string_view name) {
    std::vector<int64_t> out;
    for (double v : read_doubles(broadcast_to(c.tensor(name).data, shape))) out.push_back(v != 0);
    return out;
  };
  const std::string_view name = base_name(c);
  auto is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  std::vector<int64_t> out = truths("self");
  const std::vector<int64_t> other = is("not") ? std::vector<int64_t>(out.size(), 1) : truths("other");
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = is("and") ? out[i] & other[i] : is("not") || is("xor") ? out[i] ^ other[i] : out[i] | other[i];
  return Tensors{make_ints(shape, std::move(out))};
}

// `yes` and `no` are tensors or numbers.
Result<Tensors> choose(const RefContext& c, std::string_view condition, std::string_view yes, std::string_view no) {
  const std::vector<int64_t> shape = c.sizes(0), conditions = read_ints(broadcast_to(c.tensor(condition).data, shape));
  auto pick = [&]<class T>(T) {
    auto read = [&](std::string_view name) {
      if (!c.node.arg(name).get<ValueId>()) return std::vector<T>(conditions.size(), static_cast<T>(c.number(name)));
      return read_as<T>(broadcast_to(c.tensor(name).data, shape));
    };
    std::vector<T> out = read(yes);
    const std::vector<T> other = read(no);
    for (size_t i = 0; i < out.size(); ++i) out[i] = conditions[i] ? out[i] : other[i];
    return out;
  };
  if (is_floating(c.dtype(0))) return Tensors{make_doubles(shape, pick(0.0))};
  return Tensors{make_ints(shape, pick(int64_t{0}))};
}
Result<Tensors> run_where(const RefContext& c) { return choose(c, "condition", "self", "other"); }
Result<Tensors> run_masked_fill(const RefContext& c) { return choose(c, "mask", "value", "self"); }

Result<Tensors> run_like(const RefContext& c) {
  const std::string_view name = base_name(c);
  const double value = name.starts_with("full")   ? c.number("fill_value")
                       : name == "scalar_tensor"  ? c.number("s")
                       : name.starts_with("ones") ? 1
                                                  : 0;
  const std::vector<int64_t> shape = c.sizes(0);
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return Tensors{store_results(c.dtype(0), shape, std::vector<double>(static_cast<size_t>(count), value))};
}

Tensor run_integer_loop(const RefContext& c, const Expr& expr, size_t output) {
  const std::vector<int64_t> shape = c.sizes(output);
  std::vector<std::vector<int64_t>> operands;
  for (const RefValue* v : c.tensors("operands")) operands.push_back(read_ints(broadcast_to(v->data, shape)));
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  std::vector<int64_t> ins(operands.size()), out;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    for (size_t k = 0; k < operands.size(); ++k) ins[k] = operands[k][i];
    out.push_back(wrap_to_dtype(c.dtype(output), expr.evaluate_integers(ins)));
  }
  return make_ints(shape, std::move(out));
}

Result<Tensors> run_loop(const RefContext& c) {
  Tensors results;
  const bool integers = *c.node.arg("integers").get<bool>();
  const auto& exprs = *c.node.arg("exprs").get<std::vector<Expr>>();
  for (size_t i = 0; i < exprs.size(); ++i) {
    if (integers) {
      results.push_back(run_integer_loop(c, exprs[i], i));
      continue;
    }
    std::vector<int64_t> shape = c.sizes(i);
    std::vector<std::vector<double>> operands;
    for (const RefValue* v : c.tensors("operands")) operands.push_back(read_doubles(broadcast_to(v->data, shape)));
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    std::vector<double> out = evaluate_all(exprs[i], operands, static_cast<size_t>(count));
    results.push_back(store_results(c.dtype(i), shape, std::move(out)));
  }
  return results;
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
  const auto* dims = c.node.op->arg_index("dim") < 0 ? nullptr : c.node.arg("dim").get<std::vector<Dim>>();
  if (!dims || dims->empty()) is_reduced.assign(t.shape.size(), true);
  else if (!t.shape.empty())
    for (const Dim& d : *dims) is_reduced[(c.evaluate(d) + t.shape.size()) % t.shape.size()] = true;
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

Result<Tensors> run_mean(const RefContext& c) {
  Reduction r = arrange(c);
  auto out = fold_rows<double>(r, read_doubles(r.view), 0, [](double a, double b) { return a + b; });
  for (double& v : out) v /= static_cast<double>(r.reduced);
  return Tensors{make_doubles(c.sizes(0), std::move(out))};
}

Result<Tensors> run_vector_norm(const RefContext& c) {
  const Reduction r = arrange(c);
  const double order = c.number("ord");
  auto out = fold_rows<double>(r, read_doubles(r.view), 0, [&](double sum, double x) {
    return order == 2            ? sum + x * x
           : order == 1          ? sum + std::abs(x)
           : std::isnan(sum + x) ? NAN
                                 : std::max(sum, std::abs(x));
  });
  if (order == 2)
    for (double& v : out) v = std::sqrt(v);
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
    return Error::bad_input(c.node.where, "the extreme of no elements", "reduce over at least one");
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
    {"aten.neg.default", run_pointwise},
    {"aten.abs.default", run_pointwise},
    {"aten.reciprocal.default", run_pointwise},
    {"aten.exp.default", run_pointwise},
    {"aten.log.default", run_pointwise},
    {"aten.sqrt.default", run_pointwise},
    {"aten.rsqrt.default", run_pointwise},
    {"aten.sin.default", run_pointwise},
    {"aten.cos.default", run_pointwise},
    {"aten.erf.default", run_pointwise},
    {"aten.tanh.default", run_pointwise},
    {"aten.sigmoid.default", run_pointwise},
    {"aten.relu.default", run_pointwise},
    {"aten.silu.default", run_pointwise},
    {"aten.round.default", run_pointwise},
    {"aten.floor.default", run_pointwise},
    {"aten.add.Tensor", run_pointwise},
    {"aten.add.Scalar", run_pointwise},
    {"aten.sub.Tensor", run_pointwise},
    {"aten.sub.Scalar", run_pointwise},
    {"aten.rsub.Tensor", run_pointwise},
    {"aten.rsub.Scalar", run_pointwise},
    {"aten.mul.Tensor", run_pointwise},
    {"aten.mul.Scalar", run_pointwise},
    {"aten.div.Tensor", run_pointwise},
    {"aten.div.Scalar", run_pointwise},
    {"aten.maximum.default", run_pointwise},
    {"aten.minimum.default", run_pointwise},
    {"aten.pow.Tensor_Scalar", run_pointwise},
    {"aten.gelu.default", run_pointwise},
    {"aten.hardtanh.default", run_pointwise},
    {"aten.relu6.default", run_pointwise},
    {"aten.clamp.default", run_pointwise},
    {"aten.clamp.Tensor", run_clamp_of_tensors},
    {"aten.addcmul.default", run_addcmul},
    {"aten.sign.default", run_pointwise},
    {"aten.ceil.default", run_pointwise},
    {"aten.trunc.default", run_pointwise},
    {"aten.log2.default", run_pointwise},
    {"aten.log10.default", run_pointwise},
    {"aten.isnan.default", run_classify},
    {"aten.isinf.default", run_classify},
    {"aten.nan_to_num.default", run_nan_to_num},
    {"aten.clamp_min.default", run_pointwise},
    {"aten.clamp_max.default", run_pointwise},
    {"aten.sum.dim_IntList", run_sum},
    {"aten.mean.dim", run_mean},
    {"aten.linalg_vector_norm.default", run_vector_norm},
    {"aten.var.correction", run_variance},
    {"aten.std.correction", run_variance},
    {"aten.var.dim", run_variance},
    {"aten.std.dim", run_variance},
    {"aten.log1p.default", run_pointwise},
    {"aten.expm1.default", run_pointwise},
    {"aten.square.default", run_pointwise},
    {"aten.selu.default", run_pointwise},
    {"aten.mish.default", run_pointwise},
    {"aten.hardswish.default", run_pointwise},
    {"aten.hardsigmoid.default", run_pointwise},
    {"aten.log_sigmoid.default", run_pointwise},
    {"aten.leaky_relu.default", run_pointwise},
    {"aten.elu.default", run_pointwise},
    {"aten.celu.default", run_pointwise},
    {"aten.softplus.default", run_pointwise},
    {"aten.gt.Scalar", run_compare},
    {"aten.gt.Tensor", run_compare},
    {"aten.ge.Scalar", run_compare},
    {"aten.ge.Tensor", run_compare},
    {"aten.lt.Scalar", run_compare},
    {"aten.lt.Tensor", run_compare},
    {"aten.le.Scalar", run_compare},
    {"aten.le.Tensor", run_compare},
    {"aten.eq.Scalar", run_compare},
    {"aten.eq.Tensor", run_compare},
    {"aten.ne.Scalar", run_compare},
    {"aten.ne.Tensor", run_compare},
    {"aten.logical_and.default", run_logical},
    {"aten.logical_or.default", run_logical},
    {"aten.logical_xor.default", run_logical},
    {"aten.logical_not.default", run_logical},
    {"aten.where.self", run_where},
    {"aten.where.ScalarSelf", run_where},
    {"aten.where.ScalarOther", run_where},
    {"aten.where.Scalar", run_where},
    {"aten.masked_fill.Scalar", run_masked_fill},
    {"aten.masked_fill.Tensor", run_masked_fill},
    {"aten.full.default", run_like},
    {"aten.zeros.default", run_like},
    {"aten.ones.default", run_like},
    {"aten.scalar_tensor.default", run_like},
    {"aten.full_like.default", run_like},
    {"aten.zeros_like.default", run_like},
    {"aten.ones_like.default", run_like},
    {"aten.amax.default", run_extreme},
    {"aten.amin.default", run_extreme},
    {"aten.max.default", run_extreme},
    {"aten.min.default", run_extreme},
    {"aten.sum.default", run_sum},
    {"aten.mean.default", run_mean},
    {"qcg.loop", run_loop},
};

}  // namespace

std::span<const RefRow> reference_pointwise() { return kRules; }

}  // namespace qcg
