#include <fmt/format.h>

#include <algorithm>

#include "codegen/plan/planner.h"
#include "codegen/scatter/scatter.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"

namespace qcg {

// What is written, over its axes, and where.
struct PositionedWrite {
  View from;
  Positioned to;
};

namespace {

// Along these axes the order of writes matters, or the position changes.
bool is_walked(const std::vector<View>& views, size_t axis) {
  bool walked = views.back().strides[axis].is_constant(0);
  for (size_t i = 1; i + 1 < views.size(); ++i) walked = walked || !views[i].strides[axis].is_constant(0);
  return walked;
}

// Walked axes behind the others, but for one that is the row; as few as strides can say.
std::vector<View> order_axes(const std::vector<View>& views) {
  std::vector<size_t> free, walked;
  for (size_t axis = 0; axis < views[0].shape.size(); ++axis) (is_walked(views, axis) ? walked : free).push_back(axis);
  std::vector<size_t> order(free.begin(), free.empty() ? free.end() : free.end() - 1);
  order.insert(order.end(), walked.begin(), walked.end());
  if (!free.empty()) order.push_back(free.back());
  std::vector<View> out = views;
  for (size_t v = 0; v < views.size(); ++v)
    for (size_t i = 0; i < order.size(); ++i) {
      out[v].shape[i] = views[v].shape[order[i]];
      out[v].strides[i] = views[v].strides[order[i]];
    }
  return collapse_to_axes(std::move(out));
}

}  // namespace

// One position along `dim` for each slice (index_copy) or for each element (scatter) of what is written.
Result<PositionedWrite> Planner::write_along_axis(const Node& node, const View& whole) {
  const bool slices = is_op(node, "aten.index_copy.default") || is_op(node, "aten.index_add.default");
  const ValueId index = node.tensor("index");
  PositionedWrite out{view(node.tensor(slices ? "source" : "src")), {whole, {}}};
  if (!slices) out.from.shape = graph_.value(index).shape;  // of a larger src the rest is not written
  const size_t rank = whole.shape.size();
  QCG_TRY(axis, OpArgs({graph_, node}).axis("dim", rank));
  Positioned::Ids ids{view(index),
                      {graph_.value(index).dtype, false},
                      rank == 0 ? Dim(1) : whole.shape[axis],
                      rank == 0 ? Dim(1) : whole.strides[axis]};
  if (slices && rank > 0) ids.view = at_axes(ids.view, rank, axis);
  if (rank == 0) ids.view.strides.clear();
  if (rank > 0) out.to.base.strides[axis] = Dim(0);
  out.to.ids.push_back(std::move(ids));
  return out;
}

PositionedWrite Planner::write_at_indices(const Node& node, const View& whole) {
  Positioned to = at_indices(whole, *node.arg("indices").get<std::vector<ValueId>>(), /*from_end=*/true);
  View from = broadcast_view(view(node.tensor("values")), to.base.shape);
  return {std::move(from), std::move(to)};
}

Status Planner::lower_positioned_write(const Node& node) {
  const View whole = memory_to_write(node);
  PositionedWrite write;
  if (is_op(node, "aten.index_put.default")) {
    write = write_at_indices(node, whole);
  } else {
    QCG_TRY(along, write_along_axis(node, whole));
    write = std::move(along);
  }
  const ValueId out = node.outputs[0];
  ScatterProblem problem;
  problem.dtype = graph_.value(out).dtype;
  problem.combine = combination_at_positions(node);
  problem.comment = comment_of(node);
  std::vector<View> views = {write.from};
  for (const Positioned::Ids& ids : write.to.ids) {
    problem.ids.push_back(ids.kind);
    views.push_back(ids.view);
  }
  views.push_back(write.to.base);
  for (View& view : views) view.shape = write.from.shape;
  const Dim rows = leading(write.from.shape);
  views = order_axes(views);
  const size_t rank = views[0].shape.size();
  size_t free = 0;
  while (free < rank && !is_walked(views, free)) ++free;
  problem.rank = static_cast<int>(rank);
  problem.rows = !is_walked(views, rank - 1);
  problem.free = static_cast<int>(free == rank ? rank - 1 : free);
  for (size_t axis = 0; axis < rank; ++axis)
    if (!views.back().strides[axis].is_constant(0)) problem.moves.push_back(static_cast<int>(axis));
  PlanStep step{"write into " + graph_.value(out).name, 0, {}, {}, node.origins, rows};
  const DType dtype = problem.dtype;
  add_positioned_step(std::move(step), {kScatterFamily, std::move(problem)}, views, dtype, write.to.ids);
  views_[out] = whole;
  return {};
}

}  // namespace qcg
