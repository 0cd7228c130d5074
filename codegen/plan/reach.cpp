#include "codegen/plan/reach.h"

#include <algorithm>

namespace qcg {

namespace {

// Of the weights of its first group.
const PlanConstant& constant_of_group(const Plan& plan, const PlanStep& step) {
  const int buffer = step.args[static_cast<size_t>(step.groups->weights)].buffer;
  return *std::ranges::find(plan.constants, buffer, &PlanConstant::buffer);
}

// Of one group; the runtime adds what the others lie behind it.
std::vector<Reach> reaches_of_groups(const Plan& plan, const PlanStep& step) {
  const KernelProblem& problem = plan.problems[static_cast<size_t>(step.problem)];
  std::vector<Reach> out = problem.family().reaches(problem, step.args.size() - 1, constant_of_group(plan, step).bytes);
  Reach ends{static_cast<int64_t>(dtype_bytes(step.groups->ends)), {}, false, {}};
  ends.axes.push_back({{Reach::Number::constant, step.groups->count}, std::nullopt});
  out.push_back(std::move(ends));
  return out;
}

}  // namespace

int64_t group_bytes(const Plan& plan, const PlanStep& step) {
  return align_section(constant_of_group(plan, step).bytes);
}

std::vector<Reach> reaches_of(const Plan& plan, const PlanStep& step) {
  if (step.groups) return reaches_of_groups(plan, step);
  int64_t packed = 0;  // of the last argument that is a constant: operands come before packed weights
  for (const PlanArg& arg : step.args)
    if (const PlanBuffer& buffer = plan.buffers[static_cast<size_t>(arg.buffer)]; buffer.kind == BufferKind::weights)
      packed = buffer.bytes.constant();
  const KernelProblem& problem = plan.problems[static_cast<size_t>(step.problem)];
  return problem.family().reaches(problem, step.args.size(), packed);
}

}  // namespace qcg
