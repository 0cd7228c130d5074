// Elements in other places: parts, stacks, diagonals, products of every element with every other; and two ops at once.
#include <algorithm>

#include "graph/ir/elements.h"
#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

Values write_parts(OpEmitter& e, const Graph& graph, const Node& node) {
  const size_t axis = axis_of_parts(graph, node);
  Values out;
  Dim at(0);
  for (ValueId id : node.outputs) {
    const Dim end = at + graph.value(id).shape[axis];
    out.push_back(e.op("aten.slice.Tensor",
                       {{"self", node.tensor("self")}, {"dim", axis_number(axis)}, {"start", at}, {"end", end}}));
    at = end;
  }
  return out;
}

Values write_joined(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto [shapes, axis] = parts_of_stack(graph, node);
  Values parts;
  for (size_t i = 0; i < shapes.size(); ++i)
    parts.push_back(e.reshape((*node.arg("tensors").get<Values>())[i], shapes[i]));
  return {e.op("aten.cat.default", {{"tensors", parts}, {"dim", axis_number(axis)}})};
}

Values write_moved(OpEmitter& e, const Graph& graph, const Node& node) {
  const size_t rank = graph.value(node.tensor("self")).shape.size();
  if (rank == 0) return {node.tensor("self")};
  std::vector<Dim> order;
  for (size_t i = 0; i < rank; ++i) order.push_back(axis_number(i));
  const auto place = [&](std::string_view name) {
    return order.begin() + static_cast<std::ptrdiff_t>(*as_axis(node.arg(name), rank));
  };
  const Dim moved = *place("source");
  order.erase(place("source"));
  order.insert(place("destination"), moved);
  return {e.op("aten.permute.default", {{"self", node.tensor("self")}, {"dims", order}})};
}

Values write_ravel(OpEmitter&, const Graph&, const Node& node) { return {node.tensor("self")}; }

Values write_trace(OpEmitter& e, const Graph&, const Node& node) {
  return {e.unary("aten.sum.default", e.unary("aten.diagonal.default", node.tensor("self")))};
}

// Zeros but where the row is the column.
ValueId embedded(OpEmitter& e, const Graph& graph, ValueId x) {
  Shape rows = graph.value(x).shape;
  rows.insert(rows.end() - 1, Dim(1));
  const Dim size = rows.back();
  const ValueId middle = e.op("aten.eye.default", {{"n", size}, {"dtype", DType::boolean}});
  return e.op("aten.where.ScalarOther", {{"condition", middle}, {"self", e.reshape(x, rows)}, {"other", Dim(0)}});
}
// A matrix whose diagonal lies `offset` columns beside the middle one.
ValueId beside(OpEmitter& e, ValueId matrix, int64_t offset) {
  if (offset == 0) return matrix;
  const int64_t before = std::max<int64_t>(offset, 0), below = std::max<int64_t>(-offset, 0);
  return e.op("aten.constant_pad_nd.default",
              {{"self", matrix}, {"pad", std::vector<Dim>{Dim(before), Dim(below), Dim(below), Dim(before)}}});
}

Values write_diag_embed(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId y = beside(e, embedded(e, graph, node.tensor("self")), node.arg("offset").get<Dim>()->constant());
  const size_t rank = graph.value(node.outputs[0]).shape.size();
  const size_t rows = *as_axis(node.arg("dim1"), rank), columns = *as_axis(node.arg("dim2"), rank);
  std::vector<Dim> order;
  for (size_t axis = 0, next = 0; axis < rank; ++axis)
    order.push_back(axis_number(axis == rows ? rank - 2 : axis == columns ? rank - 1 : next++));
  return {e.op("aten.permute.default", {{"self", y}, {"dims", order}})};
}

Values write_diag(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = node.tensor("self");
  const Dim offset = *node.arg("diagonal").get<Dim>();
  if (graph.value(x).shape.size() == 2) return {e.op("aten.diagonal.default", {{"self", x}, {"offset", offset}})};
  return {beside(e, embedded(e, graph, x), offset.constant())};
}

