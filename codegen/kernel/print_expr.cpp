#include "codegen/kernel/print_expr.h"

#include <fmt/format.h>

#include <cmath>

#include "codegen/kernel/render_template.h"

namespace qcg {
namespace {

// How one language spells the nodes; the functions have the same names after the prefix.
struct Spelling {
  std::string_view prefix;
  std::string (*number)(double);
  DType widest = DType::f32;  // what a cast to f64 is
};

std::string vector_number(double value) { return fmt::format("v_set1({})", float_literal(value)); }
std::string cuda_number(double value) {
  const float x = static_cast<float>(value);
  if (std::isnan(x)) return "s_nan()";
  if (std::isinf(x)) return x > 0 ? "s_infinity()" : "-s_infinity()";
  return float_literal(value);
}
std::string integer_number(double value) { return fmt::format("INT64_C({})", static_cast<int64_t>(value)); }
std::string f64_number(double value) {
  if (std::isnan(value)) return "f64_nan()";
  if (std::isinf(value)) return value > 0 ? "f64_infinity()" : "-f64_infinity()";
  return fmt::format("{:#}", value);  // the shortest that reads back, with a point
}
constexpr Spelling kVectors = {"v_", vector_number}, kCuda = {"s_", cuda_number}, kIntegers = {"i_", integer_number},
                   kF64 = {"f64_", f64_number, DType::f64};

// Exponents that torch, too, computes by multiplication or square root: exact powers instead of exp2(y * log2(x)).
std::string_view special_power(const Expr& exponent) {
  if (exponent.kind != ExprKind::number) return {};
  struct Row {
    double exponent;
    std::string_view function;
  };
  static constexpr Row kRows[] = {{2, "square"}, {3, "cube"}, {0.5, "sqrt"}, {-0.5, "rsqrt"}, {-1, "reciprocal"}};
  for (const Row& row : kRows)
    if (row.exponent == exponent.value) return row.function;
  return {};
}

std::string print(const Expr& expr, const Spelling& spelling, const std::vector<std::string>& accs,
                  const std::vector<std::string>& ins) {
  auto arg = [&](size_t i) { return print(expr.args[i], spelling, accs, ins); };
  switch (expr.kind) {
    case ExprKind::acc: return accs.at(static_cast<size_t>(expr.index));
    case ExprKind::in: return ins.at(static_cast<size_t>(expr.index));
    case ExprKind::pos: return fmt::format("pos{}", expr.index);
    case ExprKind::size: return fmt::format("size{}", expr.index);
    case ExprKind::number: return spelling.number(expr.value);
    case ExprKind::cast: {
      const DType dtype = expr.dtype == DType::f64 ? spelling.widest : expr.dtype;
      return fmt::format("{}cast_{}({})", spelling.prefix, dtype_name(dtype), arg(0));
    }
    case ExprKind::call: break;
  }
  if (expr.function == "pow") {
    if (expr.args[1] == Expr::number(1)) return arg(0);
    if (const std::string_view function = special_power(expr.args[1]); !function.empty())
      return fmt::format("{}{}({})", spelling.prefix, function, arg(0));
  }
  std::string out = fmt::format("{}{}(", spelling.prefix, expr.function);
  for (size_t i = 0; i < expr.args.size(); ++i) out += (i ? ", " : "") + arg(i);
  return out + ")";
}

}  // namespace

std::string print_expr(const Expr& expr, const std::vector<std::string>& acc_names,
                       const std::vector<std::string>& in_names) {
  return print(expr, kVectors, acc_names, in_names);
}

std::string print_expr_cuda(const Expr& expr, const std::vector<std::string>& acc_names,
                            const std::vector<std::string>& in_names) {
  return print(expr, kCuda, acc_names, in_names);
}

std::string print_expr_integers(const Expr& expr, const std::vector<std::string>& in_names) {
  return print(expr, kIntegers, {}, in_names);
}

std::string print_expr_f64(const Expr& expr, const std::vector<std::string>& in_names) {
  return print(expr, kF64, {}, in_names);
}

}  // namespace qcg
