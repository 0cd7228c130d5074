#include "codegen/plan/reach.h"

namespace qcg {

std::vector<Reach> reaches_of(const Plan& plan, const PlanStep& step) {
  int64_t packed = 0;  // of the last argument that is a constant: operands come before packed weights
  for (const PlanArg& arg : step.args)
    if (const PlanBuffer& buffer = plan.buffers[static_cast<size_t>(arg.buffer)]; buffer.kind == BufferKind::weights)
      packed = buffer.bytes.constant();
  const KernelProblem& problem = plan.problems[static_cast<size_t>(step.problem)];
  return problem.family().reaches(problem, step.args.size(), packed);
}

}  // namespace qcg
