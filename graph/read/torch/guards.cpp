#include "graph/read/torch/guards.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include "graph/ops/size_values.h"
#include "graph/read/torch/meta.h"

namespace qcg {
namespace {

constexpr size_t kMostText = 2000, kMostTerms = 8, kMostEquations = 256;
constexpr int kDeepest = 64;
constexpr int64_t kMostDivisor = 256, kMostTried = 100'000, kMostTriedSize = 4096;
constexpr int64_t kMostExactSize = int64_t{1} << 50;
constexpr int64_t kOtherSize = 40320;  // a multiple of most numbers that sizes are divided by

struct Comparison {
  std::string_view sign, name;  // of Python and of sympy
  SizeCondition::Says says;
  int64_t factor, number;  // of the difference: factor * (left - right) + number
};
constexpr Comparison kComparisons[] = {
    {"==", "Equality", SizeCondition::Says::zero, 1, 0},
    {"!=", "Unequality", SizeCondition::Says::not_zero, 1, 0},
    {"<=", "LessThan", SizeCondition::Says::at_least_0, -1, 0},
    {">=", "GreaterThan", SizeCondition::Says::at_least_0, 1, 0},
    {"<", "StrictLessThan", SizeCondition::Says::at_least_0, -1, -1},
    {">", "StrictGreaterThan", SizeCondition::Says::at_least_0, 1, -1},
};

std::optional<SizeCondition> compare(const Comparison& c, const Dim& left, const Dim& right, std::string text) {
  Dim difference = Dim(c.factor) * (left - right) + Dim(c.number);
  return difference.valid() ? std::optional(SizeCondition{c.says, std::move(difference), std::move(text)})
                            : std::nullopt;
}

// Python's operators and functions on sizes, as arithmetic on Dims.
struct OfDims {
  using Value = Dim;
  const SizeOfInput& size_of;

  static std::optional<Dim> number(double) { return std::nullopt; }
  static std::optional<Dim> number(int64_t value) { return Dim(value); }
  std::optional<Dim> size(std::string_view input, int64_t axis) { return size_of(input, axis); }
  static std::optional<Dim> apply(std::string_view op, const Dim& a, const Dim& b) {
    if (op == "+") return a + b;
    if (op == "-") return a - b;
    if (op == "*") return a * b;
    if (op == "torch.sym_max(") return Dim::larger(a, b);
    if (op == "torch.sym_min(") return Dim::smaller(a, b);
    if ((op != "//" && op != "%") || b.is_constant(0)) return std::nullopt;
    const Dim whole = Dim::floor_divide(a, b);
    return op == "//" ? whole : a - b * whole;
  }
  static std::optional<Dim> apply(std::string_view, const Dim&) { return std::nullopt; }
};

// A size over a power of two, by which floats divide exactly.
struct Fraction {
  Dim numerator;
  int64_t denominator = 1;
};

// The same on such fractions.
struct OfFractions {
  using Value = Fraction;
  const SizeOfInput& size_of;
  static constexpr int64_t kMostDenominator = int64_t{1} << 40;

