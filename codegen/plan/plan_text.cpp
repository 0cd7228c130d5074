// The plan as text: --emit=plan.
#include <fmt/format.h>

#include "codegen/plan/plan.h"

namespace qcg {

std::string print_plan(const Plan& plan) {
  static constexpr const char* kBuffers[] = {"input", "output", "weights", "temp", "state"};
  std::string out = fmt::format("plan for {}\n", plan.target.str());
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const PlanBuffer& buffer = plan.buffers[b];
    out += fmt::format("  b{} {}", b, kBuffers[static_cast<int>(buffer.kind)]);
    if (buffer.kind != BufferKind::weights && buffer.kind != BufferKind::temp) out += fmt::format(" {}", buffer.index);
    else out += fmt::format(" {} bytes", buffer.bytes.str());
    if (buffer.kind == BufferKind::temp) out += fmt::format(", steps {}..{}", buffer.first, buffer.last);
    out += "\n";
  }
  for (const PlanMeasure& m : plan.measures)
    out += fmt::format("  before step {}: {} = b{}, at most {}\n", m.step, m.symbol, m.buffer, m.most.str());
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    out += fmt::format("  step {} {}: {}\n    params", s, step.name, problem_signature(plan.problems[step.problem]));
    for (const Dim& dim : step.params) out += " " + dim.str();
    out += "\n    args";
    for (const PlanArg& arg : step.args)
      out += fmt::format(" b{}+{}{}", arg.buffer, arg.offset_bytes.str(), arg.stride ? "/" + arg.stride->str() : "");
    out += "\n";
  }
  return out;
}

}  // namespace qcg
