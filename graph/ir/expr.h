// Expr: the scalar expression an epilogue or a loop kernel computes for one output element.
//
// Why here: fold_epilogue builds it, the oracle evaluates it in double, the templates print it; one tree, three
// readers.
//
//   mul(silu(acc0), acc1)        the gate*up product of two segments of one merged linear
//   cast_bf16(add(acc0, in0))    residual add, then the graph's own cast
//
// Leaves: accN (f32 result of segment N, scales and bias included), inN (operand N, broadcast to the output), posN (the
// element's position along axis N of the output), sizeN (size N of the node, known at run time), numbers.
// A cast node rounds; passes drop casts that only narrow an intermediate, unless it decides a step (steps.h) or has
// fewer bits than the result, or precision emulation is on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace qcg {

enum class ExprKind : uint8_t { acc, in, pos, size, number, cast, call };

// The functions a call node may name. clamp takes (x, lo, hi); gt and ge are 1 or 0; where takes (condition, a, b).
// fmod is the exact remainder of a quotient of floats that is rounded toward zero. floor_div rounds down, trunc_div
// toward zero; both are 0 for a divisor 0, and mod is the remainder of floor_div. A shift by a negative number, or by
// as many bits as the integer has, moves all bits out. gcd is that of the absolute values. lgamma to ndtri and i0 to
// zeta are those of special.h.
struct ExprFunction {
  std::string_view name;
  int arity;
  double ulps = 0;  // of f32, that a kernel's result may be off by (templates/cpu/vector_math.h); 0: it only chooses
  // What kernels compute it in: f32 and f64, f32 alone, or integers alone. Some functions of floats are computed in
  // integers, too (is_integer).
  enum class In : uint8_t { floats, f32, integers } in = In::floats;
};
inline constexpr ExprFunction::In kIntegersAlone = ExprFunction::In::integers, kF32Alone = ExprFunction::In::f32;
inline constexpr double kArithmeticUlps = 2, kFunctionUlps = 8;
inline constexpr ExprFunction kExprFunctions[] = {
    {"add", 2, kArithmeticUlps},
    {"sub", 2, kArithmeticUlps},
    {"mul", 2, kArithmeticUlps},
    {"div", 2, kArithmeticUlps},
    {"max", 2},
    {"min", 2},
    {"pow", 2, kFunctionUlps},
    {"neg", 1},
    {"abs", 1},
    {"reciprocal", 1, kArithmeticUlps},
    {"relu", 1},
    {"silu", 1, kFunctionUlps},
    {"gelu", 1, kFunctionUlps},
    {"gelu_tanh", 1, 40},
    {"tanh", 1, kFunctionUlps},
    {"sigmoid", 1, kFunctionUlps},
    {"exp", 1, kFunctionUlps},
    {"log", 1, kFunctionUlps},
    {"sqrt", 1, kArithmeticUlps},
    {"rsqrt", 1, kFunctionUlps},
    {"round_even", 1},
    {"floor", 1},
    {"clamp", 3},
    {"sin", 1, kFunctionUlps},
    {"cos", 1, kFunctionUlps},
    {"erf", 1, kFunctionUlps},
    {"gt", 2},
    {"where", 3},
    {"ge", 2},
    {"log1p", 1, kFunctionUlps},
    {"expm1", 1, kFunctionUlps},
    {"log2", 1, kFunctionUlps},
    {"log10", 1, kFunctionUlps},
    {"floor_div", 2, 0, kIntegersAlone},
    {"trunc_div", 2, 0, kIntegersAlone},
    {"mod", 2, 0, kIntegersAlone},
    {"atan", 1, kFunctionUlps},
    {"fmod", 2},
    {"lgamma", 1, kArithmeticUlps, kF32Alone},
    {"digamma", 1, kArithmeticUlps, kF32Alone},
    {"erfinv", 1, kArithmeticUlps, kF32Alone},
    {"ndtri", 1, kArithmeticUlps, kF32Alone},
    {"i0", 1, kArithmeticUlps, kF32Alone},
    {"i0e", 1, kArithmeticUlps, kF32Alone},
    {"i1", 1, kArithmeticUlps, kF32Alone},
    {"i1e", 1, kArithmeticUlps, kF32Alone},
    {"erfcx", 1, kArithmeticUlps, kF32Alone},
    {"log_ndtr", 1, kArithmeticUlps, kF32Alone},
    {"trigamma", 1, kArithmeticUlps, kF32Alone},
    {"zeta", 2, kArithmeticUlps, kF32Alone},
    {"bit_and", 2, 0, kIntegersAlone},
    {"bit_or", 2, 0, kIntegersAlone},
    {"bit_xor", 2, 0, kIntegersAlone},
    {"shift_left", 2, 0, kIntegersAlone},
    {"shift_right", 2, 0, kIntegersAlone},
    {"gcd", 2, 0, kIntegersAlone},
};

struct Expr {
  ExprKind kind = ExprKind::number;
  int index = 0;              // acc, in, pos, size
  double value = 0;           // number
  DType dtype = DType::f32;   // cast
  std::string_view function;  // call: points into kExprFunctions
  std::vector<Expr> args;     // cast (1), call (arity)

  static Expr acc(int index);
  static Expr in(int index);
  static Expr pos(int axis);
  static Expr size(int index);
  static Expr number(double value);
  static Expr cast(DType dtype, Expr x);
  static Expr call(std::string_view function, std::vector<Expr> args);  // precondition: a row of kExprFunctions

  friend bool operator==(const Expr&, const Expr&) = default;
  std::string str() const;                           // "mul(silu(acc0), acc1)"; numbers print shortest round-trip
  static Result<Expr> parse(std::string_view text);  // inverse of str(); depth-limited

  // Precondition of these: neither pos nor size, which as_inputs() makes inputs of.
  double evaluate(std::span<const double> accs, std::span<const double> ins) const;
  double apply(std::span<const double> args) const;  // a cast's or call's value for these arguments
  // In two's complement modulo 2^64, over ins alone; precondition: is_integer().
  int64_t evaluate_integers(std::span<const int64_t> ins) const;
  // For element i of every operand, a block of elements at a time; over ins alone.
  std::vector<double> evaluate_all(std::span<const std::vector<double>> ins, size_t count) const;
  std::vector<int64_t> evaluate_all_integers(std::span<const std::vector<int64_t>> ins, size_t count) const;
  bool is_integer() const;  // functions that integers have, whole numbers, casts to integers
  bool has_f32() const;     // functions that kernels compute in f32
  bool has_f64() const;     // functions that kernels compute in f64, casts to f64, f32 and integers
  int count_nodes() const;
  // The indices of the leaves of this kind, each once, ascending.
  std::vector<int> leaves(ExprKind kind) const;
  // With in[first_pos + N] in the place of posN, and in[first_size + N] in the place of sizeN.
  Expr as_inputs(int first_pos, int first_size) const;
  // With f(leaf) in the place of every leaf but numbers.
  Expr map_leaves(const std::function<Expr(const Expr& leaf)>& f) const;
  double ulps() const;  // of a call, as in the table; a cast has none of its own
};

}  // namespace qcg
