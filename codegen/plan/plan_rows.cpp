// Row programs: norms, softmax, quantization of rows.
#include "codegen/plan/planner.h"
#include "codegen/rows/rows.h"

namespace qcg {

namespace {

View without_last_axis(View view) {
  view.shape.pop_back();
  view.strides.pop_back();
  return view;
}

bool holds_rows(const View& view) {
  return !view.shape.empty() && (view.shape.back().is_constant(1) || view.strides.back().is_constant(1));
}

}  // namespace

Status Planner::lower_rows(const Node& node) {
  const auto program = read_row_program(graph_, node);
  if (!program) return Error::internal(node.where, "a qcg.rows that is no program");
  RowsProblem problem;
  problem.program = *program;
  problem.comment = comment_of(node);
  const Shape& shape = *node.arg("shape").get<std::vector<Dim>>();
  std::vector<View> views, written;
  for (ValueId id : *node.arg("operands").get<std::vector<ValueId>>()) {
    problem.operands.push_back(graph_.value(id).dtype);
    views.push_back(broadcast_view(view(id), shape));
    problem.operand_inner_stride.push_back(inner_stride(views.back()));
  }
  for (ValueId id : node.outputs) {
    problem.outputs.push_back(graph_.value(id).dtype);
    written.push_back(output_view(id, holds_rows));
    views.push_back(broadcast_view(written.back(), shape));
  }
  std::vector<View> lead;
  for (const View& v : views) lead.push_back(without_last_axis(v));
  lead = collapse_to_axes(std::move(lead));
  problem.rank = static_cast<int>(lead[0].shape.size()) + 1;
  PlanStep step{name_of(node, problem.label()), 0, {}, lead[0].shape, node.origins, leading(shape)};
  step.params.push_back(shape.back());
  for (size_t i = 0; i < views.size(); ++i) {
    step.params.insert(step.params.end(), lead[i].strides.begin(), lead[i].strides.end());
    step.params.push_back(views[i].strides.back());
    const bool operand = i < problem.operands.size();
    const DType dtype = operand ? problem.operands[i] : problem.outputs[i - problem.operands.size()];
    step.args.push_back({views[i].buffer, offset_bytes(views[i], dtype), Dim(0)});
  }
  step.problem = intern({kRowsFamily, std::move(problem)});
  plan_.steps.push_back(std::move(step));
  for (size_t i = 0; i < node.outputs.size(); ++i) finish_output(node.outputs[i], written[i]);
  return {};
}

}  // namespace qcg
