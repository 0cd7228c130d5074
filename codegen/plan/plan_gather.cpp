#include <algorithm>

#include "codegen/bags/bags.h"
#include "codegen/gather/gather.h"
#include "codegen/plan/planner.h"
#include "graph/ops/infer.h"
#include "graph/ops/op_table.h"

namespace qcg {

namespace {

constexpr bool kFromEnd = true;

}  // namespace

// A position along one axis for every element of the output. Other axes of one element are broadcast.
Positioned Planner::gather(ValueId table, size_t axis, ValueId index, const Shape& out) {
  const View t = view(table);
  Positioned look_up{
      {t.buffer, t.offset, out, t.strides},
      {{broadcast_view(view(index), out), {graph_.value(index).dtype, false}, t.shape[axis], t.strides[axis]}}};
  for (size_t i = 0; i < out.size(); ++i)
    if (i == axis || t.shape[i].is_constant(1)) look_up.base.strides[i] = Dim(0);
  return look_up;
}

// The positions in the elements of the table in their order.
Positioned Planner::take(ValueId table, ValueId index, const Shape& out, bool from_end) {
  const View t = dense(table), ids = dense(index);
  const Dim size = product(t.shape);
  View positions = dense_view(ids.buffer, out);
  positions.offset = ids.offset;
  return {{t.buffer, t.offset, out, std::vector<Dim>(out.size(), Dim(0))},
          {{positions, {graph_.value(index).dtype, from_end}, size, Dim(1)}}};
}

Status Planner::lower_look_up(const Node& node) {
  const Op op = node.op;
  const Shape& out = graph_.value(node.outputs[0]).shape;
  const ValueId table = node.tensor(op == "aten.embedding.default" ? "weight" : "self");
  const size_t rank = graph_.value(table).shape.size();
  const auto axis = [&] { return normalize_axis(constant_int(node, "dim", 0), rank); };
  if (op == "aten.embedding.default")
    return add_look_up(node, at_indices(view(table), {node.tensor("indices")}, false));
  if (is_any_op(node, kIndexes))
    return add_look_up(node, at_indices(view(table), *node.arg("indices").get<std::vector<ValueId>>(), kFromEnd));
  if (rank == 0)  // of one element, whose only position is 0
    return Error::unsupported(node.where, node.op->name + " of a tensor without axes has no kernel",
                              "give the tensor an axis (unsqueeze) before it");
  if (op == "aten.gather.default") return add_look_up(node, gather(table, axis(), node.tensor("index"), out));
  if (op == "aten.index_select.default") {
    std::vector<ValueId> indices(axis(), kNoValue);
    indices.push_back(node.tensor("index"));
    return add_look_up(node, at_indices(view(table), indices, false, /*keeps_axes=*/true));
  }
  if (op == "aten.take.default") return add_look_up(node, take(table, node.tensor("index"), out, kFromEnd));
  if (op == "aten.take_along_dim.default") {
    const ValueId index = node.tensor("indices");
    return add_look_up(node,
                       node.arg("dim").is_none() ? take(table, index, out, false) : gather(table, axis(), index, out));
  }
  return Error::unsupported(node.where, node.op->name + " has no kernel that looks up", "use index or gather instead");
}

Status Planner::add_look_up(const Node& node, const Positioned& look_up) {
  const ValueId id = node.outputs[0];
  const Shape& out = graph_.value(id).shape;
  GatherProblem problem;
  problem.dtype = graph_.value(id).dtype;
  problem.comment = comment_of(node);
  std::vector<View> views = {look_up.base};
  for (const Positioned::Ids& ids : look_up.ids) {
    problem.ids.push_back(ids.kind);
    views.push_back(ids.view);
  }
  views_[id] = placed_[id] ? *placed_[id] : dense_view(add_temp(out, problem.dtype), out);
  views.push_back(views_[id]);
  for (View& v : views) v.shape = out;
  views = collapse_to_axes(std::move(views));
  problem.rank = static_cast<int>(views[0].shape.size());
  problem.rows =
      std::all_of(views.begin() + 1, views.end() - 1, [](const View& v) { return v.strides.back().is_constant(0); });
  PlanStep step{name_of(node, "look up"), 0, {}, {}, node.origins, leading(out)};
  const DType dtype = problem.dtype;
  add_positioned_step(std::move(step), {kGatherFamily, std::move(problem)}, views, dtype, look_up.ids);
  return {};
}

Status Planner::lower_bags(const Node& node) {
  for (size_t i = 1; i < node.outputs.size(); ++i)
    if (uses()[node.outputs[i]] > 0)
      return Error::unsupported(node.where, node.op->name + " is read for more than its first result",
                                "use the first result alone; the others are for training");
  const ValueId weight = node.tensor("weight"), ids = node.tensor("indices"), offsets = node.tensor("offsets"),
                factors = node.tensor("per_sample_weights"), y = node.outputs[0];
  const auto dtype_of = [&](ValueId id) { return graph_.value(id).dtype; };
  BagsProblem problem{static_cast<BagMode>(constant_int(node, "mode", 0)),
                      dtype_of(weight),
                      dtype_of(offsets),
                      dtype_of(ids),
                      std::nullopt,
                      comment_of(node)};
  if (factors != kNoValue) problem.weights = dtype_of(factors);
  const auto fits = [](const View& v) { return v.strides[1].is_constant(1); };
  const View table = fits(view(weight)) ? view(weight) : dense(weight), out = output_view(y, fits);
  PlanStep step{name_of(node, "bags"), 0, {}, {}, node.origins, graph_.value(y).shape[0]};
  const auto add = [&](const View& v, DType dtype) { step.args.push_back({v.buffer, offset_bytes(v, dtype), Dim(0)}); };
  add(table, problem.table);
  add(dense(offsets), problem.offsets);
  add(dense(ids), problem.ids);
  if (factors != kNoValue) add(dense(factors), *problem.weights);
  add(out, problem.table);
  const Dim n = graph_.value(ids).shape[0], size = graph_.value(weight).shape[0];
  const int64_t given = node.op->arg_index("padding_idx") < 0 ? -1 : constant_int(node, "padding_idx", -1);
  const bool wraps = is_op(node, "aten.embedding_bag.padding_idx") && !node.arg("padding_idx").is_none();
  const Dim padding = wraps && given < 0 ? size + Dim(given) : Dim(given);
  step.params = {out.shape[0],     out.shape[1],   n,      graph_.value(offsets).shape[0], n + Dim(1), size,
                 table.strides[0], out.strides[0], padding};
  step.problem = intern({kBagsFamily, std::move(problem)});
  plan_.steps.push_back(std::move(step));
  finish_output(y, out);
  return {};
}

}  // namespace qcg
