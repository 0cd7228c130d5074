#include <fmt/format.h>

#include <algorithm>

#include "codegen/plan/planner.h"
#include "codegen/quantize_rows/quantize_rows.h"
#include "codegen/reduce/reduce.h"
#include "graph/ops/op_table.h"

namespace qcg {

namespace {

// posN is numbered anew: by the axes that expressions read, of which each is a view of no memory, of stride 1 along the
// axis and 0 along the others.
std::vector<View> number_positions(std::vector<Expr>& exprs, const Shape& shape) {
  std::vector<int> axes;
  for (Expr& e : exprs)
    e = e.map_leaves([&](Expr leaf) {
      if (leaf.kind != ExprKind::pos) return leaf;
      auto it = std::ranges::find(axes, leaf.index);
      if (it == axes.end()) it = axes.insert(axes.end(), leaf.index);
      return Expr::pos(static_cast<int>(it - axes.begin()));
    });
  std::vector<View> views;
  for (const int axis : axes) {
    View& view = views.emplace_back(View{-1, 0, shape, std::vector<Dim>(shape.size(), Dim(0))});
    view.strides[static_cast<size_t>(axis)] = 1;
  }
  return views;
}

}  // namespace

Status Planner::lower_loop(const Node& node) {
  const auto& operands = *node.arg("operands").get<std::vector<ValueId>>();
  LoopProblem problem;
  problem.exprs = *node.arg("exprs").get<std::vector<Expr>>();
  problem.arithmetic = *node.arg("arithmetic").get<DType>();
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
  for (View& position : number_positions(problem.exprs, shape)) views.push_back(std::move(position));
  add_loop(std::move(problem), views, *node.arg("sizes").get<std::vector<Dim>>(), std::move(name), node.origins);
  return {};
}

// `views`: of the operands, the outputs and the positions.
void Planner::add_loop(LoopProblem problem, std::vector<View> views, const std::vector<Dim>& sizes, std::string name,
                       std::vector<std::string> nodes) {
  const Dim rows = leading(views[0].shape);
  views = collapse(std::move(views));
  if (views[0].shape.empty())
    for (View& v : views) v.shape = {1}, v.strides = {1};
  problem.rank = static_cast<int>(views[0].shape.size());
  PlanStep step{std::move(name), 0, {}, views[0].shape, std::move(nodes), rows};
  const size_t operands = problem.operands.size(), args = operands + problem.outputs.size();
  for (size_t i = 0; i < views.size(); ++i) {
    step.params.insert(step.params.end(), views[i].strides.begin(), views[i].strides.end());
    if (i < operands) problem.operand_inner_stride.push_back(inner_stride(views[i]));
    if (i >= args) {
      problem.position_inner_stride.push_back(inner_stride(views[i]));
      continue;
    }
    const DType dtype = i < operands ? problem.operands[i] : problem.outputs[i - operands];
    step.args.push_back({views[i].buffer, offset_bytes(views[i], dtype), Dim(0)});
  }
  step.params.insert(step.params.end(), sizes.begin(), sizes.end());
  problem.sizes = static_cast<int>(sizes.size());
  step.problem = intern({kLoopFamily, std::move(problem)});
  plan_.steps.push_back(std::move(step));
}

void Planner::add_copy(const View& from, const View& to, DType dtype, const std::string& what) {
  LoopProblem problem;
  problem.operands = problem.outputs = {dtype};
  problem.exprs = {Expr::in(0)};
  if (current_) problem.comment = "a copy made for\n\n" + comment_of(*current_);
  add_loop(std::move(problem), {from, to}, {}, "copy " + what,
           current_ ? current_->origins : std::vector<std::string>());
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
  return op == "aten.mean.dim"                                    ? "mean"
         : op == "aten.amax.default"                              ? "amax"
         : op == "aten.amin.default"                              ? "amin"
         : op == "aten.prod.default" || op == "aten.prod.dim_int" ? "prod"
                                                                  : "sum";
}

using Axes = std::vector<size_t>;

// The first `outer` of the kept axes, the reduced, the other kept ones.
View ordered_by(const View& in, const Axes& kept, const Axes& reduced, std::ptrdiff_t outer) {
  Axes order(kept.begin(), kept.begin() + outer);
  order.insert(order.end(), reduced.begin(), reduced.end());
  order.insert(order.end(), kept.begin() + outer, kept.end());
  View out{in.buffer, in.offset, {}, {}};
  for (size_t axis : order) out.shape.push_back(in.shape[axis]), out.strides.push_back(in.strides[axis]);
  return out;
}

// How many kept axes lie around the reduced ones; of those that need a copy, the last lies inside if it is dense.
std::ptrdiff_t count_outer(const View& in, const Axes& kept, const Axes& reduced) {
  const auto all = static_cast<std::ptrdiff_t>(kept.size());
  for (std::ptrdiff_t outer = all; outer >= 0; --outer)
    if (is_dense(ordered_by(in, kept, reduced, outer))) return outer;
  const bool runs_inside = all > 0 && !in.shape[kept.back()].is_constant(1) && in.strides[kept.back()].is_constant(1);
  return runs_inside ? all - 1 : all;
}

Dim extent_of(const View& in, const Axes& axes) {
  Dim extent(1);
  for (size_t axis : axes) extent = extent * in.shape[axis];
  return extent;
}

}  // namespace

Status Planner::lower_reduction(const Node& node) {
  const ValueId x = node.tensor("self");
  const DType dtype = graph_.value(x).dtype;
  std::vector<size_t> kept, reduced;
  const std::vector<Dim> dims = named_axes(graph_, node);
  const size_t rank = graph_.value(x).shape.size();
  for (size_t i = 0; i < rank; ++i) {
    const auto is_this = [&](const Dim& d) { return normalize_axis(d.constant(), rank) == i; };
    (dims.empty() || std::ranges::any_of(dims, is_this) ? reduced : kept).push_back(i);
  }
  const View in = view(x);
  const auto at = static_cast<std::ptrdiff_t>(count_outer(in, kept, reduced));
  View ordered = ordered_by(in, kept, reduced, at);
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
                {extent_of(in, {kept.begin(), kept.begin() + at}), extent_of(in, reduced),
                 extent_of(in, {kept.begin() + at, kept.end()})},
                node.origins,
                leading(graph_.value(node.outputs[0]).shape)};
  step.args = {{ordered.buffer, offset_bytes(ordered, dtype), Dim(0)},
               {out.buffer, offset_bytes(out, problem.output), Dim(0)}};
  plan_.steps.push_back(std::move(step));
  finish_output(node.outputs[0], out);
  return {};
}

}  // namespace qcg
