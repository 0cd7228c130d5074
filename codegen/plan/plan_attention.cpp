#include "codegen/attention/attention.h"
#include "codegen/plan/planner.h"

namespace qcg {

namespace {

// Elements of a row side by side, whatever lies between rows.
bool has_dense_rows(const View& v) {
  return !walks_back(v) && (v.shape.back().is_constant(1) || v.strides.back().is_constant(1));
}

// [batch, heads, rows, size] as a linear of all heads reads it: [batch, rows, heads, size].
View by_rows(int buffer, const Shape& shape) {
  View out{buffer, 0, shape, std::vector<Dim>(4, Dim(1))};
  out.strides[1] = shape[3];
  out.strides[2] = shape[3] * shape[1];
  out.strides[0] = out.strides[2] * shape[2];
  return out;
}

EmptyRow empty_row_of(const Node& node) {
  const std::string& name = *node.arg("empty").get<std::string>();
  return name == "zero" ? EmptyRow::zero : name == "nan" ? EmptyRow::nan : EmptyRow::mean;
}

}  // namespace

Status Planner::lower_attention(const Node& node) {
  const ValueId query = node.tensor("query"), key = node.tensor("key"), value = node.tensor("value"),
                result = node.outputs[0];
  const Shape &q = graph_.value(query).shape, &k = graph_.value(key).shape;
  const Shape scores = {q[0], q[1], q[2], k[2]};
  AttentionProblem problem{.query = graph_.value(query).dtype,
                           .key = graph_.value(key).dtype,
                           .value = graph_.value(value).dtype,
                           .output = graph_.value(result).dtype,
                           .size = q[3].constant(),
                           .value_size = graph_.value(value).shape[3].constant(),
                           .group = q[1].divide_exactly(k[1])->constant(),
                           .score = node.arg("score").get<std::vector<Expr>>()->front(),
                           .mask = {},
                           .empty = empty_row_of(node),
                           .operands = {},
                           .sizes = 0,
                           .comment = comment_of(node)};
  if (const auto& mask = *node.arg("mask").get<std::vector<Expr>>(); !mask.empty()) problem.mask = mask[0];
  const auto& sizes = *node.arg("sizes").get<std::vector<Dim>>();
  problem.sizes = static_cast<int>(sizes.size());
  const bool in_place = placed_[result] && has_dense_rows(*placed_[result]);
  const Shape& shape = graph_.value(result).shape;
  const View out = in_place ? *placed_[result] : by_rows(add_temp(shape, problem.output), shape);
  PlanStep step{name_of(node, "attention"), 0, {}, {q[0], q[1], k[1], q[2], k[2]}, node.origins, q[0] * q[1] * q[2]};
  const auto add_arg = [&](const View& v, DType dtype, size_t axes) {
    step.args.push_back({v.buffer, offset_bytes(v, dtype), Dim(0)});
    step.params.insert(step.params.end(), v.strides.begin(), v.strides.begin() + static_cast<std::ptrdiff_t>(axes));
  };
  for (const ValueId id : {query, key, value}) {
    View v = view(id);
    if (!has_dense_rows(v)) v = dense(id);
    Shape wide = v.shape;
    wide[0] = q[0];
    add_arg(broadcast_view(v, wide), graph_.value(id).dtype, 3);
  }
  step.params.insert(step.params.end(), out.strides.begin(), out.strides.begin() + 3);
  for (const ValueId id : *node.arg("operands").get<std::vector<ValueId>>()) {
    View v = view(id);
    if (walks_back(v)) v = dense(id);
    v = broadcast_view(v, scores);
    problem.operands.push_back({graph_.value(id).dtype, inner_stride(v), !v.strides[1].is_constant(0)});
    add_arg(v, graph_.value(id).dtype, 4);
  }
  step.args.push_back({out.buffer, offset_bytes(out, problem.output), Dim(0)});
  step.params.insert(step.params.end(), sizes.begin(), sizes.end());
  step.problem = intern({kAttentionFamily, std::move(problem)});
  plan_.steps.push_back(std::move(step));
  finish_output(result, out);
  return {};
}

}  // namespace qcg