  static std::optional<Fraction> number(int64_t value) { return Fraction{value}; }
  static std::optional<Fraction> number(double value) {
    int64_t denominator = 1;
    while (denominator < kMostDenominator && value != std::floor(value)) value *= 2, denominator *= 2;
    if (value != std::floor(value) || std::abs(value) >= 0x1p53) return std::nullopt;
    return Fraction{static_cast<int64_t>(value), denominator};
  }
  std::optional<Fraction> size(std::string_view input, int64_t axis) {
    const auto dim = size_of(input, axis);
    return dim ? std::optional(Fraction{*dim}) : std::nullopt;
  }
  static std::optional<Fraction> apply(std::string_view op, const Fraction& a, const Fraction& b) {
    if (op == "*" && a.denominator <= kMostDenominator / b.denominator)
      return Fraction{a.numerator * b.numerator, a.denominator * b.denominator};
    if (op == "/") {
      if (!b.numerator.is_constant() || b.denominator != 1) return std::nullopt;
      const int64_t by = b.numerator.constant();
      if (by < 1 || (by & (by - 1)) != 0 || by > kMostDenominator / a.denominator) return std::nullopt;
      return Fraction{a.numerator, a.denominator * by};
    }
    const bool whole = a.denominator == 1 && b.denominator == 1;
    if (op != "+" && op != "-" && !whole) return std::nullopt;
    const int64_t common = std::max(a.denominator, b.denominator);  // of powers of two
    auto numerator =
        OfDims::apply(op, a.numerator * Dim(common / a.denominator), b.numerator * Dim(common / b.denominator));
    return numerator ? std::optional(Fraction{std::move(*numerator), common}) : std::nullopt;
  }
  static std::optional<Fraction> apply(std::string_view function, const Fraction& a) {
    if (function == "torch.sym_float(") return a;
    const Dim denominator(a.denominator);
    if (function == "math.floor(") return Fraction{Dim::floor_divide(a.numerator, denominator)};
    if (function == "math.ceil(") return Fraction{Dim(0) - Dim::floor_divide(Dim(0) - a.numerator, denominator)};
    return std::nullopt;
  }
};

// The same on numbers, when symbols have values. Integers beyond 2^53 are rounded.
struct OfNumbers {
  using Value = double;
  const SizeOfInput& size_of;
  SymbolValues values;
  std::set<std::string> used = {};  // symbols

  template <class T>
  static std::optional<double> number(T value) {
    return static_cast<double>(value);
  }
  std::optional<double> size(std::string_view input, int64_t axis) {
    const auto dim = size_of(input, axis);
    if (!dim) return std::nullopt;
    for (std::string& name : dim->symbols()) used.insert(std::move(name));
    const auto value = dim->evaluate(values);
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  }
  static std::optional<double> apply(std::string_view op, double a, double b) {
    if (op == "+") return a + b;
    if (op == "-") return a - b;
    if (op == "*") return a * b;
    if (op == "**") return std::pow(a, b);
    if (op == "torch.sym_max(") return std::max(a, b);
    if (op == "torch.sym_min(") return std::min(a, b);
    if (op == "&")
      return std::abs(a) < 0x1p53 && std::abs(b) < 0x1p53
                 ? std::optional(static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b)))
                 : std::nullopt;
    if (b == 0) return std::nullopt;
    return op == "/" ? a / b : op == "//" ? std::floor(a / b) : a - b * std::floor(a / b);
  }
  static std::optional<double> apply(std::string_view function, double a) {
    return function == "math.trunc("                ? std::trunc(a)
           : function == "math.floor("              ? std::floor(a)
           : function == "math.ceil("               ? std::ceil(a)
           : function == "round("                   ? std::nearbyint(a)
           : function.find("sqrt") != function.npos ? std::sqrt(a)
                                                    : a;  // torch.sym_float
  }
};

// A guard's two sides and the sign between them.
template <class Numbers>
class Parser {
 public:
  using Value = typename Numbers::Value;
  Parser(std::string_view text, Numbers& numbers) : text_(text), numbers_(numbers) {}

