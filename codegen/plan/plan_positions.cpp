// What look-ups and writes at positions known only at run time plan alike.
#include <algorithm>

#include "codegen/plan/planner.h"
#include "codegen/positions/positions.h"
#include "graph/ops/infer.h"

namespace qcg {

View at_axes(View view, size_t rank, size_t first) {
  std::vector<Dim> strides(rank, Dim(0));
  std::copy(view.strides.begin(), view.strides.end(), strides.begin() + static_cast<std::ptrdiff_t>(first));
  view.strides = std::move(strides);
  return view;
}

std::vector<View> collapse_to_axes(std::vector<View> views) {
  views = collapse(std::move(views));
  if (views[0].shape.empty())
    for (View& view : views) view.shape = {1}, view.strides = {Dim(0)};
  return views;
}

// Positions along some axes of `t`. Their own axes take the place of those: at the first, or in front of all where the
// indexed axes stand apart. `keeps_axes`: a position without axes leaves one of extent 1 (index_select).
Positioned Planner::at_indices(const View& t, const std::vector<ValueId>& indices, bool from_end, bool keeps_axes) {
  std::vector<size_t> indexed;
  Shape all;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (indices[axis] == kNoValue) continue;
    indexed.push_back(axis);
    all = *broadcast(all, graph_.value(indices[axis]).shape);
  }
  if (all.empty() && keeps_axes) all = {Dim(1)};
  const bool apart = indexed.back() - indexed.front() + 1 != indexed.size();
  const auto first = static_cast<std::ptrdiff_t>(apart ? 0 : indexed.front());
  Positioned out{{t.buffer, t.offset, {}, {}}, {}};
  View& base = out.base;
  for (size_t axis = 0; axis < t.shape.size(); ++axis) {
    if (std::ranges::find(indexed, axis) != indexed.end()) continue;
    base.shape.push_back(t.shape[axis]);
    base.strides.push_back(t.strides[axis]);
  }
  base.shape.insert(base.shape.begin() + first, all.begin(), all.end());
  base.strides.insert(base.strides.begin() + first, all.size(), Dim(0));
  for (const size_t axis : indexed)
    out.ids.push_back({at_axes(broadcast_view(view(indices[axis]), all), base.shape.size(), static_cast<size_t>(first)),
                       {graph_.value(indices[axis]).dtype, from_end},
                       t.shape[axis],
                       t.strides[axis]});
  return out;
}

// `views`: of x, of the positions and of y, all over the same axes, x and y of `dtype`.
void Planner::add_positioned_step(PlanStep step, KernelProblem problem, const std::vector<View>& views, DType dtype,
                                  const std::vector<Positioned::Ids>& ids) {
  step.params = views[0].shape;
  for (size_t i = 0; i < views.size(); ++i) {
    const bool is_ids = i > 0 && i <= ids.size();
    step.args.push_back({views[i].buffer, offset_bytes(views[i], is_ids ? ids[i - 1].kind.dtype : dtype), Dim(0)});
    step.params.insert(step.params.end(), views[i].strides.begin(), views[i].strides.end());
  }
  for (const Positioned::Ids& i : ids) step.params.insert(step.params.end(), {i.size, i.step});
  step.problem = intern(std::move(problem));
  plan_.steps.push_back(std::move(step));
}

}  // namespace qcg
