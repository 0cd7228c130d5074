#include "graph/ir/symbol.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>

namespace qcg {
namespace {

constexpr size_t kMaxName = 256;   // bytes of a symbol's name
constexpr size_t kMaxPairs = 512;  // products of two terms that a product or a division computes

// Higher degree first, then by symbol names: the printing order and, as an admissible monomial order, the order in
// which division proceeds.
bool prints_before(const Dim::Monomial& a, const Dim::Monomial& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return a < b;
}

struct PrintsBefore {
  bool operator()(const Dim::Monomial& a, const Dim::Monomial& b) const { return prints_before(a, b); }
};

// Adds to one term; false on overflow.
template <class Terms>
bool add_term(Terms& terms, const Dim::Monomial& monomial, int64_t coefficient) {
  auto [it, fresh] = terms.try_emplace(monomial, 0);
  if (__builtin_add_overflow(it->second, coefficient, &it->second)) return false;
  if (it->second == 0) terms.erase(it);
  return true;
}

Dim::Monomial multiply_monomials(const Dim::Monomial& a, const Dim::Monomial& b) {
  Dim::Monomial out;
  out.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

// a / b for sorted symbol lists; nullopt when b is not contained in a.
std::optional<Dim::Monomial> divide_monomial(const Dim::Monomial& a, const Dim::Monomial& b) {
  if (!std::includes(a.begin(), a.end(), b.begin(), b.end())) return std::nullopt;
  Dim::Monomial rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest;
}

constexpr std::string_view kFloorDivide = "floordiv", kSmaller = "min";
constexpr size_t kMaxCall = 1024;  // bytes of a call's text

bool is_call(std::string_view factor) { return factor.ends_with(')'); }

// How deep calls are nested in a text.
int nesting_of(std::string_view text) {
  int depth = 0, deepest = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

Dim Dim::of(Terms terms) {
  if (terms.size() > kMaxTerms) return invalid();
  const bool number = terms.empty() || (terms.size() == 1 && terms.begin()->first.empty());
  if (number) return terms.empty() ? Dim() : Dim(terms.begin()->second);
  Dim d;
  d.terms_ = std::make_shared<const Terms>(std::move(terms));
  return d;
}

Dim Dim::invalid() {
  Dim d;
  d.valid_ = false;
  return d;
}

Dim Dim::symbol(std::string name) { return of({{{std::move(name)}, 1}}); }

Dim::Terms Dim::terms() const {
  if (terms_) return *terms_;
  return constant_ == 0 ? Terms() : Terms{{{}, constant_}};
}

Dim Dim::call(std::string_view function, const Dim& a, const Dim& b) {
  std::string text = std::string(function) + "(" + a.str() + "," + b.str() + ")";
  return text.size() > kMaxCall || nesting_of(text) > kMaxNesting ? invalid() : of({{{std::move(text)}, 1}});
}

std::optional<Dim::Call> Dim::as_call(std::string_view factor) {
  if (!is_call(factor)) return std::nullopt;
  const size_t open = factor.find('(');
  size_t comma = open + 1;
  for (int depth = 0; comma < factor.size() && (depth > 0 || factor[comma] != ','); ++comma)
    depth += factor[comma] == '(' ? 1 : factor[comma] == ')' ? -1 : 0;
  auto a = parse(factor.substr(open + 1, comma - open - 1));
  auto b = parse(factor.substr(std::min(comma + 1, factor.size()), factor.size() - comma - 2));
  if (!a.ok() || !b.ok()) return std::nullopt;
  return Call{factor.starts_with(kSmaller) ? kSmaller : kFloorDivide, std::move(*a), std::move(*b)};
}

std::string_view name_of(SizeCondition::Says says) {
  return says == SizeCondition::Says::zero ? "zero" : says == SizeCondition::Says::not_zero ? "not_zero" : "at_least_0";
}

bool SizeCondition::holds(const SymbolValues& values) const {
  const auto value = difference.evaluate(values);
  if (!value) return true;
  switch (says) {
    case Says::zero: return *value == 0;
    case Says::not_zero: return *value != 0;
    default: return *value >= 0;
  }
}

std::optional<int64_t> Dim::Call::apply(int64_t x, int64_t y) const {
  if (function == kSmaller) return std::min(x, y);
  if (y == 0 || (y == -1 && x == std::numeric_limits<int64_t>::min())) return std::nullopt;
  return floor_quotient(x, y);
}

// Terms that the divisor divides leave the quotient, and a quotient of a quotient becomes one quotient, so that equal
// sizes more often have equal texts.
Dim Dim::floor_divide(const Dim& a, const Dim& b) {
  if (!a.valid_ || !b.valid_ || b.is_constant(0)) return invalid();
  if (b.is_constant() && b.constant_ < 0)
    return b.constant_ == std::numeric_limits<int64_t>::min() ? invalid()
                                                              : floor_divide(Dim(-1) * a, Dim(-b.constant_));
  if (auto exact = a.divide_exactly(b)) return *exact;
  if (!b.is_constant()) {
    // (q b - 1) // b is q - 1 if b is positive, as a sum of sizes is. Quotients that are rounded up have this form.
    const auto above = (a + Dim(1)).divide_exactly(b);
    const bool positive = std::ranges::all_of(b.terms(), [](const auto& term) { return term.second > 0; });
    return above && positive ? *above - Dim(1) : call(kFloorDivide, a, b);
  }
  Terms whole, rest;
  for (const auto& [monomial, coefficient] : a.terms()) {
    const int64_t quotient = floor_quotient(coefficient, b.constant_), left = coefficient - quotient * b.constant_;
    if (quotient != 0) whole[monomial] = quotient;
    if (left != 0) rest[monomial] = left;
  }
  const Dim remainder = of(std::move(rest));
  if (remainder.is_constant()) return of(std::move(whole));
  const int64_t number = remainder.terms().contains({}) ? remainder.terms().at({}) : 0;
  // (4 k + 5) // 8 is (k + 1) // 2: dividing by 4 and rounding down first does not change the quotient.
  int64_t common = b.constant_;
  for (const auto& [monomial, coefficient] : remainder.terms())
    if (!monomial.empty()) common = std::gcd(common, coefficient);
  if (common > 1) {
    const Dim part = *(remainder - Dim(number)).divide_exactly(Dim(common)) + Dim(floor_quotient(number, common));
    return of(std::move(whole)) + floor_divide(part, Dim(b.constant_ / common));
  }
  const Terms single = (remainder - Dim(number)).terms();
  const auto inner = single.size() == 1 && single.begin()->second == 1 && single.begin()->first.size() == 1
                         ? as_call(single.begin()->first[0])
                         : std::nullopt;
  if (inner && inner->function == kFloorDivide && inner->b.is_constant() && inner->b.constant_ > 0)
    return of(std::move(whole)) + floor_divide(inner->a + inner->b * Dim(number), inner->b * b);
  return of(std::move(whole)) + call(kFloorDivide, remainder, b);
}

Dim Dim::smaller(const Dim& a, const Dim& b) {
  if (!a.valid_ || !b.valid_) return invalid();
  const Dim difference = a - b;
  if (difference.is_constant()) return difference.constant_ <= 0 ? a : b;
  return a.str() < b.str() ? call(kSmaller, a, b) : call(kSmaller, b, a);
}

bool Dim::has_calls() const {
  return terms_ &&
         std::ranges::any_of(*terms_, [](const auto& term) { return std::ranges::any_of(term.first, is_call); });
}

std::vector<std::string> Dim::symbols() const {
  std::vector<std::string> names;
  if (!terms_) return names;
  for (const auto& [monomial, coefficient] : *terms_)
    for (const std::string& name : monomial) {
      const auto call = as_call(name);
      if (!call) names.push_back(name);
      else
        for (const Dim& dim : {call->a, call->b})
          for (std::string& symbol : dim.symbols()) names.push_back(std::move(symbol));
    }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

namespace {

std::optional<int64_t> value_of(const std::string& factor, const SymbolValues& values) {
  if (const auto it = values.find(factor); it != values.end()) return it->second;
  const auto call = Dim::as_call(factor);
  if (!call) return std::nullopt;
  const auto a = call->a.evaluate(values), b = call->b.evaluate(values);
  return a && b ? call->apply(*a, *b) : std::nullopt;
}

}  // namespace

std::optional<int64_t> Dim::evaluate(const SymbolValues& values) const {
  if (!valid_) return std::nullopt;
  if (!terms_) return constant_;
  int64_t sum = 0;
  for (const auto& [monomial, coefficient] : *terms_) {
    int64_t term = coefficient;
    for (const auto& name : monomial) {
      const auto factor = value_of(name, values);
      if (!factor || __builtin_mul_overflow(term, *factor, &term)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, term, &sum)) return std::nullopt;
  }
  return sum;
}

std::optional<Dim> Dim::divide_exactly(const Dim& divisor) const {
  if (!valid_ || !divisor.valid_ || divisor.is_constant(0)) return std::nullopt;
  const Terms by = divisor.terms(), own = terms();
  const auto& lead = *std::min_element(by.begin(), by.end(),
                                       [](const auto& a, const auto& b) { return prints_before(a.first, b.first); });
  std::map<Monomial, int64_t, PrintsBefore> rest(own.begin(), own.end());
  Terms quotient;
  for (size_t pairs = 0; !rest.empty(); pairs += by.size()) {
    if (pairs > kMaxPairs) return std::nullopt;
    const auto term = *rest.begin();
    const auto monomial = divide_monomial(term.first, lead.first);
    const bool overflows = lead.second == -1 && term.second == std::numeric_limits<int64_t>::min();
    if (!monomial || overflows || term.second % lead.second != 0) return std::nullopt;
    const int64_t part = term.second / lead.second;
    if (!add_term(quotient, *monomial, part)) return std::nullopt;
    for (const auto& [factor, coefficient] : by) {
      int64_t taken;
      if (__builtin_mul_overflow(part, coefficient, &taken) || __builtin_sub_overflow(0, taken, &taken) ||
          !add_term(rest, multiply_monomials(*monomial, factor), taken))
        return std::nullopt;
    }
  }
  return of(std::move(quotient));
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.valid_ != b.valid_ || a.constant_ != b.constant_ || !a.terms_ != !b.terms_) return false;
  return a.terms_ == b.terms_ || *a.terms_ == *b.terms_;
}

Dim Dim::sum(const std::vector<Dim>& dims) {
  int64_t number = 0;
  Terms terms;
  for (const Dim& d : dims) {
    if (!d.valid_ || __builtin_add_overflow(number, d.constant_, &number)) return invalid();
    if (!d.terms_) continue;
    for (const auto& [monomial, coefficient] : *d.terms_)
      if (!add_term(terms, monomial, coefficient)) return invalid();
    if (terms.size() > 2 * kMaxTerms) return invalid();
  }
  if (number != 0 && !add_term(terms, {}, number)) return invalid();
  return of(std::move(terms));
}

Dim operator+(const Dim& a, const Dim& b) {
  if (b.is_constant(0)) return a;
  return Dim::sum({a, b});
}

Dim operator-(const Dim& a, const Dim& b) { return a + Dim(-1) * b; }

Dim operator*(const Dim& a, const Dim& b) {
  if (!a.valid_ || !b.valid_) return Dim::invalid();
  if (!a.terms_ && !b.terms_) {
    int64_t number;
    return __builtin_mul_overflow(a.constant_, b.constant_, &number) ? Dim::invalid() : Dim(number);
  }
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  if (a.count_terms() * b.count_terms() > kMaxPairs) return Dim::invalid();
  const Dim::Terms number = (a.terms_ ? b : a).terms();  // read where one of them is a number
  Dim::Terms out;
  for (const auto& [ma, ca] : a.terms_ ? *a.terms_ : number)
    for (const auto& [mb, cb] : b.terms_ ? *b.terms_ : number) {
      int64_t term;
      if (ma.size() + mb.size() > Dim::kMaxDegree || __builtin_mul_overflow(ca, cb, &term) ||
          !add_term(out, multiply_monomials(ma, mb), term))
        return Dim::invalid();
    }
  return Dim::of(std::move(out));
}

std::string Dim::str() const {
  if (!valid_) return "<overflow>";
  if (!terms_) return std::to_string(constant_);
  std::vector<std::pair<Monomial, int64_t>> sorted(terms_->begin(), terms_->end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return prints_before(a.first, b.first); });
  std::string s;
  for (const auto& [monomial, coefficient] : sorted) {
    if (coefficient > 0 && !s.empty()) s += '+';
    if (monomial.empty()) {
      s += std::to_string(coefficient);
      continue;
    }
    if (coefficient == -1) s += '-';
    else if (coefficient != 1) s += std::to_string(coefficient) + "*";
    for (size_t i = 0; i < monomial.size(); ++i) s += (i ? "*" : "") + monomial[i];
  }
  return s;
}

namespace {

// dim := ['-'|'+'] term (('+'|'-') term)*     term := factor ('*' factor)*
// factor := integer | symbol | ('floordiv' | 'min') '(' dim ',' dim ')'
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    QCG_TRY(dim, parse_sum(0));
    if (at_ < text_.size()) return fail("expected + or -");
    return dim;
  }

 private:
  Result<Dim> parse_sum(int depth) {
    std::vector<Dim> terms;
    do {
      bool negative = take('-');
      if (!negative && !take('+') && !terms.empty()) return fail("expected + or -");
      Dim term = 1;
      do {
        QCG_TRY(factor, parse_factor(negative, depth));
        term = term * factor;
        negative = false;
      } while (take('*'));
      terms.push_back(std::move(term));
      skip_space();
    } while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')');
    Dim sum = Dim::sum(terms);
    if (!sum.valid()) return fail(std::string("the size ") + kInvalidSize);
    return sum;
  }