  struct Sides {
    const Comparison& sign;
    Value left, right;
  };
  std::optional<Sides> guard() {
    const auto left = bits(0);
    if (!left) return std::nullopt;
    for (const Comparison& c : kComparisons) {
      if (!take(c.sign)) continue;
      const auto right = bits(0);
      return right && text_.empty() ? std::optional(Sides{c, *left, *right}) : std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool take(std::string_view word) {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    while (text_.starts_with(' ')) text_.remove_prefix(1);
    return true;
  }

  // Operands that any of the operators joins, from left to right.
  template <size_t N, class Operand>
  std::optional<Value> joined(const std::string_view (&operators)[N], Operand operand) {
    std::optional<Value> value = operand();
    while (value) {
      const auto op = std::ranges::find_if(operators, [&](std::string_view word) { return take(word); });
      if (op == std::end(operators)) return value;
      const std::optional<Value> next = operand();
      value = next ? numbers_.apply(*op, *value, *next) : std::nullopt;
    }
    return value;
  }
  std::optional<Value> bits(int depth) {
    return joined({"&"}, [&] { return sum(depth); });
  }
  std::optional<Value> sum(int depth) {
    return joined({"+", "-"}, [&] { return product(depth); });
  }
  std::optional<Value> product(int depth) {
    return joined({"//", "/", "%", "*"}, [&] { return power(depth); });
  }
  std::optional<Value> power(int depth) {
    return joined({"**"}, [&] { return factor(depth); });
  }

  std::optional<Value> factor(int depth) {
    if (depth > kDeepest) return std::nullopt;
    if (take("-")) {
      const auto value = power(depth + 1), zero = numbers_.number(int64_t{0});
      return value && zero ? numbers_.apply("-", *zero, *value) : std::nullopt;
    }
    if (take("(")) {
      auto value = bits(depth + 1);
      return value && take(")") ? value : std::nullopt;
    }
    for (const std::string_view function : {"torch.sym_max(", "torch.sym_min("})
      if (take(function)) {
        const auto a = bits(depth + 1);
        const auto b = a && take(",") ? bits(depth + 1) : std::nullopt;
        return b && take(")") ? numbers_.apply(function, *a, *b) : std::nullopt;
      }
    for (const std::string_view function : {"math.trunc(", "math.floor(", "math.ceil(", "round(", "torch.sym_float(",
                                            "torch.sym_sqrt(", "torch._sym_sqrt(", "math.sqrt("})
      if (take(function)) {
        const auto a = bits(depth + 1);
        return a && take(")") ? numbers_.apply(function, *a) : std::nullopt;
      }
    if (!take("L")) return literal();
    std::string name;
    do {
      const auto part = subscript();
      if (!part) return std::nullopt;
      name += (name.empty() ? "" : "_") + *part;
    } while (text_.starts_with('['));
    if (!take(".size()[")) return numbers_.size(name, kValueOfInput);
    if (!number() || !take("]")) return std::nullopt;
    return numbers_.size(name, number_);
  }

  // ['cache'][0] of a list that is an input: its tensor is the input cache_0.
  std::optional<std::string> subscript() {
    if (!take("[")) return std::nullopt;
    if (!take("'")) return number() && take("]") ? std::optional(std::to_string(number_)) : std::nullopt;
    const size_t quote = text_.find('\'');
    if (quote == text_.npos) return std::nullopt;
    std::string name(text_.substr(0, quote));
    text_.remove_prefix(quote);
    return take("']") ? std::optional(std::move(name)) : std::nullopt;
  }

  std::optional<Value> literal() {
    const std::string_view before = text_;
    if (number() && !text_.starts_with('.') && !text_.starts_with('e')) return numbers_.number(number_);
    text_ = before;
    double fraction = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), fraction);
    if (error != std::errc() || fraction < 0) return std::nullopt;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    take("");
    return numbers_.number(fraction);
  }
  bool number() {
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number_);
    if (error != std::errc() || number_ < 0) return false;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return take("");
  }

  std::string_view text_;
  Numbers& numbers_;
  int64_t number_ = 0;
};

bool holds(const Parser<OfNumbers>::Sides& sides) {
  const double difference = static_cast<double>(sides.sign.factor) * (sides.left - sides.right);
  if (std::isnan(difference)) return false;
  if (sides.sign.says == SizeCondition::Says::at_least_0)
    return sides.sign.number < 0 ? difference > 0 : difference >= 0;
  return (difference == 0) == (sides.sign.says == SizeCondition::Says::zero);
}

// The sizes below kMostTriedSize for which `holds` is true, where they are one range; nullopt: it is unknown for one.
std::optional<Symbol> tried_range(const std::string& symbol, const std::function<std::optional<bool>(int64_t)>& holds) {
  Symbol found{symbol, 0, 0};
  for (int64_t size = 1; size < kMostTriedSize; ++size) {
    const auto value = holds(size);
    if (!value) return std::nullopt;
    if (!*value) continue;
    if (found.min == 0) found.min = size;
    else if (found.max != size - 1) return std::nullopt;
    found.max = size;
  }
  return found.min == 0 ? std::nullopt : std::optional(found);
}

// The largest size for which `holds` is true, where it is for all that were tried: by doubling, then by bisection.
// INT64_MAX: it is true for all that doubles hold.
int64_t largest_size(const std::function<std::optional<bool>(int64_t)>& holds) {
  int64_t yes = kMostTriedSize - 1, no = kMostTriedSize;
  for (; holds(no).value_or(false); yes = no, no *= 2)
    if (no > kMostExactSize) return INT64_MAX;
  while (no - yes > 1) {
    const int64_t middle = yes + (no - yes) / 2;
    (holds(middle).value_or(false) ? yes : no) = middle;
  }
  return yes;
}

