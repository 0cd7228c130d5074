// Elements in other places: parts, stacks, diagonals, products of every element with every other; and two ops at once.
#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

Values write_parts(OpEmitter& e, const Graph& graph, const Node& node) {
  const size_t axis = *as_axis(node.arg("dim"), graph.value(node.tensor("self")).shape.size());
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
    more.insert(more.end(),
                {{"self", node.tensor("self")}, {"dim", node.arg("dim")}, {"keepdim", node.arg("keepdim")}});
    return e.op(op, std::move(more));
  };
  return {over(squares ? Op("aten.var.correction") : Op("aten.std.correction"), {{"correction", correction}}),
          over("aten.mean.dim", {})};
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

constexpr LibraryOp kArrangements[] = {
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
