#include <array>

#include "codegen/plan/planner.h"
#include "codegen/windows/windows.h"
#include "graph/ops/op_table.h"

namespace qcg {

namespace {

// Lanes run along the channels.
bool has_dense_channels(const View& v) {
  return !walks_back(v) && (v.shape.back().is_constant(1) || v.strides.back().is_constant(1));
}

// 1, or 0 where one element serves all channels; -1: any other.
int channel_stride(const View& v) { return v.shape.back().is_constant(1) ? 0 : inner_stride(v); }

// Of [batch, height, width, channels] the first three; a batch or a height that is not there is `absent`.
std::array<Dim, 3> split_axes(const std::vector<Dim>& all, size_t spatial, int64_t absent) {
  std::array<Dim, 3> out{Dim(absent), Dim(absent), Dim(absent)};
  if (all.size() == spatial + 2) out[0] = all[0];
  for (size_t i = 0; i < spatial; ++i) out[3 - spatial + i] = all[all.size() - 1 - spatial + i];
  return out;
}

WindowProblem::Pair pair_of(const Node& node, std::string_view arg, int64_t otherwise) {
  const auto& given = *node.arg(arg).get<std::vector<Dim>>();
  WindowProblem::Pair out{otherwise, otherwise};
  for (size_t i = 0; i < given.size(); ++i) out[2 - given.size() + i] = given[i].constant();
  return out;
}

}  // namespace

Status Planner::lower_windows(const Node& node) {
  const ValueId x = node.tensor("x"), weight = node.tensor("weight"), y = node.outputs[0];
  const std::string& op = *node.arg("op").get<std::string>();
  WindowProblem problem;
  problem.op = op == "product" ? "product" : op == "max" ? "max" : "sum";
  problem.input = problem.weight = graph_.value(x).dtype;
  if (weight != kNoValue) problem.weight = graph_.value(weight).dtype;
  problem.output = graph_.value(y).dtype;
  problem.kernel = pair_of(node, "kernel", 1), problem.stride = pair_of(node, "stride", 1);
  problem.dilation = pair_of(node, "dilation", 1), problem.before = pair_of(node, "before", 0);
  if (weight != kNoValue) {
    const Shape& shape = graph_.value(weight).shape;
    problem.inputs = shape[shape.size() - 2].constant();
    problem.outputs = shape.back().constant() / (graph_.value(x).shape.back().constant() / problem.inputs);
  }
  problem.comment = comment_of(node);
  if (const auto& epilogue = *node.arg("epilogue").get<std::vector<Expr>>(); !epilogue.empty())
    problem.epilogue = epilogue[0];
  View in = view(x);
  if (problem.reads_elements() ? walks_back(in) : !has_dense_channels(in))
    in = dense_view(copy_to_temp(in, problem.input), in.shape);
  const View out = output_view(y, has_dense_channels);
  const size_t spatial = node.arg("kernel").get<std::vector<Dim>>()->size();
  const auto size = split_axes(in.shape, spatial, 1), places = split_axes(out.shape, spatial, 1);
  const auto from = split_axes(in.strides, spatial, 0), to = split_axes(out.strides, spatial, 0);
  std::vector<View> operands;
  for (const ValueId id : *node.arg("operands").get<std::vector<ValueId>>()) {
    const DType dtype = graph_.value(id).dtype;
    View v = broadcast_view(view(id), out.shape);
    // Some places are computed twice: the result must not overwrite an operand.
    if (v.buffer == out.buffer || walks_back(v) || channel_stride(v) < 0)
      v = dense_view(copy_to_temp(v, dtype), v.shape);
    problem.operands.push_back(dtype);
    problem.operand_inner_stride.push_back(channel_stride(v));
    operands.push_back(std::move(v));
  }
  const std::string label = op == "product" ? "convolution" : op + " pool";
  PlanStep step{node.origins.size() > 1 ? node.origins[0] + ": " + label : name_of(node, label),
                intern({kWindowFamily, problem}),
                {},
                {size[0], size[1], size[2], out.shape.back(), places[1], places[2]},
                node.origins,
                leading(graph_.value(y).shape)};
  step.params.insert(step.params.end(), from.begin(), from.end());
  step.params.push_back(in.shape.back().is_constant(1) ? Dim(1) : in.strides.back());
  step.params.insert(step.params.end(), to.begin(), to.end());
  step.params.push_back(in.shape.back());
  for (const View& v : operands) {
    const auto strides = split_axes(v.strides, spatial, 0);
    step.params.insert(step.params.end(), strides.begin(), strides.end());
  }
  step.args.push_back({in.buffer, offset_bytes(in, problem.input), Dim(0)});
  if (weight != kNoValue) {
    const View w = dense(weight);
    step.args.push_back({w.buffer, offset_bytes(w, problem.weight), Dim(0)});
  }
  for (size_t i = 0; i < operands.size(); ++i)
    step.args.push_back({operands[i].buffer, offset_bytes(operands[i], problem.operands[i]), Dim(0)});
  step.args.push_back({out.buffer, offset_bytes(out, problem.output), Dim(0)});
  plan_.steps.push_back(std::move(step));
  finish_output(y, out);
  return {};
}

}  // namespace qcg