// Axes of both in turn: [a, 1] times [1, b].
Values write_kron(OpEmitter& e, const Graph& graph, const Node& node) {
  Shape left = graph.value(node.tensor("self")).shape, right = graph.value(node.tensor("other")).shape;
  const size_t rank = std::max(left.size(), right.size());
  left.insert(left.begin(), rank - left.size(), Dim(1));
  right.insert(right.begin(), rank - right.size(), Dim(1));
  Shape rows, columns;
  for (size_t i = 0; i < rank; ++i) {
    rows.insert(rows.end(), {left[i], Dim(1)});
    columns.insert(columns.end(), {Dim(1), right[i]});
  }
  return {e.binary("aten.mul.Tensor", e.reshape(node.tensor("self"), rows), e.reshape(node.tensor("other"), columns))};
}

Values write_channel_shuffle(OpEmitter& e, const Graph& graph, const Node& node) {
  const Shape shape = graph.value(node.tensor("self")).shape;
  const Dim groups = *node.arg("groups").get<Dim>();
  Dim rest(1);
  for (size_t i = 2; i < shape.size(); ++i) rest = rest * shape[i];
  const ValueId x = e.reshape(node.tensor("self"), {shape[0], groups, *shape[1].divide_exactly(groups), rest});
  return {e.op("aten.transpose.int", {{"self", x}, {"dim0", Dim(1)}, {"dim1", Dim(2)}})};
}

Values write_moments(OpEmitter& e, const Graph&, const Node& node) {
  const bool squares = node.op->name.starts_with("aten.var");
  const Arg correction = node.op->arg_index("correction") >= 0 ? node.arg("correction")
                                                               : Arg(*node.arg("unbiased").get<bool>() ? 1.0 : 0.0);
  const auto over = [&](Op op, std::vector<NamedArg> more) {
    more.push_back({"self", node.tensor("self")});
    for (const char* name : {"dim", "keepdim"})
      if (node.op->arg_index(name) >= 0) more.push_back({name, node.arg(name)});
    return e.op(op, std::move(more));
  };
  return {over(squares ? Op("aten.var.correction") : Op("aten.std.correction"), {{"correction", correction}}),
          over(node.op->arg_index("dim") >= 0 ? Op("aten.mean.dim") : Op("aten.mean.default"), {})};
}

Values write_both_extremes(OpEmitter& e, const Graph& graph, const Node& node) {
  const Dim* axis = graph.value(node.tensor("self")).shape.empty() ? nullptr : node.arg("dim").get<Dim>();
  const std::vector<Dim> axes = axis ? std::vector<Dim>{*axis} : std::vector<Dim>();
  const auto over = [&](Op op) {
    return e.op(op, {{"self", node.tensor("self")}, {"dim", axes}, {"keepdim", node.arg("keepdim")}});
  };
  return {over("aten.amin.default"), over("aten.amax.default")};
}

Values write_count_nonzero(OpEmitter& e, const Graph& graph, const Node& node) {
  const Dim* axis = graph.value(node.tensor("self")).shape.empty() ? nullptr : node.arg("dim").get<Dim>();
  const auto* some = node.arg("dim").get<std::vector<Dim>>();
  const std::vector<Dim> axes = axis ? std::vector<Dim>{*axis} : some ? *some : std::vector<Dim>();
  return {
      e.op("aten.sum.dim_IntList", {{"self", e.binary("aten.ne.Scalar", node.tensor("self"), Dim(0))}, {"dim", axes}})};
}

Values write_logit(OpEmitter& e, const Graph&, const Node& node) {
  ValueId x = e.widened(node.tensor("self"));
  if (const auto eps = as_number(node.arg("eps")))
    x = e.op("aten.clamp.default", {{"self", x}, {"min", *eps}, {"max", 1 - *eps}});
  const ValueId rest = e.op("aten.rsub.Scalar", {{"self", x}, {"other", 1.0}});
  return {e.unary("aten.log.default", e.binary("aten.div.Tensor", x, rest))};
}

ValueId flipped(OpEmitter& e, ValueId x, const std::vector<Dim>& dims) {
  return e.op("aten.flip.default", {{"self", x}, {"dims", dims}});
}

Values write_turned(OpEmitter& e, const Graph&, const Node& node) {
  const ValueId x = node.tensor("self");
  if (is_op(node, "aten.fliplr.default")) return {flipped(e, x, {Dim(1)})};
  if (is_op(node, "aten.flipud.default")) return {flipped(e, x, {Dim(0)})};
  const int64_t quarters = (node.arg("k").get<Dim>()->constant() % 4 + 4) % 4;
  const std::vector<Dim> dims = *node.arg("dims").get<std::vector<Dim>>();
  if (quarters == 0) return {x};
  if (quarters == 2) return {flipped(e, x, dims)};
  const ValueId y = flipped(e, x, {dims[quarters == 1 ? 1 : 0]});
  return {e.op("aten.transpose.int", {{"self", y}, {"dim0", dims[0]}, {"dim1", dims[1]}})};
}

