#include "codegen/gemm/gemm_family.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/kernel/reach_of.h"

namespace qcg {

namespace {

std::string formula_of(const KernelProblem& any) {
  std::vector<std::string> epilogues;
  for (const Output& output : any.get<Problem>().outputs) epilogues.push_back(output.expr.str());
  return fmt::format("{}", fmt::join(epilogues, "; "));
}

Reach reach_of_x(const Problem& problem, int64_t width) {
  const int64_t item = bytes_of(problem.activation);
  if (!problem.windowed) return reach_rows(item, width);
  Reach out{item, {}};
  for (size_t i = 0; i < kWindowAxes; ++i) out.axes.push_back({reach_param(1 + i), reach_param(1 + kWindowAxes + i)});
  out.axes.push_back({reach_constant(width), reach_constant(1)});
  return out;
}

Reach reach_of_operand(const Problem& problem, size_t index) {
  const Operand& operand = problem.operands[index];
  int64_t columns = 1;
  for (const Output& output : problem.outputs) {
    const std::vector<int> read = output.expr.leaves(ExprKind::in);
    if (std::find(read.begin(), read.end(), static_cast<int>(index)) != read.end())
      columns = std::max(columns, output.n);
  }
  const int64_t item = bytes_of(operand.dtype);
  switch (operand.broadcast) {
    case Broadcast::scalar: return reach_row(item, 1);
    case Broadcast::row: return reach_row(item, columns);
    case Broadcast::column: return reach_per_row(item);
    case Broadcast::full: break;
  }
  return reach_rows(item, columns);
}

std::vector<Reach> reaches_of(const KernelProblem& any, size_t args, int64_t packed) {
  const Problem& problem = any.get<Problem>();
  std::vector<Reach> out;
  for (const int64_t width : problem.k_segments) out.push_back(reach_of_x(problem, width));
  const size_t known = problem.operands.size() + 1 + problem.outputs.size();
  while (out.size() + known < args) out.push_back(reach_per_row(4));  // scale and zero point of a row
  for (size_t i = 0; i < problem.operands.size(); ++i) out.push_back(reach_of_operand(problem, i));
  out.push_back(reach_row(1, packed));
  for (const Output& output : problem.outputs) {
    out.push_back(reach_rows(bytes_of(output.dtype), output.n));
    out.back().writes = true;
  }
  return out;
}

}  // namespace

const KernelFamily kGemmFamily{
    .name = "gemm",
    .signature = signature_of<Problem>,
    .formula = formula_of,
    .comment = comment_of<Problem>,
    .reaches = reaches_of,
    .render = nullptr,
    .arguments = nullptr,
    .expect = nullptr,
    .operations = nullptr,
};

}  // namespace qcg
