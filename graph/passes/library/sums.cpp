// Sums along an axis that weigh elements, or leave NaN out.
#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

ValueId sum_along(OpEmitter& e, const Node& like, ValueId x) {
  return e.op("aten.sum.dim_IntList", {{"self", x}, {"dim", like.arg("dim")}, {"keepdim", like.arg("keepdim")}});
}

ValueId without_nan(OpEmitter& e, const Graph& graph, ValueId x) {
  if (!is_floating(graph.value(x).dtype)) return x;
  return e.op("aten.where.ScalarSelf", {{"condition", e.unary("aten.isnan.default", x)}, {"self", 0.0}, {"other", x}});
}

Values write_nan_sum(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = e.widened(e.to(node.tensor("self"), graph.value(node.outputs[0]).dtype));
  return {sum_along(e, node, without_nan(e, graph, x))};
}

Values write_nan_mean(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = e.widened(e.to(node.tensor("self"), graph.value(node.outputs[0]).dtype));
  const ValueId counts = e.unary("aten.logical_not.default", e.unary("aten.isnan.default", x));
  const ValueId sum = sum_along(e, node, without_nan(e, graph, x));
  return {e.binary("aten.div.Tensor", sum, sum_along(e, node, counts))};
}

// Sums of elements side by side, times the half of how far they are apart.
Values write_trapezoid(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId y = e.widened(node.tensor("y"));
  const Shape shape = graph.value(y).shape;
  const size_t axis = *as_axis(node.arg("dim"), shape.size());
  const auto sides = [&](ValueId x) {
    const Dim size = shape[axis];
    const auto part = [&](const Dim& start, const Dim& end) {
      return e.op("aten.slice.Tensor", {{"self", x}, {"dim", axis_number(axis)}, {"start", start}, {"end", end}});
    };
    const ValueId behind = part(Dim(1), size);
    return std::pair(behind, part(Dim(0), size - Dim(1)));
  };
  const auto [right, left] = sides(y);
  ValueId each = e.binary("aten.add.Tensor", right, left);
  const bool spaced = node.op->arg_index("x") >= 0;
  if (spaced) {
    ValueId x = e.widened(node.tensor("x"));
    if (graph.value(x).shape != shape) {
      Shape thin(shape.size(), Dim(1));
      thin[axis] = shape[axis];
      x = e.reshape(x, thin);
    }
    const auto [last, first] = sides(x);
    each = e.binary("aten.mul.Tensor", each, e.binary("aten.sub.Tensor", last, first));
  }
  const ValueId sum =
      node.op->name.starts_with("aten.cumulative")
          ? e.op("aten.cumsum.default", {{"self", each}, {"dim", axis_number(axis)}})
          : e.op("aten.sum.dim_IntList", {{"self", each}, {"dim", std::vector<Dim>{axis_number(axis)}}});
  return {e.binary("aten.mul.Tensor", sum, spaced ? 0.5 : *as_number(node.arg("dx")) / 2)};
}

constexpr LibraryOp kSumOps[] = {
    {"aten.nansum.default", write_nan_sum},
    {"aten.nanmean.default", write_nan_mean},
    {"aten.trapezoid.dx", write_trapezoid},
    {"aten.trapezoid.x", write_trapezoid},
    {"aten.cumulative_trapezoid.dx", write_trapezoid},
    {"aten.cumulative_trapezoid.x", write_trapezoid},
};

}  // namespace

std::span<const LibraryOp> library_sums() { return kSumOps; }

}  // namespace qcg
