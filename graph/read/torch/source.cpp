#include "graph/read/torch/source.h"

#include <algorithm>

#include "graph/read/files/json.h"

namespace qcg {

namespace {

// functional_export.py is the frame that torch.export puts around a model in strict mode, wherever torch lies.
bool is_library(std::string_view path) {
  for (std::string_view part : {"site-packages/", "dist-packages/", "functional_export.py"})
    if (path.find(part) != std::string_view::npos) return true;
  return path.starts_with("torch/");
}

}  // namespace

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
    if (!is_library(path)) return source;
    if (first.empty()) first = source;
  }
}

std::string module_from_stack(std::string_view stack) {
  constexpr size_t kMaxPath = 200;
  // "key,path,class" per module, outermost first; a class may hold what it likes.
  std::string_view innermost = stack.substr(stack.rfind(';') + 1);
  const size_t path_at = innermost.find(',');
  if (path_at == std::string_view::npos) return "";
  std::string_view path = innermost.substr(path_at + 1);
  path = path.substr(0, path.find_first_of(",@"));  // "norm@1": the second call of norm
  if (path.starts_with("_empty_nn_module_stack")) return "";
  const std::string shown = quote(path.substr(0, kMaxPath));
  return shown.substr(1, shown.size() - 2);
}

}  // namespace qcg