// c1 * a * f + c2 * b * f = 0 of two symbols, one of which is a multiple of the other. Torch assumes that no size is 0,
// so that factors of both terms say nothing.
std::optional<SizeMultiple> as_multiple(const Dim& difference) {
  if (!difference.valid() || difference.has_calls() || difference.is_constant()) return std::nullopt;
  std::vector<std::pair<std::string, int64_t>> terms;
  const Dim::Terms all = difference.terms();
  if (all.size() != 2) return std::nullopt;
  for (const auto& [monomial, coefficient] : all) {
    const Dim::Monomial& other = (monomial == all.begin()->first ? std::next(all.begin()) : all.begin())->first;
    Dim::Monomial own;
    std::ranges::set_difference(monomial, other, std::back_inserter(own));
    if (own.size() != 1) return std::nullopt;
    terms.emplace_back(own[0], coefficient);
  }
  auto [a, ca] = terms[0];
  auto [b, cb] = terms[1];
  if ((ca > 0) == (cb > 0) || ca == INT64_MIN || cb == INT64_MIN) return std::nullopt;
  ca = std::abs(ca), cb = std::abs(cb);
  if (cb % ca == 0) return SizeMultiple{a, b, cb / ca};
  if (ca % cb == 0) return SizeMultiple{b, a, ca / cb};
  return std::nullopt;
}

// Symbols that are divided by a number, with that number.
std::set<std::pair<std::string, int64_t>> divided_symbols(const Dim& d) {
  std::set<std::pair<std::string, int64_t>> out;
  for (const auto& [monomial, coefficient] : d.terms())
    for (const std::string& factor : monomial) {
      const auto call = Dim::as_call(factor);
      if (!call || call->function != "floordiv" || !call->b.is_constant()) continue;
      const int64_t divisor = call->b.constant();
      if (divisor < 2 || divisor > kMostDivisor) continue;
      for (const std::string& symbol : call->a.symbols()) out.emplace(symbol, divisor);
    }
  return out;
}

// Whether the difference is 0 for multiples, of the first sizes, and for them alone unless `others` may be.
bool says_multiple(const Dim& d, const std::string& symbol, int64_t divisor, bool others, int64_t& tried) {
  SymbolValues values;
  for (std::string& other : d.symbols()) values[std::move(other)] = kOtherSize;
  const int64_t most = std::max<int64_t>(2 * divisor, 8);
  int64_t zeros = 0;
  for (int64_t size = 1; size <= most; ++size) {
    values[symbol] = size;
    const auto value = d.evaluate(values);
    if (!value || ++tried > kMostTried || (size % divisor == 0 && *value != 0)) return false;
    if (size % divisor != 0 && *value == 0) {
      if (!others) return false;
      ++zeros;
    }
  }
  return zeros < most / 2;  // a difference that is 0 for most sizes says nothing
}

// "L['x'].size()[1] <= 4" -> "x.size()[1] <= 4"
std::string as_users_write(std::string_view guard) {
  std::string out(guard);
  for (size_t at = 0; (at = out.find("L['", at)) != out.npos;) {
    const size_t end = out.find("']", at);
    if (end == out.npos) break;
    out.erase(end, 2).erase(at, 3);
  }
  return out;
}

}  // namespace

std::optional<SizeCondition> read_guard(std::string_view guard, const SizeOfInput& size_of) {
  if (guard.size() > kMostText) return std::nullopt;
  OfDims numbers{size_of};
  const auto sides = Parser(guard, numbers).guard();
  auto read = sides ? compare(sides->sign, sides->left, sides->right, as_users_write(guard)) : std::nullopt;
  return read && read->difference.count_terms() <= kMostTerms ? std::move(read) : std::nullopt;
}

std::optional<SizeCondition> read_guard_of_fractions(std::string_view guard, const SizeOfInput& size_of) {
  if (guard.size() > kMostText) return std::nullopt;
  OfFractions numbers{size_of};
  const auto sides = Parser(guard, numbers).guard();
  if (!sides) return std::nullopt;
  const int64_t common = std::max(sides->left.denominator, sides->right.denominator);
  const auto whole = [&](const Fraction& side) { return side.numerator * Dim(common / side.denominator); };
  return compare(sides->sign, whole(sides->left), whole(sides->right), as_users_write(guard));
}

