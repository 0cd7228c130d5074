#include "graph/read/torch_source.h"

#include <algorithm>

#include "graph/read/json.h"

namespace qcg {

std::string source_from_stack_trace(std::string_view trace) {
  constexpr size_t kMaxFile = 120;
  std::string first;
  while (true) {
    size_t at = trace.find("File \"");
    if (at == std::string_view::npos) return first;
    trace.remove_prefix(at + 6);
    size_t quote_at = trace.find('"');
    if (quote_at == std::string_view::npos) return first;
    std::string_view path = trace.substr(0, quote_at);
    trace.remove_prefix(quote_at);
    constexpr std::string_view kLine = "\", line ";
    std::string_view digits = trace.starts_with(kLine) ? trace.substr(kLine.size(), 9) : std::string_view();
    digits = digits.substr(0, std::min(digits.find_first_not_of("0123456789"), digits.size()));
    if (digits.empty()) continue;
    std::string_view file = path.substr(path.find_last_of("/\\") + 1).substr(0, kMaxFile);
    std::string shown = quote(file);
    std::string source = shown.substr(1, shown.size() - 2) + ":" + std::string(digits);
    bool library = path.find("site-packages/") != std::string_view::npos || path.starts_with("torch/");
    if (!library) return source;
    if (first.empty()) first = source;
  }
}

}  // namespace qcg
