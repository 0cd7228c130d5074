// Expr -> the C++ that computes it with the vector primitives of templates/cpu/<isa>.h.
#include <fmt/format.h>

#include "codegen/render_template.h"
#include "codegen/rowwise.h"

namespace qcg {
namespace {

// Exponents that torch, too, computes by multiplication or square root: exact powers instead of exp2(y * log2(x)).
std::string_view special_power(const Expr& exponent) {
  if (exponent.kind != ExprKind::number) return {};
  struct Row {
    double exponent;
    std::string_view function;
  };
  static constexpr Row kRows[] = {{2, "v_square"},  {3, "v_cube"},          {0.5, "v_sqrt"},
                                  {-0.5, "v_rsqrt"}, {-1, "v_reciprocal"}, {1, "v_cast_f32"}};
  for (const Row& row : kRows)
    if (row.exponent == exponent.value) return row.function;
  return {};
}

}  // namespace

std::string print_expr(const Expr& expr, const std::vector<std::string>& acc_names, const std::vector<std::string>& in_names) {
  auto print = [&](const Expr& e) { return print_expr(e, acc_names, in_names); };
  switch (expr.kind) {
    case ExprKind::acc: return acc_names.at(static_cast<size_t>(expr.index));
    case ExprKind::in: return in_names.at(static_cast<size_t>(expr.index));
    case ExprKind::number: return fmt::format("v_set1({})", float_literal(expr.value));
    case ExprKind::cast: {
      const DType dtype = expr.dtype == DType::f64 ? DType::f32 : expr.dtype;  // kernels compute in f32
      return fmt::format("v_cast_{}({})", dtype_name(dtype), print(expr.args[0]));
    }
    case ExprKind::call: break;
  }
  if (expr.function == "pow")
    if (const std::string_view function = special_power(expr.args[1]); !function.empty())
      return fmt::format("{}({})", function, print(expr.args[0]));
  std::string out = fmt::format("v_{}(", expr.function);
  for (size_t i = 0; i < expr.args.size(); ++i) out += (i ? ", " : "") + print(expr.args[i]);
  return out + ")";
}

std::string sanitize_comment(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c <= '~' ? c : '?';
  while (!out.empty() && (out.back() == '\\' || out.back() == ' ')) out.pop_back();
  // A trigraph or a marker of another language in a comment is harmless to g++ -std=c++20; nothing else ends one.
  return out;
}

}  // namespace qcg
