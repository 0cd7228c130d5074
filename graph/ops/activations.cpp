#include "graph/ops/activations.h"

#include "graph/ops/op_table.h"

#include <algorithm>

namespace qcg {
namespace {

Expr call(std::string_view function, Expr x) { return Expr::call(function, {std::move(x)}); }
Expr call(std::string_view function, Expr a, Expr b) { return Expr::call(function, {std::move(a), std::move(b)}); }
Expr x() { return Expr::in(0); }
Expr number(double value) { return Expr::number(value); }
Expr positive() { return call("max", x(), number(0)); }
Expr negative() { return call("min", x(), number(0)); }
Expr times(Expr e, double factor) { return factor == 1 ? e : call("mul", std::move(e), number(factor)); }

// The parameters of a row, in the order it names them.
using Parameters = std::vector<double>;

Expr square(const Parameters&) { return call("mul", x(), x()); }
Expr sign(const Parameters&) { return call("sub", call("gt", x(), number(0)), call("gt", number(0), x())); }
Expr ceil(const Parameters&) { return call("neg", call("floor", call("neg", x()))); }
Expr trunc(const Parameters& p) {
  return Expr::call("where", {call("gt", number(0), x()), ceil(p), call("floor", x())});
}
Expr log2(const Parameters&) { return call("mul", call("log", x()), number(1.4426950408889634074)); }
Expr log10(const Parameters&) { return call("mul", call("log", x()), number(0.43429448190325182765)); }
Expr relu6_of_3_more() { return Expr::call("clamp", {call("add", x(), number(3)), number(0), number(6)}); }
Expr hardsigmoid(const Parameters&) { return call("div", relu6_of_3_more(), number(6)); }
Expr hardswish(const Parameters&) { return call("div", call("mul", x(), relu6_of_3_more()), number(6)); }
Expr mish(const Parameters&) { return call("mul", x(), call("tanh", call("log1p", call("exp", x())))); }
Expr log_sigmoid(const Parameters&) {
  return call("sub", negative(), call("log1p", call("exp", call("neg", call("abs", x())))));
}
Expr leaky_relu(const Parameters& p) { return call("add", positive(), times(negative(), p[0])); }
Expr elu_of(double alpha, double scale, double input_scale) {
  return call("add", times(positive(), scale), times(call("expm1", times(negative(), input_scale)), alpha * scale));
}
Expr elu(const Parameters& p) { return elu_of(p[0], p[1], p[2]); }
Expr celu(const Parameters& p) { return elu_of(p[0], 1, 1 / p[0]); }
Expr selu(const Parameters&) { return elu_of(1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1); }
Expr softplus(const Parameters& p) {
  const Expr scaled = times(x(), p[0]);
  return Expr::call("where",
                    {call("gt", scaled, number(p[1])), x(), times(call("log1p", call("exp", scaled)), 1 / p[0])});
}

struct Row {
  std::string_view op;
  Expr (*expression)(const Parameters&);
  std::string_view parameters[3] = {};
};
constexpr Row kRows[] = {
    {"aten.square.default", square},
    {"aten.sign.default", sign},
    {"aten.ceil.default", ceil},
    {"aten.trunc.default", trunc},
    {"aten.log2.default", log2},
    {"aten.log10.default", log10},
    {"aten.hardsigmoid.default", hardsigmoid},
    {"aten.hardswish.default", hardswish},
    {"aten.mish.default", mish},
    {"aten.log_sigmoid.default", log_sigmoid},
    {"aten.leaky_relu.default", leaky_relu, {"negative_slope"}},
    {"aten.elu.default", elu, {"alpha", "scale", "input_scale"}},
    {"aten.celu.default", celu, {"alpha"}},
    {"aten.selu.default", selu},
    {"aten.softplus.default", softplus, {"beta", "threshold"}},
};

}  // namespace

std::optional<Expr> activation_of(const Node& node) {
  const std::string name = functional_name(node.op->name);
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.op == name; });
  if (row == std::end(kRows)) return std::nullopt;
  Parameters parameters;
  for (std::string_view parameter : row->parameters) {
    if (parameter.empty()) continue;
    const auto value = as_number(node.arg(parameter));
    if (!value) return std::nullopt;
    parameters.push_back(*value);
  }
  return row->expression(parameters);
}

}  // namespace qcg
