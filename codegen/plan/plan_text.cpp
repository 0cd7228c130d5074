// The plan as text: --emit=plan, and the identity of a problem.
#include <fmt/format.h>

#include "codegen/plan/plan.h"

namespace qcg {

std::string_view kind_of(const KernelProblem& problem) {
  static constexpr std::string_view kKinds[] = {"gemm", "loop", "quantize_rows", "reduce", "matmul"};
  static_assert(std::size(kKinds) == std::variant_size_v<KernelProblem>);
  return kKinds[problem.index()];
}

std::string problem_signature(const KernelProblem& problem) {
  return std::visit([&](const auto& p) { return fmt::format("{}|{}", kind_of(problem), p.signature()); }, problem);
}

std::string formula_of(const KernelProblem& problem) {
  struct Visitor {
    std::string operator()(const Problem& p) const {
      std::vector<std::string> epilogues;
      for (const Output& o : p.outputs) epilogues.push_back(o.expr.str());
      return fmt::format("{}", fmt::join(epilogues, "; "));
    }
    std::string operator()(const LoopProblem& p) const { return p.formula(); }
    std::string operator()(const QuantizeRowsProblem& p) const {
      return fmt::format("{} rows of {} to {} [{}, {}]", dtype_name(p.input), p.k, dtype_name(p.output), p.quant_min,
                         p.quant_max);
    }
    std::string operator()(const ReduceProblem& p) const { return fmt::format("{}(in0)", p.op); }
    std::string operator()(const MatmulProblem&) const { return "matmul(in0, in1)"; }
  };
  return std::visit(Visitor{}, problem);
}

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
