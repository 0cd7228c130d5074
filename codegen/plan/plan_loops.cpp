#include <fmt/format.h>

#include "codegen/plan/planner.h"
#include "codegen/quantize_rows/quantize_rows.h"
#include "codegen/reduce/reduce.h"
#include "graph/ops/op_table.h"

namespace qcg {

Status Planner::lower_loop(const Node& node) {
  const auto& operands = *node.arg("operands").get<std::vector<ValueId>>();
  LoopProblem problem;
  problem.exprs = *node.arg("exprs").get<std::vector<Expr>>();
  problem.integers = *node.arg("integers").get<bool>();
  problem.comment = comment_of(node);
  const Shape& shape = graph_.value(node.outputs[0]).shape;
  std::vector<View> views;
  for (ValueId id : operands) {
    problem.operands.push_back(graph_.value(id).dtype);
    views.push_back(broadcast_view(view(id), shape));
  }
  for (ValueId id : node.outputs) {
    problem.outputs.push_back(graph_.value(id).dtype);
    views_[id] = placed_[id] ? *placed_[id] : dense_view(add_temp(shape, graph_.value(id).dtype), shape);
    views.push_back(views_[id]);
  }
  std::string name = name_of(node, problem.label());
  add_loop(std::move(problem), views, std::move(name), node.origins);
  return {};
}

void Planner::add_loop(LoopProblem problem, std::vector<View> views, std::string name, std::vector<std::string> nodes) {
  const Dim rows = leading(views[0].shape);
  views = collapse(std::move(views));
  if (views[0].shape.empty())
    for (View& v : views) v.shape = {1}, v.strides = {1};
  problem.rank = static_cast<int>(views[0].shape.size());
  PlanStep step{std::move(name), 0, {}, views[0].shape, std::move(nodes), rows};
  for (size_t i = 0; i < views.size(); ++i) {
    const bool output = i >= problem.operands.size();
    const DType dtype = output ? problem.outputs[i - problem.operands.size()] : problem.operands[i];
    step.args.push_back({views[i].buffer, offset_bytes(views[i], dtype), Dim(0)});
    step.params.insert(step.params.end(), views[i].strides.begin(), views[i].strides.end());
    const Dim& inner = views[i].strides.back();
    if (!output) problem.operand_inner_stride.push_back(inner.is_constant(1) ? 1 : inner.is_constant(0) ? 0 : -1);
  }
  step.problem = intern({kLoopFamily, std::move(problem)});
  plan_.steps.push_back(std::move(step));
}

void Planner::add_copy(const View& from, const View& to, DType dtype, const std::string& what) {
  LoopProblem problem;
  problem.operands = problem.outputs = {dtype};
  problem.exprs = {Expr::in(0)};
  if (current_) problem.comment = "a copy made for\n\n" + comment_of(*current_);
  add_loop(std::move(problem), {from, to}, "copy " + what, current_ ? current_->origins : std::vector<std::string>());
}

Status Planner::lower_quantize_rows(const Node& node) {
  QuantizeRowsProblem problem;
  const ValueId x = node.tensor("x");
  problem.input = graph_.value(x).dtype;
  problem.k = graph_.value(x).shape.back().constant();
  problem.mapping = row_mapping_from_name(*node.arg("mapping").get<std::string>()).value_or(RowMapping::symmetric);
  problem.quant_min = constant_int(node, "quant_min", -128);
  problem.quant_max = constant_int(node, "quant_max", 127);
  const double* eps = node.arg("eps").get<double>();
  problem.eps = eps ? *eps : 0;  // 0: torchao's default
  problem.output = graph_.value(node.outputs[0]).dtype;
  problem.scale = *node.arg("scale_dtype").get<DType>();
  problem.comment = comment_of(node);
  const bool zero_used = uses()[node.outputs[2]] > 0;
  problem.writes_zero = zero_used;
  PlanStep step{"quantize " + graph_.value(x).name,
                intern({kQuantizeRowsFamily, problem}),
                {row_arg(x)},
                {leading(graph_.value(x).shape)},
                node.origins,
                leading(graph_.value(x).shape)};
  std::vector<ValueId> outputs = node.outputs;
  if (!zero_used) outputs.pop_back();
  add_row_step(std::move(step), outputs);
  return {};
}

namespace {

std::string_view reduction_of(Op op) {
  return op == "aten.mean.dim"       ? "mean"
         : op == "aten.amax.default" ? "amax"
         : op == "aten.amin.default" ? "amin"
                                     : "sum";
}

}  // namespace

Status Planner::lower_reduction(const Node& node) {
  const ValueId x = node.tensor("self");
  const Shape& shape = graph_.value(x).shape;
  std::vector<bool> reduced(shape.size(), false);
  const auto* dims = node.arg("dim").get<std::vector<Dim>>();
  for (size_t i = 0; i < shape.size(); ++i) reduced[i] = !dims || dims->empty();
  if (dims)
    for (const Dim& d : *dims) reduced[normalize_axis(d.constant(), shape.size())] = true;
  View in = view(x);
  View ordered{in.buffer, in.offset, {}, {}};
  Dim outer = 1, extent = 1;
  for (bool pass : {false, true})
    for (size_t i = 0; i < shape.size(); ++i) {
      if (reduced[i] != pass) continue;
      ordered.shape.push_back(in.shape[i]);
      ordered.strides.push_back(in.strides[i]);
      (pass ? extent : outer) = (pass ? extent : outer) * in.shape[i];
    }
  const DType dtype = graph_.value(x).dtype;
  if (!is_dense(ordered)) ordered = dense_view(copy_to_temp(ordered, dtype), ordered.shape);
  ReduceProblem problem;
  problem.op = reduction_of(node.op);
  problem.input = dtype;
  problem.output = graph_.value(node.outputs[0]).dtype;
  problem.comment = comment_of(node);
  const View out = output_view(node.outputs[0], is_dense);
  PlanStep step{name_of(node, std::string(problem.op)),
                intern({kReduceFamily, problem}),
                {},
                {outer, extent, Dim(1)},
                node.origins,
                leading(graph_.value(node.outputs[0]).shape)};
  step.args = {{ordered.buffer, offset_bytes(ordered, dtype), Dim(0)},
               {out.buffer, offset_bytes(out, problem.output), Dim(0)}};
  plan_.steps.push_back(std::move(step));
  finish_output(node.outputs[0], out);
  return {};
}

}  // namespace qcg