Values write_moved_axes(OpEmitter& e, const Graph& graph, const Node& node) {
  std::vector<Dim> order;
  for (const size_t axis : order_of_moved_axes(node, graph.value(node.tensor("self")).shape.size()))
    order.push_back(axis_number(axis));
  if (order.empty()) return {node.tensor("self")};
  return {e.op("aten.permute.default", {{"self", node.tensor("self")}, {"dims", order}})};
}

// Rows of blocks, zeros beside each.
Values write_block_diag(OpEmitter& e, const Graph& graph, const Node& node) {
  const DType dtype = graph.value(node.outputs[0]).dtype;
  const Dim all = graph.value(node.outputs[0]).shape[1];
  Values rows;
  Dim before(0);
  for (ValueId id : *node.arg("tensors").get<Values>()) {
    Shape shape = graph.value(id).shape;
    shape.insert(shape.begin(), 2 - shape.size(), Dim(1));
    const auto zeros = [&](const Dim& columns) {
      return e.op("aten.full.default", {{"size", Shape{shape[0], columns}}, {"fill_value", Dim(0)}, {"dtype", dtype}});
    };
    const Dim behind = all - before - shape[1];
    Values parts = {e.to(e.reshape(id, shape), dtype)};
    if (!before.is_constant(0)) parts.insert(parts.begin(), zeros(before));
    if (!behind.is_constant(0)) parts.push_back(zeros(behind));
    rows.push_back(parts.size() == 1 ? parts[0] : e.op("aten.cat.default", {{"tensors", parts}, {"dim", Dim(1)}}));
    before = before + shape[1];
  }
  return {rows.size() == 1 ? rows[0] : e.op("aten.cat.default", {{"tensors", rows}, {"dim", Dim(0)}})};
}

Values write_cartesian_product(OpEmitter& e, const Graph& graph, const Node& node) {
  const Values lists = *node.arg("tensors").get<Values>();
  if (lists.size() == 1) return {lists[0]};
  Shape all;
  for (ValueId id : lists) all.push_back(graph.value(id).shape[0]);
  Values columns;
  for (size_t i = 0; i < lists.size(); ++i) {
    Shape thin(all.size(), Dim(1));
    thin[i] = all[i];
    const ValueId column = e.op("aten.expand.default", {{"self", e.reshape(lists[i], thin)}, {"size", all}});
    columns.push_back(e.reshape(column, {product(all), Dim(1)}));
  }
  return {e.op("aten.cat.default", {{"tensors", columns}, {"dim", Dim(1)}})};
}

Values write_combinations(OpEmitter& e, const Graph& graph, const Node& node) {
  const int64_t n = graph.value(node.tensor("self")).shape[0].constant(), r = node.arg("r").get<Dim>()->constant();
  const std::vector<int64_t> at = combinations_of(n, r, *node.arg("with_replacement").get<bool>());
  const ValueId positions = e.parameter("choices", make_tensor(DType::i64, {static_cast<int64_t>(at.size())},
                                                               Elements<int64_t>(std::in_place, at.begin(), at.end())));
  return {e.op("aten.index_select.default", {{"self", node.tensor("self")}, {"dim", Dim(0)}, {"index", positions}})};
}

// A write at positions of the two axes laid out as one: every columns + 1 elements.
Values write_diagonal_scatter(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId self = node.tensor("self");
  const Shape shape = graph.value(self).shape;
  const size_t rank = shape.size(), rows = *as_axis(node.arg("dim1"), rank), columns = *as_axis(node.arg("dim2"), rank);
  const auto diagonal =
      diagonal_of(shape[rows], shape[columns], node.arg("offset").get<Dim>()->constant(), graph.symbols);
  std::vector<Dim> order, back(rank);
  for (size_t i = 0; i < rank; ++i)
    if (i != rows && i != columns) order.push_back(axis_number(i));
  order.push_back(axis_number(rows)), order.push_back(axis_number(columns));
  Shape permuted, lead;
  for (size_t i = 0; i < rank; ++i) {
    permuted.push_back(shape[static_cast<size_t>(order[i].constant())]);
    back[static_cast<size_t>(order[i].constant())] = axis_number(i);
  }
  lead.assign(permuted.begin(), permuted.end() - 2);
  const Dim batch = product(lead), width = shape[columns];
  ValueId at = e.binary("aten.mul.Tensor", e.op("aten.arange.default", {{"end", diagonal->size}}), width + Dim(1));
  at = e.binary("aten.add.Tensor", at, width * Dim(diagonal->row) + Dim(diagonal->column));
  const ValueId x = e.op("aten.permute.default", {{"self", self}, {"dims", order}});
  const ValueId y =
      e.op("aten.index_copy.default", {{"self", e.reshape(x, {batch, shape[rows] * width})},
                                       {"dim", Dim(1)},
                                       {"index", at},
                                       {"source", e.reshape(node.tensor("src"), {batch, diagonal->size})}});
  return {e.op("aten.permute.default", {{"self", e.reshape(y, permuted)}, {"dims", back}})};
}

