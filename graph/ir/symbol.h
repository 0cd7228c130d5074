// Dim: an integer known at compile time or a polynomial of symbols known at run time ("s0", "2*s0+1", "s0*s1").
//
// Why here: torch.export leaves batch and sequence sizes symbolic; shapes, buffer sizes and loop bounds are sums and
// products of them, and of two functions: quotients rounded down and the smaller of two sizes. Such a call is a factor
// whose name is its text, "floordiv(s0+1,2)", so that equal calls are equal factors. A remainder and the larger of two
// sizes are polynomials of these.
//
//   Dim rows = Dim::symbol("s0") * Dim::symbol("s1");
//   rows.str() == "s0*s1";  rows.evaluate({{"s0", 2}, {"s1", 8}}) == 16;
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace qcg {

// A symbolic size and the range the exporter promised for it (both ends included).
struct Symbol {
  std::string name;
  int64_t min = 0;
  int64_t max = INT64_MAX;
};

using SymbolValues = std::map<std::string, int64_t, std::less<>>;

// A polynomial with integer coefficients in normal form: equal values of Dim are equal polynomials. Arithmetic
// saturates to an invalid Dim where a number overflows int64, a polynomial has more than kMaxTerms terms or a term more
// than kMaxDegree factors: check valid() after building from hostile input. The terms are shared: the values of a graph
// repeat a few sizes, and a copy of a long one costs no more than of a number.
class Dim {
 public:
  // Sorted names of symbols and texts of calls, repeated for powers; empty for the constant term.
  using Monomial = std::vector<std::string>;
  using Terms = std::map<Monomial, int64_t>;  // no zero coefficients

  // Products of sums grow fast; no shape of a real model comes near these, hostile input would.
  static constexpr size_t kMaxTerms = 128;
  static constexpr size_t kMaxDegree = 16;
  static constexpr int kMaxNesting = 2;  // of calls

  Dim() = default;                                // 0
  Dim(int64_t constant) : constant_(constant) {}  // NOLINT: a size is a size
  static Dim symbol(std::string name);
  static Dim sum(const std::vector<Dim>& dims);         // in one go: adding one by one copies the terms each time
  static Dim floor_divide(const Dim& a, const Dim& b);  // as Python's //; invalid where b is the number 0
  static Dim modulo(const Dim& a, const Dim& b) { return a - b * floor_divide(a, b); }
  static Dim smaller(const Dim& a, const Dim& b);
  static Dim larger(const Dim& a, const Dim& b) { return a + b - smaller(a, b); }

  // What a factor of a monomial is, if it is a call and no symbol.
  struct Call;
  static std::optional<Call> as_call(std::string_view factor);

  bool is_constant() const { return valid_ && !terms_; }
  bool valid() const { return valid_; }
  int64_t constant() const { return constant_; }  // precondition: is_constant()
  bool is_constant(int64_t value) const { return is_constant() && constant_ == value; }
  Terms terms() const;
  size_t count_terms() const { return terms_ ? terms_->size() : 1; }  // 1 for a number, even for 0
  std::vector<std::string> symbols() const;                           // sorted, unique; those within calls too
  bool has_calls() const;

  // nullopt when a symbol is missing, the value overflows int64 or a divisor is 0.
  std::optional<int64_t> evaluate(const SymbolValues& values) const;
  // this / divisor when the division leaves no remainder as polynomials (single-term or constant divisors), else
  // nullopt.
  std::optional<Dim> divide_exactly(const Dim& divisor) const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);

  std::string str() const;                          // "2*s0*s1+3"
  static Result<Dim> parse(std::string_view text);  // inverse of str()

 private:
  static Dim of(Terms terms);
  static Dim call(std::string_view function, const Dim& a, const Dim& b);
  static Dim invalid();

  int64_t constant_ = 0;                // of a number
  std::shared_ptr<const Terms> terms_;  // null: a number
  bool valid_ = true;
};

struct Dim::Call {
  std::string_view function;  // "floordiv" or "min"
  Dim a, b;
  std::optional<int64_t> apply(int64_t x, int64_t y) const;  // nullopt: a division by 0, or of -2^63 by -1
};

// What is wrong with a size that is not valid().
inline constexpr const char* kInvalidSize =
    "does not fit 64 bits, divides by 0, or is a sum, product or quotient of too many symbols";

// What the sizes of each run must satisfy: a difference is 0, is not 0, or is at least 0.
//
//   a == b: a - b is 0      a != b: a - b is not 0      a <= b: b - a is at least 0      a < b: b - a - 1 is at least 0
struct SizeCondition {
  enum class Says { zero, not_zero, at_least_0 };
  Says says;
  Dim difference;
  std::string text;  // as an error says it: "x.size()[1] + start <= 12"

  bool holds(const SymbolValues& values) const;  // also where a symbol is missing
};
std::string_view name_of(SizeCondition::Says says);  // "zero", "not_zero" or "at_least_0"

using Shape = std::vector<Dim>;

Dim product(const Shape& shape);
std::string to_string(const Shape& shape);  // "[s0, 4096]"
std::optional<std::vector<int64_t>> evaluate(const Shape& shape, const SymbolValues& values);

}  // namespace qcg
