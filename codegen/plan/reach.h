// reaches_of: what a step's kernels touch through each argument (runtime/reach.h), as the manifest says it.
//
// Why here: kernels know it by their family; the runtime knows no families.
#pragma once

#include <vector>

#include "codegen/plan/plan.h"
#include "runtime/reach.h"

namespace qcg {

std::vector<Reach> reaches_of(const Plan& plan, const PlanStep& step);  // one per argument
// How far apart the weights of two groups lie. Precondition: step.groups.
int64_t group_bytes(const Plan& plan, const PlanStep& step);

}  // namespace qcg
