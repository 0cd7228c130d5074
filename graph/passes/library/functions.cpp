// Functions of each element that are more than one formula: two results, or a sum of as many terms as an argument says.
#include <cmath>

#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

// p (p - 1) / 4 log(pi) and the logarithms of gamma(x - j / 2), j < p.
Values write_log_gamma_of_many(OpEmitter& e, const Graph&, const Node& node) {
  const ValueId x = e.widened(node.tensor("self"));
  const int64_t p = node.arg("p").get<Dim>()->constant();
  ValueId sum = kNoValue;
  for (int64_t j = 0; j < p && e.status().ok(); ++j) {
    const ValueId below = j == 0 ? x : e.binary("aten.sub.Tensor", x, 0.5 * static_cast<double>(j));
    const ValueId term = e.unary("aten.lgamma.default", below);
    sum = sum == kNoValue ? term : e.binary("aten.add.Tensor", sum, term);
  }
  return {e.binary("aten.add.Tensor", sum, static_cast<double>(p * (p - 1)) / 4 * std::log(M_PI))};
}

// x = mantissa * 2^exponent, |mantissa| in [1/2, 1). A logarithm gives the exponent, or one of its neighbours. Of 0, inf
// and NaN the mantissa is x.
Values write_mantissa(OpEmitter& e, const Graph&, const Node& node) {
  constexpr double kSmall = 0x1p-100, kLift = 100;
  const ValueId x = e.widened(node.tensor("self"));
  const auto where = [&](ValueId condition, ValueId yes, ValueId no) {
    return e.op("aten.where.self", {{"condition", condition}, {"self", yes}, {"other", no}});
  };
  const auto plus = [&](ValueId a, double b) { return e.binary("aten.add.Tensor", a, b); };
  const auto times = [&](ValueId a, Arg b) { return e.binary("aten.mul.Tensor", a, std::move(b)); };
  const auto size = [&](ValueId v) { return e.unary("aten.abs.default", v); };
  const ValueId ordinary =
      e.binary("aten.logical_and.default", e.unary("aten.isfinite.default", x), e.binary("aten.ne.Scalar", x, 0.0));
  const ValueId number = e.op("aten.where.ScalarOther", {{"condition", ordinary}, {"self", x}, {"other", 1.0}});
  const ValueId small = e.binary("aten.lt.Scalar", size(number), kSmall);
  const ValueId lifted = where(small, times(number, std::exp2(kLift)), number);
  const ValueId power = e.unary("aten.floor.default", e.unary("aten.log2.default", size(lifted)));
  const ValueId inverse = e.op("aten.pow.Scalar", {{"self", 2.0}, {"exponent", e.unary("aten.neg.default", power)}});
  ValueId mantissa = times(times(lifted, inverse), 0.5), exponent = plus(power, 1);
  const ValueId large = e.binary("aten.ge.Scalar", size(mantissa), 1.0);
  mantissa = where(large, times(mantissa, 0.5), mantissa), exponent = where(large, plus(exponent, 1), exponent);
  const ValueId less = e.binary("aten.lt.Scalar", size(mantissa), 0.5);
  mantissa = where(less, times(mantissa, 2.0), mantissa), exponent = where(less, plus(exponent, -1), exponent);
  exponent = where(small, plus(exponent, -kLift), exponent);
  return {where(ordinary, mantissa, x),
          e.op("aten.where.ScalarOther", {{"condition", ordinary}, {"self", exponent}, {"other", 0.0}})};
}

// rrelu after eval(), and the slopes that training would have drawn, as they came.
Values write_rectified(OpEmitter& e, const Graph&, const Node& node) {
  return {e.op("aten.rrelu.default",
               {{"self", node.tensor("self")}, {"lower", node.arg("lower")}, {"upper", node.arg("upper")}}),
          node.tensor("noise")};
}

constexpr LibraryOp kFunctionOps[] = {
    {"aten.mvlgamma.default", write_log_gamma_of_many},
    {"aten.frexp.Tensor", write_mantissa},
    {"aten.rrelu_with_noise_functional.default", write_rectified},
};

}  // namespace

std::span<const LibraryOp> library_functions() { return kFunctionOps; }

}  // namespace qcg
