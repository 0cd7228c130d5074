// Symbols: what a size of them is.
#include <algorithm>

#include "runtime/program_manifest.h"

namespace qcg {

bool SizeExpr::is_constant() const {
  return std::all_of(terms.begin(), terms.end(), [](const Term& t) { return t.symbols.empty() && t.calls.empty(); });
}

std::optional<int64_t> SizeExpr::evaluate(std::span<const int64_t> symbol_values) const {
  int64_t sum = 0;
  for (const Term& term : terms) {
    int64_t product = term.coefficient;
    for (int symbol : term.symbols)
      if (__builtin_mul_overflow(product, symbol_values[static_cast<size_t>(symbol)], &product)) return std::nullopt;
    for (const SizeCall& call : term.calls) {
      const auto value = call.evaluate(symbol_values);
      if (!value || __builtin_mul_overflow(product, *value, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

bool ProgramManifest::Condition::holds(std::span<const int64_t> symbol_values) const {
  const auto value = size.evaluate(symbol_values);
  if (!value) return false;
  switch (is) {
    case Is::zero: return *value == 0;
    case Is::not_zero: return *value != 0;
    default: return *value >= 0;
  }
}

std::optional<int64_t> SizeCall::evaluate(std::span<const int64_t> symbol_values) const {
  const auto a = sizes[0].evaluate(symbol_values), b = sizes[1].evaluate(symbol_values);
  if (!a || !b) return std::nullopt;
  if (!divides) return std::min(*a, *b);
  if (*b == 0 || (*b == -1 && *a == INT64_MIN)) return std::nullopt;
  return *a / *b - (*a % *b != 0 && (*a < 0) != (*b < 0));
}

}  // namespace qcg
