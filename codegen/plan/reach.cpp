#include "codegen/plan/reach.h"

#include <algorithm>

#include "base/dtype.h"

namespace qcg {

namespace {

using Number = Reach::Number;

constexpr Number kStride{Number::stride, 0};
constexpr Number kOne{Number::constant, 1};
Number constant(int64_t value) { return {Number::constant, value}; }
Number param(size_t index) { return {Number::param, static_cast<int64_t>(index)}; }

Reach rows(int64_t item, int64_t columns) { return {item, {{param(0), kStride}, {constant(columns), kOne}}}; }
Reach number_per_row(int64_t item) { return {item, {{param(0), kStride}}}; }
Reach row(int64_t item, int64_t columns) { return {item, {{constant(columns), kOne}}}; }
int64_t bytes_of(DType dtype) { return static_cast<int64_t>(dtype_bytes(dtype)); }

Reach of_operand(const Problem& problem, size_t index) {
  const Operand& operand = problem.operands[index];
  int64_t columns = 1;
  for (const Output& output : problem.outputs) {
    const std::vector<int> read = output.expr.leaves(ExprKind::in);
    if (std::find(read.begin(), read.end(), static_cast<int>(index)) != read.end())
      columns = std::max(columns, output.n);
  }
  const int64_t item = bytes_of(operand.dtype);
  switch (operand.broadcast) {
    case Broadcast::scalar: return row(item, 1);
    case Broadcast::row: return row(item, columns);
    case Broadcast::column: return number_per_row(item);
    case Broadcast::full: break;
  }
  return rows(item, columns);
}

std::vector<Reach> of_gemm(const Plan& plan, const PlanStep& step, const Problem& problem) {
  std::vector<Reach> out;
  for (const int64_t width : problem.k_segments) out.push_back(rows(bytes_of(problem.activation), width));
  const size_t known = problem.operands.size() + 1 + problem.outputs.size();
  while (out.size() + known < step.args.size()) out.push_back(number_per_row(4));  // scale and zero point of a row
  for (size_t i = 0; i < problem.operands.size(); ++i) out.push_back(of_operand(problem, i));
  const int packed = step.args[out.size()].buffer;
  out.push_back(row(1, plan.buffers[static_cast<size_t>(packed)].bytes.constant()));
  for (const Output& output : problem.outputs) out.push_back(rows(bytes_of(output.dtype), output.n));
  return out;
}

// params: extents, then the strides of each argument.
std::vector<Reach> of_loop(const LoopProblem& problem) {
  std::vector<Reach> out;
  const auto rank = static_cast<size_t>(problem.rank);
  for (size_t i = 0; i < problem.operands.size() + problem.outputs.size(); ++i) {
    const bool operand = i < problem.operands.size();
    Reach& reach = out.emplace_back();
    reach.item = bytes_of(operand ? problem.operands[i] : problem.outputs[i - problem.operands.size()]);
    for (size_t axis = 0; axis < rank; ++axis) reach.axes.push_back({param(axis), param(rank * (i + 1) + axis)});
  }
  return out;
}

std::vector<Reach> reaches(const Plan& plan, const PlanStep& step) {
  const KernelProblem& any = plan.problems[static_cast<size_t>(step.problem)];
  if (const auto* gemm = std::get_if<Problem>(&any)) return of_gemm(plan, step, *gemm);
  if (const auto* loop = std::get_if<LoopProblem>(&any)) return of_loop(*loop);
  if (const auto* q = std::get_if<QuantizeRowsProblem>(&any)) {
    std::vector<Reach> out = {rows(bytes_of(q->input), q->k), rows(bytes_of(q->output), q->k)};
    while (out.size() < step.args.size()) out.push_back(number_per_row(4));
    return out;
  }
  if (const auto* reduce = std::get_if<ReduceProblem>(&any))
    return {{bytes_of(reduce->input), {{param(0), {}}, {param(1), {}}, {param(2), {}}}},
            {bytes_of(reduce->output), {{param(0), {}}, {param(2), {}}}}};
  const auto& matmul = std::get<MatmulProblem>(any);  // params: batch, m, n, k, and three strides of x, w and y
  auto product = [](DType dtype, size_t row, size_t column, size_t strides) {
    return Reach{bytes_of(dtype),
                 {{param(0), param(strides)}, {param(row), param(strides + 1)}, {param(column), param(strides + 2)}}};
  };
  return {product(matmul.input, 1, 3, 4), product(matmul.weight, 2, 3, 7), product(matmul.output, 1, 2, 10)};
}

// Arguments that are written come last.
size_t outputs_of(const KernelProblem& any, size_t args) {
  if (const auto* gemm = std::get_if<Problem>(&any)) return gemm->outputs.size();
  if (const auto* loop = std::get_if<LoopProblem>(&any)) return loop->outputs.size();
  return std::holds_alternative<QuantizeRowsProblem>(any) ? args - 1 : 1;
}

}  // namespace

std::vector<Reach> reaches_of(const Plan& plan, const PlanStep& step) {
  std::vector<Reach> out = reaches(plan, step);
  const size_t outputs = outputs_of(plan.problems[static_cast<size_t>(step.problem)], out.size());
  for (size_t i = out.size() - outputs; i < out.size(); ++i) out[i].writes = true;
  return out;
}

}  // namespace qcg
