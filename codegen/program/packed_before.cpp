#include "codegen/program/packed_before.h"

#include <algorithm>

namespace qcg {

namespace {

bool is_packed_alike(const Plan& a, const PlanConstant& x, const Plan& b, const PlanConstant& y) {
  const size_t p = static_cast<size_t>(x.problem), q = static_cast<size_t>(y.problem);
  return x.bytes == y.bytes && a.layouts[p] == b.layouts[q] &&
         std::equal(x.segments.begin(), x.segments.end(), y.segments.begin(), y.segments.end(), is_same_segment) &&
         problem_signature(a.problems[p]) == problem_signature(b.problems[q]);
}

}  // namespace

PackedBefore::PackedBefore(const Plan& plan, const ProgramWriter& writer) : plan_(plan), writer_(writer) {
  for (size_t i = 0; i < plan.constants.size(); ++i)
    if (const PlanConstant& c = plan.constants[i]; c.problem >= 0 && !c.segments.empty())
      constants_.emplace(c.segments[0].weight.storage.get(), i);
}

std::span<const std::byte> PackedBefore::find(const Plan& plan, const PlanConstant& constant) const {
  if (constant.segments.empty()) return {};
  const auto [first, last] = constants_.equal_range(constant.segments[0].weight.storage.get());
  for (auto it = first; it != last; ++it)
    if (is_packed_alike(plan, constant, plan_, plan_.constants[it->second])) return writer_.packed(plan_, it->second);
  return {};
}

}  // namespace qcg
