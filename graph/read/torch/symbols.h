// The symbols of an exported graph: which sizes are dynamic, and within which ranges.
//
// Why here: the file gives ranges of everything torch ever called a symbol; a Graph declares those that its shapes use.
//
//   QCG_TRY(ranges, read_symbol_ranges(root));     // range_constraints
//   declare_symbols(graph, ranges);                // once all values are there
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/read/files/json.h"

namespace qcg {

// torch traces free sizes of inputs as if they were 2 and more.
constexpr int64_t kTracedMin = 2;

// Whether a size depends on data: torch names the symbols of inputs s0, and these u0.
bool is_unbacked(std::string_view symbol);

// The symbol of which another one is a multiple.
std::string part_name(std::string_view symbol, int64_t divisor);
bool is_part(std::string_view symbol);

Result<std::vector<Symbol>> read_symbol_ranges(const JsonCursor& root);

// torch may specialize a size to one number. range_constraints lack the guard that says for which sizes. Narrows the
// range of one symbol to sizes for which `difference` is 0 whatever the other symbols are, and returns that symbol;
// nullopt: no such range was found.
std::optional<Symbol> narrow_to_zero(std::vector<Symbol>& ranges, const Dim& difference);

// In the order in which shapes use them; a symbol without a range may be any size.
void declare_symbols(Graph& graph, const std::vector<Symbol>& ranges);

}  // namespace qcg