Values write_sum_to_size(OpEmitter& e, const Graph& graph, const Node& node) {
  const Shape shape = graph.value(node.tensor("self")).shape, size = graph.value(node.outputs[0]).shape;
  std::vector<Dim> axes;
  for (size_t i = 0; i < shape.size(); ++i)
    if (i + size.size() < shape.size() || size[i + size.size() - shape.size()] != shape[i])
      axes.push_back(axis_number(i));
  if (axes.empty()) return {node.tensor("self")};
  return {e.op("aten.sum.dim_IntList", {{"self", node.tensor("self")}, {"dim", axes}})};
}

Values write_sorted_rows(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = node.tensor("self");
  if (graph.value(x).shape.empty()) return {x};
  const ValueId order = e.op("aten.argsort.stable", {{"self", x}, {"stable", true}, {"dim", Dim(0)}});
  return {e.op("aten.gather.default", {{"self", x}, {"dim", Dim(0)}, {"index", order}})};
}

constexpr LibraryOp kArrangements[] = {
    {"aten.hsplit.int", write_parts},
    {"aten.hsplit.array", write_parts},
    {"aten.vsplit.int", write_parts},
    {"aten.vsplit.array", write_parts},
    {"aten.dsplit.int", write_parts},
    {"aten.dsplit.array", write_parts},
    {"aten.dstack.default", write_joined},
    {"aten.rot90.default", write_turned},
    {"aten.fliplr.default", write_turned},
    {"aten.flipud.default", write_turned},
    {"aten.movedim.intlist", write_moved_axes},
    {"aten.moveaxis.intlist", write_moved_axes},
    {"aten.atleast_1d.default", write_ravel},
    {"aten.atleast_2d.default", write_ravel},
    {"aten.atleast_3d.default", write_ravel},
    {"aten.block_diag.default", write_block_diag},
    {"aten.cartesian_prod.default", write_cartesian_product},
    {"aten.combinations.default", write_combinations},
    {"aten.diagonal_scatter.default", write_diagonal_scatter},
    {"aten.sum_to_size.default", write_sum_to_size},
    {"aten.msort.default", write_sorted_rows},
    {"aten.unsafe_chunk.default", write_parts},
    {"aten.tensor_split.sections", write_parts},
    {"aten.tensor_split.indices", write_parts},
    {"aten.hstack.default", write_joined},
    {"aten.vstack.default", write_joined},
    {"aten.column_stack.default", write_joined},
    {"aten.movedim.int", write_moved},
    {"aten.moveaxis.int", write_moved},
    {"aten.ravel.default", write_ravel},
    {"aten.trace.default", write_trace},
    {"aten.diag.default", write_diag},
    {"aten.diag_embed.default", write_diag_embed},
    {"aten.kron.default", write_kron},
    {"aten.channel_shuffle.default", write_channel_shuffle},
    {"aten.var_mean.correction", write_moments},
    {"aten.var_mean.dim", write_moments},
    {"aten.var_mean.default", write_moments},
    {"aten.std_mean.default", write_moments},
    {"aten.std_mean.correction", write_moments},
    {"aten.std_mean.dim", write_moments},
    {"aten.aminmax.default", write_both_extremes},
    {"aten.count_nonzero.default", write_count_nonzero},
    {"aten.count_nonzero.dim_IntList", write_count_nonzero},
    {"aten.logit.default", write_logit},
};

}  // namespace

std::span<const LibraryOp> library_arrangements() { return kArrangements; }

}  // namespace qcg
