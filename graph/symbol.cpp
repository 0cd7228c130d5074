#include "graph/symbol.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace qcg {
namespace {

// Products of sums grow fast; no shape of a real model comes near these, hostile input would.
constexpr size_t kMaxTerms = 256;
constexpr size_t kMaxDegree = 32;

// Higher degree first, then by symbol names: the printing order and, as an admissible monomial order, the order in which
// division proceeds.
bool prints_before(const Dim::Monomial& a, const Dim::Monomial& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return a < b;
}

const std::pair<const Dim::Monomial, int64_t>& leading_term(const std::map<Dim::Monomial, int64_t>& terms) {
  return *std::min_element(terms.begin(), terms.end(),
                           [](const auto& a, const auto& b) { return prints_before(a.first, b.first); });
}

// a / b for sorted symbol lists; nullopt when b is not contained in a.
std::optional<Dim::Monomial> divide_monomial(const Dim::Monomial& a, const Dim::Monomial& b) {
  if (!std::includes(a.begin(), a.end(), b.begin(), b.end())) return std::nullopt;
  Dim::Monomial rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest;
}

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

Dim::Dim(int64_t constant) {
  if (constant != 0) terms_[{}] = constant;
}

Dim Dim::symbol(std::string name) {
  Dim d;
  d.terms_[{std::move(name)}] = 1;
  return d;
}

bool Dim::is_constant() const {
  return valid_ && (terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()));
}

int64_t Dim::constant() const { return terms_.empty() ? 0 : terms_.begin()->second; }

std::vector<std::string> Dim::symbols() const {
  std::vector<std::string> names;
  for (const auto& [monomial, coefficient] : terms_) names.insert(names.end(), monomial.begin(), monomial.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::optional<int64_t> Dim::evaluate(const SymbolValues& values) const {
  if (!valid_) return std::nullopt;
  int64_t sum = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    int64_t term = coefficient;
    for (const auto& name : monomial) {
      auto it = values.find(name);
      if (it == values.end() || __builtin_mul_overflow(term, it->second, &term)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, term, &sum)) return std::nullopt;
  }
  return sum;
}

std::optional<Dim> Dim::divide_exactly(const Dim& divisor) const {
  if (!valid_ || !divisor.valid_ || divisor.terms_.empty()) return std::nullopt;
  const auto& lead = leading_term(divisor.terms_);
  Dim quotient;
  Dim rest = *this;
  for (size_t step = 0; !rest.terms_.empty(); ++step) {
    if (step == kMaxTerms) return std::nullopt;
    const auto& term = leading_term(rest.terms_);
    auto monomial = divide_monomial(term.first, lead.first);
    bool overflows = lead.second == -1 && term.second == std::numeric_limits<int64_t>::min();
    if (!monomial || overflows || term.second % lead.second != 0) return std::nullopt;
    Dim part;
    part.terms_[*monomial] = term.second / lead.second;
    quotient = quotient + part;
    rest = rest - part * divisor;
    if (!rest.valid_ || !quotient.valid_) return std::nullopt;
  }
  return quotient;
}

Dim operator+(const Dim& a, const Dim& b) {
  Dim sum = a;
  sum.valid_ = a.valid_ && b.valid_;
  for (const auto& [monomial, coefficient] : b.terms_) {
    int64_t& c = sum.terms_[monomial];
    if (__builtin_add_overflow(c, coefficient, &c)) sum.valid_ = false;
    if (c == 0) sum.terms_.erase(monomial);
  }
  if (sum.terms_.size() > kMaxTerms) sum.valid_ = false;
  return sum;
}

Dim operator-(const Dim& a, const Dim& b) { return a + Dim(-1) * b; }

Dim operator*(const Dim& a, const Dim& b) {
  Dim out;
  out.valid_ = a.valid_ && b.valid_;
  for (const auto& [ma, ca] : a.terms_) {
    for (const auto& [mb, cb] : b.terms_) {
      if (!out.valid_) return out;
      Dim::Monomial monomial;
      std::merge(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(monomial));
      int64_t term;
      int64_t& c = out.terms_[monomial];
      if (__builtin_mul_overflow(ca, cb, &term) || __builtin_add_overflow(c, term, &c)) out.valid_ = false;
      if (c == 0) out.terms_.erase(monomial);
      if (out.terms_.size() > kMaxTerms || monomial.size() > kMaxDegree) out.valid_ = false;
    }
  }
  return out;
}

std::string Dim::str() const {
  if (!valid_) return "<overflow>";
  if (terms_.empty()) return "0";
  std::vector<std::pair<Monomial, int64_t>> sorted(terms_.begin(), terms_.end());
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

// dim := ['-'|'+'] term (('+'|'-') term)*     term := factor ('*' factor)*     factor := integer | symbol
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    Dim sum;
    bool first = true;
    do {
      bool negative = take('-');
      if (!negative && !take('+') && !first) return fail("expected + or -");
      Dim term = 1;
      do {
        QCG_TRY(factor, parse_factor(negative));
        term = term * factor;
        negative = false;
      } while (take('*'));
      sum = sum + term;
      first = false;
      skip_space();
    } while (at_ < text_.size());
    if (!sum.valid()) return fail("the size does not fit 64 bits");
    return sum;
  }

 private:
  // The sign belongs to the first factor, because |INT64_MIN| exists only with it.
  Result<Dim> parse_factor(bool negative) {
    skip_space();
    size_t begin = at_;
    if (at_ < text_.size() && is_name_start(text_[at_])) {
      while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
      return Dim(negative ? -1 : 1) * Dim::symbol(std::string(text_.substr(begin, at_ - begin)));
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
                            std::move(message), "write sums of products of numbers and symbols, as in 2*s0*s1+3");
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Dim> Dim::parse(std::string_view text) { return DimParser(text).parse(); }

Dim product(const Shape& shape) {
  Dim p = 1;
  for (const Dim& d : shape) p = p * d;
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
