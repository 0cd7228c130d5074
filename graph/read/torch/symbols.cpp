#include "graph/read/torch/symbols.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/read/files/limits.h"

namespace qcg {
namespace {

Result<int64_t> read_bound(const JsonCursor& range, std::string_view key, int64_t unbounded) {
  auto bound = range.find(key);
  if (!bound || bound->is(JsonKind::null)) return unbounded;
  return bound->integer();
}

}  // namespace

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
    symbol.min = std::max<int64_t>(min, 0);  // a size
    symbol.max = max;
    if (symbol.max < symbol.min)
      return range.bad("the range is empty: min_val exceeds max_val", "export the graph again with torch.export");
    out.push_back(std::move(symbol));
  }
  return out;
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
