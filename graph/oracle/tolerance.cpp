// How far from its exact value a kernel's epilogue may be.
#include <algorithm>
#include <array>
#include <cmath>

#include "graph/oracle/reference.h"

namespace qcg {

namespace {

// What one operation adds to the errors of its arguments. A result of a function that is close to 0 may be off by more
// of itself.
double own_error(const Expr& e, double value, DType arithmetic) {
  if (!std::isfinite(value)) return 0;
  constexpr double kLeastResult = 1e-6;
  const double ulps = e.ulps(), ulp = arithmetic == DType::f64 ? 0x1p-52 : 0x1p-23;
  return ulps * ulp * (std::abs(value) + (ulps > kArithmeticUlps ? kLeastResult : 0));
}

}  // namespace

ToleranceValue evaluate_with_tolerance(const Expr& e, std::span<const double> accs,
                                       std::span<const double> acc_tolerances, std::span<const double> ins,
                                       DType arithmetic) {
  if (e.kind == ExprKind::acc) return {accs[e.index], acc_tolerances[e.index]};
  if (e.args.empty()) return {e.evaluate(accs, ins), 0};
  std::array<double, 3> args{}, tolerances{};
  for (size_t i = 0; i < e.args.size(); ++i) {
    const ToleranceValue arg = evaluate_with_tolerance(e.args[i], accs, acc_tolerances, ins, arithmetic);
    args[i] = arg.value, tolerances[i] = arg.tolerance;
  }
  const std::span<const double> values(args.data(), e.args.size());
  const ToleranceValue exact{e.apply(values), 0};
  // Arguments are off together, each above or below or not at all: a product is also off by the product of their
  // errors. An argument that may be 0 is tried there too: what underflows to 0 equals 0, and its exact value does not.
  std::array<std::array<double, 4>, 3> tried{};
  std::array<size_t, 3> counts{};
  size_t places = 1;
  for (size_t i = 0; i < values.size(); ++i) {
    const double centre = args[i], off = tolerances[i];
    tried[i] = {centre, centre - off, centre + off, 0};
    counts[i] = off == 0 ? 1 : std::abs(centre) <= off ? 4 : 3;
    places *= counts[i];
  }
  const auto is_open = [](double tolerance) { return std::isinf(tolerance); };
  if (std::isnan(exact.value) && std::ranges::any_of(tolerances, is_open)) return {exact.value, HUGE_VAL};
  double largest = 0;
  for (size_t place = 1; place < places; ++place) {
    for (size_t i = 0, rest = place; i < values.size(); rest /= counts[i++]) args[i] = tried[i][rest % counts[i]];
    const double there = e.apply(values), moved = std::abs(there - exact.value);
    if (there == exact.value || (std::isnan(there) && std::isnan(exact.value))) continue;
    largest = std::isnan(moved) ? HUGE_VAL : std::max(largest, moved);
  }
  return {exact.value, own_error(e, exact.value, arithmetic) + largest};
}

}  // namespace qcg