  Result<Dim> parse_call(std::string_view function, int depth) {
    if (depth == Dim::kMaxNesting) return fail("calls are nested too deeply");
    if (function != kFloorDivide && function != kSmaller) return fail("expected floordiv or min");
    QCG_TRY(a, parse_sum(depth + 1));
    if (!take(',')) return fail("expected ,");
    QCG_TRY(b, parse_sum(depth + 1));
    if (!take(')')) return fail("expected )");
    return function == kSmaller ? Dim::smaller(a, b) : Dim::floor_divide(a, b);
  }

  // The sign belongs to the first factor, because |INT64_MIN| exists only with it.
  Result<Dim> parse_factor(bool negative, int depth) {
    skip_space();
    size_t begin = at_;
    if (at_ < text_.size() && is_name_start(text_[at_])) {
      while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
      if (at_ - begin > kMaxName) return fail("the symbol's name is too long");
      const std::string_view name = text_.substr(begin, at_ - begin);
      if (!take('(')) return Dim(negative ? -1 : 1) * Dim::symbol(std::string(name));
      QCG_TRY(call, parse_call(name, depth));
      return Dim(negative ? -1 : 1) * call;
    }
    uint64_t value = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
          __builtin_add_overflow(value, static_cast<uint64_t>(text_[at_] - '0'), &value))
        return fail("the number does not fit 64 bits");
      ++at_;
    }
    if (at_ == begin) return fail("expected a number or a symbol");
    if (value > static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0)) return fail("the number does not fit 64 bits");
    return Dim(static_cast<int64_t>(negative ? 0 - value : value));
  }

  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  Error fail(std::string message) const {
    return Error::bad_input("size '" + std::string(text_.substr(0, 80)) + "', column " + std::to_string(at_ + 1),
                            std::move(message),
                            "write sums of products of numbers, symbols, floordiv(a,b) and min(a,b), as in 2*s0*s1+3");
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Dim> Dim::parse(std::string_view text) { return DimParser(text).parse(); }

// Numbers and symbols first, so that a sum among them is multiplied once.
Dim product(const Shape& shape) {
  Dim number = 1, single = 1;
  for (const Dim& d : shape) {
    if (d.is_constant()) number = number * d;
    else if (d.count_terms() == 1) single = single * d;
  }
  Dim p = number * single;
  for (const Dim& d : shape)
    if (d.count_terms() > 1) p = p * d;
  return p;
}

std::string to_string(const Shape& shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + shape[i].str();
  return s + "]";
}

std::optional<std::vector<int64_t>> evaluate(const Shape& shape, const SymbolValues& values) {
  std::vector<int64_t> sizes;
  for (const Dim& d : shape) {
    auto size = d.evaluate(values);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

}  // namespace qcg
