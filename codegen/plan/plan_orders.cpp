#include <fmt/format.h>

#include <algorithm>

#include "codegen/plan/planner.h"
#include "codegen/scan/scan.h"
#include "codegen/select/select.h"
#include "graph/ops/op_table.h"

namespace qcg {

namespace {

std::string_view scan_of(Op op) {
  return op == "aten.cumprod.default"        ? "prod"
         : op == "aten.cummax.default"       ? "max"
         : op == "aten.cummin.default"       ? "min"
         : op == "aten.logcumsumexp.default" ? "logsumexp"
                                             : "sum";
}

}  // namespace

Status Planner::lower_scan(const Node& node) {
  const ValueId x = node.tensor("self"), result = node.outputs[0];
  const View in = dense(x);
  const size_t axis = in.shape.empty() ? 0 : normalize_axis(constant_int(node, "dim", 0), in.shape.size());
  Dim outer = 1, size = 1, inner = 1;
  for (size_t i = 0; i < in.shape.size(); ++i) {
    Dim& part = i < axis ? outer : i == axis ? size : inner;
    part = part * in.shape[i];
  }
  const ScanProblem problem{scan_of(node.op), graph_.value(x).dtype, graph_.value(result).dtype, comment_of(node)};
  PlanStep step{name_of(node, fmt::format("cum{}", problem.op)),
                intern({kScanFamily, problem}),
                {{in.buffer, offset_bytes(in, problem.input), Dim(0)}},
                {outer, size, inner},
                node.origins,
                leading(in.shape)};
  std::vector<View> written;
  for (const ValueId id : node.outputs) {
    written.push_back(output_view(id, is_dense));
    step.args.push_back({written.back().buffer, offset_bytes(written.back(), graph_.value(id).dtype), Dim(0)});
  }
  plan_.steps.push_back(std::move(step));
  for (size_t i = 0; i < written.size(); ++i) finish_output(node.outputs[i], written[i]);
  return {};
}

namespace {

// The axis last, the others as they were.
View with_last(View v, size_t axis) {
  std::rotate(v.shape.begin() + static_cast<std::ptrdiff_t>(axis),
              v.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, v.shape.end());
  std::rotate(v.strides.begin() + static_cast<std::ptrdiff_t>(axis),
              v.strides.begin() + static_cast<std::ptrdiff_t>(axis) + 1, v.strides.end());
  return v;
}

// The last axis where it was.
View with_last_at(View v, size_t axis) {
  std::rotate(v.shape.begin() + static_cast<std::ptrdiff_t>(axis), v.shape.end() - 1, v.shape.end());
  std::rotate(v.strides.begin() + static_cast<std::ptrdiff_t>(axis), v.strides.end() - 1, v.strides.end());
  return v;
}

}  // namespace

// Rows of the axis: another one is copied to the end, and the results are views of what comes out.
Status Planner::lower_order(const Node& node) {
  const bool largest = is_op(node, "aten.argmax.default"), of_one = largest || is_op(node, "aten.argmin.default");
  const bool alone = node.outputs.size() == 1;  // the positions
  const ValueId x = node.tensor("self");
  const DType dtype = graph_.value(x).dtype;
  View in = view(x);
  if (in.shape.empty() || (of_one && node.arg("dim").is_none())) in = *reshape_view(dense(x), {product(in.shape)});
  const size_t rank = in.shape.size(), axis = normalize_axis(constant_int(node, "dim", 0), rank) % rank;
  in = with_last(in, axis);
  if (!is_dense(in)) in = dense_view(copy_to_temp(in, dtype), in.shape);
  const bool topk = is_op(node, "aten.topk.default");
  const Dim size = in.shape.back(), count = of_one ? Dim(1) : topk ? *node.arg("k").get<Dim>() : size;
  SelectProblem problem{.dtype = dtype, .nan_first = of_one, .comment = comment_of(node)};
  problem.descending = of_one ? largest : *node.arg(topk ? "largest" : "descending").get<bool>();
  problem.values = !alone && uses()[node.outputs[0]] > 0;
  problem.positions = alone || uses()[node.outputs[1]] > 0;
  PlanStep step{name_of(node, of_one ? "arg"
                              : topk ? "topk"
                                     : "sort"),
                intern({kSelectFamily, problem}),
                {{in.buffer, offset_bytes(in, dtype), Dim(0)}},
                {leading(in.shape), size, count},
                node.origins,
                leading(in.shape)};
  std::vector<std::pair<ValueId, View>> written;
  for (const ValueId id : node.outputs) {
    const bool wanted = alone || (id == node.outputs[0] ? problem.values : problem.positions);
    if (!wanted) continue;
    Shape shape = in.shape;
    shape.back() = count;
    const DType type = graph_.value(id).dtype;
    const bool in_place = of_one || axis + 1 == rank;
    const View out = in_place ? output_view(id, is_dense) : dense_view(add_temp(shape, type), shape);
    step.args.push_back({out.buffer, offset_bytes(out, type), Dim(0)});
    written.push_back({id, in_place ? out : with_last_at(out, axis)});
  }
  plan_.steps.push_back(std::move(step));
  for (const auto& [id, out] : written) finish_output(id, out);
  return {};
}

}  // namespace qcg
