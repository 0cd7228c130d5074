#include <fmt/format.h>

#include <algorithm>

#include "codegen/plan/planner.h"
#include "codegen/scatter/scatter.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"

namespace qcg {

// What is written, at which positions, and where those lie: everything over the axes of what is written.
struct PositionedWrite {
  struct Ids {
    View view;
    DType dtype = DType::i64;
    bool from_end = false;
    Dim size, step;  // of the axis that they are positions in
  };
  View from, to;  // `to` stands still along axes of positions
  std::vector<Ids> ids;
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
  out = collapse(std::move(out));
  if (out[0].shape.empty())
    for (View& view : out) view.shape = {1}, view.strides = {0};
  return out;
}

// `view` over `rank` axes of which its own begin at `first`.
View at_axes(View view, size_t rank, size_t first) {
  std::vector<Dim> strides(rank, Dim(0));
  std::copy(view.strides.begin(), view.strides.end(), strides.begin() + static_cast<std::ptrdiff_t>(first));
  view.strides = std::move(strides);
  return view;
}

}  // namespace

// One position along `dim` for each slice (index_copy) or for each element (scatter) of what is written.
Result<PositionedWrite> Planner::write_along_axis(const Node& node, const View& whole) {
  const bool slices = is_op(node, "aten.index_copy.default");
  const ValueId index = node.tensor("index");
  PositionedWrite out{view(node.tensor(slices ? "source" : "src")), whole, {}};
  if (!slices) out.from.shape = graph_.value(index).shape;  // of a larger src the rest is not written
  const size_t rank = whole.shape.size();
  QCG_TRY(axis, OpArgs({graph_, node}).axis("dim", rank));
  PositionedWrite::Ids ids{view(index), graph_.value(index).dtype, false, rank == 0 ? Dim(1) : whole.shape[axis],
                           rank == 0 ? Dim(1) : whole.strides[axis]};
  if (slices && rank > 0) ids.view = at_axes(ids.view, rank, axis);
  if (rank == 0) ids.view.strides.clear();
  if (rank > 0) out.to.strides[axis] = Dim(0);
  out.ids.push_back(std::move(ids));
  return out;
}

// The values' axes: those of the indices in the place of the axes they index, in front where those are apart.
PositionedWrite Planner::write_at_indices(const Node& node, const View& whole) {
  const auto& indices = *node.arg("indices").get<std::vector<ValueId>>();
  std::vector<size_t> indexed;
  Shape all;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (indices[axis] == kNoValue) continue;
    indexed.push_back(axis);
    all = *broadcast(all, graph_.value(indices[axis]).shape);
  }
  const bool apart = indexed.back() - indexed.front() + 1 != indexed.size();
  const size_t first = apart ? 0 : indexed.front();
  PositionedWrite out{{}, {whole.buffer, whole.offset, {}, {}}, {}};
  for (size_t axis = 0; axis < whole.shape.size(); ++axis) {
    if (std::ranges::find(indexed, axis) != indexed.end()) continue;
    out.to.shape.push_back(whole.shape[axis]);
    out.to.strides.push_back(whole.strides[axis]);
  }
  const auto at = static_cast<std::ptrdiff_t>(first);
  out.to.shape.insert(out.to.shape.begin() + at, all.begin(), all.end());
  out.to.strides.insert(out.to.strides.begin() + at, all.size(), Dim(0));
  out.from = broadcast_view(view(node.tensor("values")), out.to.shape);
  for (const size_t axis : indexed)
    out.ids.push_back({at_axes(broadcast_view(view(indices[axis]), all), out.to.shape.size(), first),
                       graph_.value(indices[axis]).dtype, true, whole.shape[axis], whole.strides[axis]});
  return out;
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
  problem.comment = comment_of(node);
  std::vector<View> views = {write.from};
  std::vector<DType> dtypes = {problem.dtype};
  for (const PositionedWrite::Ids& ids : write.ids) {
    problem.ids.push_back({ids.dtype, ids.from_end});
    views.push_back(ids.view);
    dtypes.push_back(ids.dtype);
  }
  views.push_back(write.to);
  dtypes.push_back(problem.dtype);
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
  PlanStep step{"write into " + graph_.value(out).name, 0, {}, views[0].shape, node.origins, rows};
  for (size_t i = 0; i < views.size(); ++i) {
    step.params.insert(step.params.end(), views[i].strides.begin(), views[i].strides.end());
    step.args.push_back({views[i].buffer, offset_bytes(views[i], dtypes[i]), Dim(0)});
  }
  for (const PositionedWrite::Ids& ids : write.ids) step.params.insert(step.params.end(), {ids.size, ids.step});
  step.problem = intern({kScatterFamily, std::move(problem)});
  plan_.steps.push_back(std::move(step));
  views_[out] = whole;
  return {};
}

}  // namespace qcg