std::optional<Symbol> find_range(std::string_view guard, const SizeOfInput& size_of, const ExportedSizes& exported) {
  if (guard.size() > kMostText) return std::nullopt;
  OfNumbers numbers{size_of, {}};
  for (const auto& [symbol, size] : exported)
    if (size.hint) numbers.values.emplace(symbol, *size.hint);
  const auto at_export = Parser(guard, numbers).guard();
  if (!at_export || !holds(*at_export) || numbers.used.size() != 1) return std::nullopt;
  const std::string symbol = *numbers.used.begin();
  if (numbers.values[symbol] >= kMostTriedSize) return std::nullopt;
  const auto holds_for = [&](int64_t size) -> std::optional<bool> {
    numbers.values[symbol] = size;
    const auto sides = Parser(guard, numbers).guard();
    return sides ? std::optional(holds(*sides)) : std::nullopt;
  };
  auto found = tried_range(symbol, holds_for);
  if (found && found->min == 1) found->min = 0;
  if (found && found->max == kMostTriedSize - 1) found->max = largest_size(holds_for);
  return found;
}

std::optional<SizeCondition> read_assertion(std::string_view expr) {
  if (expr.size() > kMostText) return std::nullopt;
  for (const Comparison& c : kComparisons) {
    if (!expr.starts_with(std::string(c.name) + "(") || !expr.ends_with(')')) continue;
    const std::string_view both = expr.substr(c.name.size() + 1, expr.size() - c.name.size() - 2);
    size_t comma = 0;
    for (int depth = 0; comma < both.size() && (depth != 0 || both[comma] != ','); ++comma)
      depth += both[comma] == '(' ? 1 : both[comma] == ')' ? -1 : 0;
    if (comma == both.size()) return std::nullopt;
    std::string_view rest = both.substr(comma + 1);
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    const auto left = parse_size_expr(both.substr(0, comma)), right = parse_size_expr(rest);
    if (!left.ok() || !right.ok()) return std::nullopt;
    return compare(c, *left, *right, left->str() + " " + std::string(c.sign) + " " + right->str());
  }
  return std::nullopt;
}

std::vector<SizeMultiple> find_multiples(const std::vector<Dim>& differences) {
  std::vector<SizeMultiple> found;
  std::vector<const Dim*> with_calls;
  for (const Dim& d : differences) {
    if (auto multiple = as_multiple(d)) found.push_back(std::move(*multiple));
    if (d.has_calls() && with_calls.size() < kMostEquations) with_calls.push_back(&d);
  }
  for (size_t i = 0; i < with_calls.size(); ++i)
    for (size_t j = i + 1; j < with_calls.size(); ++j)
      for (const auto& [monomial, a] : with_calls[i]->terms())
        for (const auto& [other, b] : with_calls[j]->terms()) {
          if (monomial != other || monomial.empty()) continue;
          const int64_t common = std::gcd(a, b);
          if (common == 0) continue;
          if (auto multiple = as_multiple(Dim(b / common) * *with_calls[i] - Dim(a / common) * *with_calls[j]))
            found.push_back(std::move(*multiple));
        }
  return found;
}

