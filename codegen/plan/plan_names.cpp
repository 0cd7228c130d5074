// Names of steps as people know them, and what the head of a kernel's source says about where it comes from.
#include <fmt/format.h>

#include <map>

#include "codegen/plan/planner.h"

namespace qcg {

namespace {

constexpr size_t kMostSteps = 64, kLongestNode = 4000;

}  // namespace

// A concatenation is one step for each part, so the text of the node before is kept.
const std::string& Planner::comment_of(const Node& node) {
  const ValueId key = node.outputs.empty() ? kNoValue : node.outputs[0];
  if (key == kNoValue || key != commented_) comment_ = write_comment(node), commented_ = key;
  return comment_;
}

std::string Planner::write_comment(const Node& node) const {
  std::string out;
  if (const std::string module = source_.module_of(node.origins); !module.empty()) out += "module " + module + "\n\n";
  std::vector<std::string> lines = source_.lines(node.origins);
  if (lines.empty()) lines = node.origins;
  if (!lines.empty()) out += fmt::format("source nodes, in program order:\n  {}\n\n", fmt::join(lines, "\n  "));
  std::string text = print_node(graph_, node);
  if (text.size() > kLongestNode) text = text.substr(0, kLongestNode) + " ...\n";
  return out + "lowered to:\n" + text;
}

// A node that is one step gives the step its name. Part of a composed operation says of which one: "softmax: sub·exp".
std::string Planner::name_of(const Node& node, const std::string& label) const {
  if (node.origins.size() != 1) return label;
  const std::string& origin = node.origins[0];
  const std::string op = source_.op_of(origin);
  if (op == label) return origin;
  return op.empty() || label.find(op) != std::string::npos ? label : origin + ": " + label;
}

// Equal problems share a kernel, whose comment is that of the first step.
void Planner::list_other_steps() {
  std::map<int, std::vector<std::string>> others;
  std::vector<bool> seen(plan_.problems.size());
  for (const PlanStep& step : plan_.steps) {
    const auto p = static_cast<size_t>(step.problem);
    if (seen[p]) others[step.problem].push_back(step.nodes.empty() ? step.name : step.nodes.back());
    seen[p] = true;
  }
  for (auto& [problem, names] : others) {
    const size_t count = names.size();
    if (count > kMostSteps) names.resize(kMostSteps);
    const std::string text =
        fmt::format("\n{} other step{} of the program run{} this kernel: {}{}\n", count, count == 1 ? "" : "s",
                    count == 1 ? "s" : "", fmt::join(names, ", "), count > kMostSteps ? ", ..." : "");
    KernelProblem& any = plan_.problems[static_cast<size_t>(problem)];
    any.family().comment(any) += text;
  }
}

}  // namespace qcg
