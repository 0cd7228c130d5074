#include "graph/ir/row_program.h"

#include <algorithm>
#include <array>

namespace qcg {

namespace {

constexpr std::array<std::string_view, 5> kRowReductions = {"-", "sum", "mean", "amax", "amin"};  // by RowReduction

// The words of a text, which single spaces separate.
std::vector<std::string_view> reduction_words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::string_view row_reduction_name(RowReduction reduction) { return kRowReductions[static_cast<size_t>(reduction)]; }

std::optional<RowReduction> row_reduction_from_name(std::string_view name) {
  const auto* at = std::find(kRowReductions.begin(), kRowReductions.end(), name);
  return at == kRowReductions.end() ? std::nullopt
                                    : std::optional(static_cast<RowReduction>(at - kRowReductions.begin()));
}

std::string RowProgram::reductions() const {
  std::string out;
  for (const RowStep& step : steps) out += (out.empty() ? "" : " ") + std::string(row_reduction_name(step.reduction));
  return out;
}

bool is_per_row(const Shape& operand) { return operand.empty() || operand.back().is_constant(1); }

void find_per_row(RowProgram& program, const std::vector<bool>& operands) {
  for (RowStep& step : program.steps) {
    const auto accs = step.expr.leaves(ExprKind::acc), ins = step.expr.leaves(ExprKind::in);
    step.per_row = step.reduction != RowReduction::none ||
                   (std::ranges::all_of(accs, [&](int i) { return program.steps[static_cast<size_t>(i)].per_row; }) &&
                    std::ranges::all_of(ins, [&](int i) { return operands[static_cast<size_t>(i)]; }));
  }
}

std::optional<RowProgram> read_row_program(const Graph& graph, const Node& node) {
  RowProgram out;
  const auto& steps = *node.arg("steps").get<std::vector<Expr>>();
  const auto& operands = *node.arg("operands").get<std::vector<ValueId>>();
  const std::string words = *node.arg("reduce").get<std::string>();
  const std::vector<std::string_view> reductions = reduction_words(words);
  if (steps.empty() || reductions.size() != steps.size()) return std::nullopt;
  for (size_t j = 0; j < steps.size(); ++j) {
    const auto reduction = row_reduction_from_name(reductions[j]);
    const auto accs = steps[j].leaves(ExprKind::acc), ins = steps[j].leaves(ExprKind::in);
    const bool fits = std::ranges::all_of(accs, [&](int i) { return static_cast<size_t>(i) < j; }) &&
                      std::ranges::all_of(ins, [&](int i) { return static_cast<size_t>(i) < operands.size(); }) &&
                      steps[j].leaves(ExprKind::pos).empty() && steps[j].leaves(ExprKind::size).empty();
    if (!reduction || !fits) return std::nullopt;
    out.steps.push_back({steps[j], *reduction});
  }
  for (const Dim& store : *node.arg("stores").get<std::vector<Dim>>()) {
    if (!store.is_constant() || store.constant() < 0 || store.constant() >= std::ssize(steps)) return std::nullopt;
    out.stores.push_back(static_cast<size_t>(store.constant()));
  }
  std::vector<bool> per_row;
  for (ValueId id : operands) per_row.push_back(is_per_row(graph.value(id).shape));
  find_per_row(out, per_row);
  return out;
}

}  // namespace qcg
