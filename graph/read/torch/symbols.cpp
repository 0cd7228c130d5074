#include "graph/read/torch/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/ops/infer.h"
#include "graph/read/files/limits.h"

namespace qcg {
namespace {

constexpr int64_t kTriedSizes = 256;  // from the least one on

Result<int64_t> read_bound(const JsonCursor& range, std::string_view key, int64_t unbounded) {
  auto bound = range.find(key);
  if (!bound || bound->is(JsonKind::null)) return unbounded;
  return bound->integer();
}

// Finds the smallest size that makes the difference 0, and extends the range upward while the difference stays 0.
bool narrow_one(Symbol& symbol, std::vector<Symbol>& ranges, const Dim& difference) {
  const Symbol whole = symbol;
  const auto holds = [&](int64_t min, int64_t max) {
    symbol.min = min, symbol.max = max;
    return settled(difference, ranges).is_constant(0);
  };
  int64_t min = std::max<int64_t>(whole.min, 1);  // 0 makes any product 0
  int64_t untried = std::min(kTriedSizes, whole.max - min + 1);
  while (untried > 0 && !holds(min, min)) ++min, --untried;
  if (untried <= 0) {
    symbol = whole;
    return false;
  }
  int64_t max = min, step = 1;
  const auto grows = [&] { return step <= whole.max - max && holds(min, max + step); };
  for (; step < INT64_MAX / 2 && grows(); step *= 2) max += step;
  for (; step > 0; step /= 2)
    if (grows()) max += step;
  symbol.min = min, symbol.max = max;
  return true;
}

}  // namespace

std::string part_name(std::string_view symbol, int64_t divisor) { return fmt::format("{}_by_{}", symbol, divisor); }
bool is_part(std::string_view symbol) { return symbol.find("_by_") != symbol.npos; }

bool is_unbacked(std::string_view symbol) { return symbol.starts_with('u'); }

Result<std::vector<Symbol>> read_symbol_ranges(const JsonCursor& root) {
  std::vector<Symbol> out;
  auto ranges = root.find("range_constraints");
  if (!ranges) return out;
  QCG_CHECK(ranges->expect(JsonKind::object));
  if (ranges->size() > kMaxSymbols)
    return ranges->bad("there are too many symbols", "at most " + std::to_string(kMaxSymbols) + " are supported");
  for (JsonCursor range : *ranges) {
    Symbol symbol;
    symbol.name = std::string(range.key());
    QCG_TRY(min, read_bound(range, "min_val", 0));
    QCG_TRY(max, read_bound(range, "max_val", INT64_MAX));
    // Sizes are not negative. An exported program of torch runs with a size of 1 although its range begins at 2. Where a
    // node has other shapes for 1, narrow_to_zero raises the minimum again.
    symbol.min = min == kTracedMin && !is_unbacked(symbol.name) ? 1 : std::max<int64_t>(min, 0);
    symbol.max = max;
    if (symbol.max < symbol.min)
      return range.bad("the range is empty: min_val exceeds max_val", "export the graph again with torch.export");
    out.push_back(std::move(symbol));
  }
  return out;
}

std::optional<Symbol> narrow_to_zero(std::vector<Symbol>& ranges, const Dim& difference) {
  if (!difference.valid() || !settled(difference, ranges).has_calls()) return std::nullopt;
  const auto names = difference.symbols();
  for (Symbol& symbol : ranges)
    if (std::ranges::binary_search(names, symbol.name) && narrow_one(symbol, ranges, difference)) return symbol;
  return std::nullopt;
}

void declare_symbols(Graph& graph, const std::vector<Symbol>& ranges) {
  std::unordered_map<std::string_view, const Symbol*> known;
  for (const Symbol& range : ranges) known.emplace(range.name, &range);
  std::unordered_set<std::string> seen;
  const auto declare = [&](std::string name) {
    if (!seen.insert(name).second) return;
    const auto range = known.find(name);
    graph.symbols.push_back(range != known.end() ? *range->second : Symbol{std::move(name)});
  };
  for (const Value& value : graph.values) {
    for (const Dim& dim : value.shape) {
      if (dim.is_constant()) continue;
      for (std::string& name : dim.symbols()) declare(std::move(name));
    }
    if (!value.symbol.empty()) declare(value.symbol);
  }
}

}  // namespace qcg