std::vector<SizeMultiple> find_equal_sizes(const Dim& difference, const ExportedSizes& exported) {
  if (!difference.valid() || difference.is_constant()) return {};
  Dim left, right;
  for (const auto& [monomial, coefficient] : difference.terms()) {
    Dim term = coefficient;
    for (const std::string& factor : monomial) term = term * Dim::symbol(factor);
    (coefficient > 0 ? left : right) = coefficient > 0 ? left + term : right - term;
  }
  const auto own_symbols = [&](const Dim& of, const Dim& other) {
    std::vector<std::string> own, theirs = other.symbols();
    for (std::string& name : of.symbols())
      if (!std::ranges::binary_search(theirs, name)) own.push_back(std::move(name));
    std::ranges::stable_sort(own, {}, [&](const std::string& name) {
      const auto at = exported.find(name);
      return at == exported.end() ? INT64_MAX : at->second.axis;
    });
    return own;
  };
  std::vector<std::string> ours = own_symbols(left, right), theirs = own_symbols(right, left);
  if (ours.empty() || ours.size() != theirs.size()) return {};
  const auto hint_of = [&](const std::string& name) {
    const auto at = exported.find(name);
    return at == exported.end() ? std::nullopt : at->second.hint;
  };
  if (!std::ranges::equal(ours, theirs, {}, hint_of, hint_of)) {
    std::ranges::stable_sort(ours, {}, hint_of);
    std::ranges::stable_sort(theirs, {}, hint_of);
  }
  KnownSizes known;
  std::vector<SizeMultiple> out;
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto a = exported.find(ours[i]), b = exported.find(theirs[i]);
    if (a == exported.end() || b == exported.end()) return {};
    if (a->second.hint && b->second.hint && *a->second.hint != *b->second.hint) return {};
    known.emplace(theirs[i], Dim::symbol(ours[i]));
    out.push_back({theirs[i], ours[i]});
  }
  if (!(with_known(right, known) == left)) return {};
  return out;
}

std::map<std::string, int64_t> find_divisors(const std::vector<Dim>& differences, const ExportedSizes& exported) {
  std::map<std::string, int64_t> found;
  int64_t tried = 0;
  for (const bool others : {false, true})
    for (const Dim& d : differences) {
      if (!d.has_calls()) continue;
      for (const auto& [symbol, divisor] : divided_symbols(d)) {
        int64_t& known = found.try_emplace(symbol, 1).first->second;
        const auto size = exported.find(symbol);
        const bool was_multiple = size != exported.end() && size->second.hint && *size->second.hint % divisor == 0;
        if (known % divisor == 0 || (others && !was_multiple) || !says_multiple(d, symbol, divisor, others, tried))
          continue;
        known = std::lcm(known, divisor);
        if (known > kMostDivisor) known = divisor;
      }
    }
  std::erase_if(found, [](const auto& entry) { return entry.second == 1; });
  return found;
}

KnownSizes find_known_calls(const std::vector<Dim>& differences) {
  KnownSizes out;
  for (const Dim& d : differences) {
    if (!d.valid() || d.is_constant()) continue;
    Dim::Terms terms = d.terms();
    const auto constant = terms.extract(Dim::Monomial());
    const int64_t number = constant ? constant.mapped() : 0;
    if (terms.size() != 1 || terms.begin()->first.size() != 1) continue;
    const auto& [monomial, factor] = *terms.begin();
    if (Dim::as_call(monomial[0]) && number != INT64_MIN && number % factor == 0)
      out.emplace(monomial[0], Dim(-number / factor));
  }
  return out;
}

std::optional<std::pair<std::string, Dim>> find_definition(const Dim& difference, const ExportedSizes& exported,
                                                           const KnownSizes& known) {
  if (!difference.valid() || difference.is_constant()) return std::nullopt;
  const auto is_size = [&](const std::string& symbol) { return exported.contains(symbol) && !known.contains(symbol); };
  for (const auto& [monomial, coefficient] : difference.terms()) {
    if (monomial.size() != 1 || std::abs(coefficient) != 1 || !is_size(monomial[0])) continue;
    Dim size = Dim::symbol(monomial[0]) - Dim(coefficient) * difference;
    const std::vector<std::string> others = size.symbols();
    if (size.valid() && !others.empty() && std::ranges::all_of(others, is_size) &&
        std::ranges::find(others, monomial[0]) == others.end())
      return std::pair(monomial[0], std::move(size));
  }
  return std::nullopt;
}

std::optional<Symbol> find_range(const Dim& difference) {
  if (!difference.valid() || !difference.has_calls()) return std::nullopt;
  const std::vector<std::string> symbols = difference.symbols();
  if (symbols.size() != 1) return std::nullopt;
  const auto found = tried_range(symbols[0], [&](int64_t size) -> std::optional<bool> {
    const auto value = difference.evaluate({{symbols[0], size}});
    return value ? std::optional(*value == 0) : std::nullopt;
  });
  return found && found->max < kMostTriedSize - 1 ? found : std::nullopt;
}

}  // namespace qcg
