// Products of matrices and rows in other spellings: contracted axes as one, chains, scaled sums, powers.
#include <algorithm>

#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;

ValueId matrix_product(OpEmitter& e, ValueId a, ValueId b) {
  return e.op("aten.matmul.default", {{"self", a}, {"other", b}});
}
ValueId scaled(OpEmitter& e, ValueId x, const Arg& factor) {
  return as_number(factor) == 1.0 ? x : e.binary("aten.mul.Tensor", x, factor);
}

// [rows, k] and [k, columns].
std::pair<ValueId, ValueId> as_matrices(OpEmitter& e, const Graph& graph, std::pair<ValueId, std::vector<size_t>> x,
                                        std::pair<ValueId, std::vector<size_t>> y) {
  const auto matrix = [&](const std::pair<ValueId, std::vector<size_t>>& of, bool last) {
    const Shape shape = graph.value(of.first).shape;
    std::vector<Dim> order, sums;
    Dim kept(1), k(1);
    for (size_t i = 0; i < shape.size(); ++i)
      if (!std::ranges::count(of.second, i)) order.push_back(axis_number(i)), kept = kept * shape[i];
    for (const size_t i : of.second) sums.push_back(axis_number(i)), k = k * shape[i];
    order.insert(last ? order.end() : order.begin(), sums.begin(), sums.end());
    const ValueId moved =
        order.empty() ? of.first : e.op("aten.permute.default", {{"self", of.first}, {"dims", order}});
    return e.reshape(moved, last ? Shape{kept, k} : Shape{k, kept});
  };
  const ValueId left = matrix(x, true);
  return {left, matrix(y, false)};
}

ValueId contracted(OpEmitter& e, const Graph& graph, std::pair<ValueId, std::vector<size_t>> x,
                   std::pair<ValueId, std::vector<size_t>> y) {
  const auto [left, right] = as_matrices(e, graph, std::move(x), std::move(y));
  return matrix_product(e, left, right);
}

Values write_tensordot(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto side = [&](std::string_view name, std::string_view dims) {
    std::vector<size_t> axes;
    const size_t rank = graph.value(node.tensor(name)).shape.size();
    if (const auto* given = node.arg(dims).get<std::vector<Dim>>())
      for (const Dim& d : *given) axes.push_back(axis_at(d, rank));
    return std::pair(node.tensor(name), axes);
  };
  return {contracted(e, graph, side("self", "dims_self"), side("other", "dims_other"))};
}

Values write_inner(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId a = node.tensor("self"), b = node.tensor("other");
  const size_t left = graph.value(a).shape.size(), right = graph.value(b).shape.size();
  if (left == 0 || right == 0) return {e.binary("aten.mul.Tensor", a, b)};
  return {contracted(e, graph, {a, {left - 1}}, {b, {right - 1}})};
}

Values write_dot_of_rows(OpEmitter& e, const Graph&, const Node& node) {
  const ValueId product = e.binary("aten.mul.Tensor", e.widened(node.tensor("x")), e.widened(node.tensor("y")));
  return {e.op("aten.sum.dim_IntList", {{"self", product}, {"dim", std::vector<Dim>{*node.arg("dim").get<Dim>()}}})};
}

// Where beta is 0, self takes no part, whatever it is.
Values write_scaled_sum(OpEmitter& e, const Graph& graph, const Node& node) {
  ValueId product = kNoValue;
  if (is_op(node, "aten.addr.default")) {
    const ValueId x = node.tensor("vec1");
    const ValueId column = e.reshape(e.widened(x), {graph.value(x).shape[0], Dim(1)});
    product = e.binary("aten.mul.Tensor", column, e.widened(node.tensor("vec2")));
  } else if (is_op(node, "aten.addmv.default")) {
    const Dim k = graph.value(node.tensor("vec")).shape[0], rows = graph.value(node.tensor("mat")).shape[0];
    product = e.reshape(e.wide_product(node.tensor("mat"), e.reshape(node.tensor("vec"), {k, Dim(1)})), {rows});
  } else {
    const auto [x, y] = as_matrices(e, graph, {node.tensor("batch1"), {0, 2}}, {node.tensor("batch2"), {0, 1}});
    product = e.wide_product(x, y);
  }
  product = scaled(e, product, node.arg("alpha"));
  if (as_number(node.arg("beta")) == 0.0) return {product};
  return {e.binary("aten.add.Tensor", product, scaled(e, e.widened(node.tensor("self")), node.arg("beta")))};
}

Values write_chain(OpEmitter& e, const Graph& graph, const Node& node) {
  const Values matrices = *node.arg("tensors").get<Values>();
  const auto matrix = [&](ValueId id, bool row) {
    const Shape& shape = graph.value(id).shape;
    if (shape.size() == 2) return id;
    const Dim size = shape[0];
    return e.reshape(id, row ? Shape{Dim(1), size} : Shape{size, Dim(1)});
  };
  ValueId y = matrix(matrices[0], true);
  for (size_t i = 1; i < matrices.size(); ++i) y = matrix_product(e, y, matrix(matrices[i], false));
  return {y};
}

// By squares.
Values write_matrix_power(OpEmitter& e, const Graph& graph, const Node& node) {
  ValueId square = node.tensor("self"), y = kNoValue;
  const Shape shape = graph.value(square).shape;
  int64_t n = node.arg("n").get<Dim>()->constant();
  if (n == 0) {
    const ValueId one = e.op("aten.eye.default", {{"n", shape.back()}, {"dtype", graph.value(square).dtype}});
    return {e.op("aten.expand.default", {{"self", one}, {"size", shape}})};
  }
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) y = y == kNoValue ? square : matrix_product(e, y, square);
    if (n > 1) square = matrix_product(e, square, square);
  }
  return {y};
}

// Elements 1 2 0 of one times 2 0 1 of the other, less the same turned round.
Values write_cross(OpEmitter& e, const Graph& graph, const Node& node) {
  const std::vector<Dim> axis = {axis_number(axis_of_cross({graph, node}))};
  const auto rolled = [&](ValueId x, int64_t by) {
    return e.op("aten.roll.default", {{"self", e.widened(x)}, {"shifts", std::vector<Dim>{Dim(by)}}, {"dims", axis}});
  };
  const ValueId a = node.tensor("self"), b = node.tensor("other");
  const ValueId next_a = rolled(a, -1), next_b = rolled(b, -1), last_a = rolled(a, 1), last_b = rolled(b, 1);
  const ValueId forward = e.binary("aten.mul.Tensor", next_a, last_b);
  return {e.binary("aten.sub.Tensor", forward, e.binary("aten.mul.Tensor", last_a, next_b))};
}

// A linear of input2 that gives [O, I], then a sum over I.
Values write_bilinear(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = node.tensor("input1"), weight = node.tensor("weight");
  const Shape w = graph.value(weight).shape, of_x = graph.value(x).shape;
  const ValueId matrix = e.reshape(weight, {w[0] * w[1], w[2]});
  const ValueId rows =
      e.op("aten.linear.default", {{"input", node.tensor("input2")}, {"weight", matrix}, {"bias", kNoValue}});
  Shape split(of_x.begin(), of_x.end() - 1), thin = split;
  split.push_back(w[0]), split.push_back(w[1]);
  thin.push_back(Dim(1)), thin.push_back(w[1]);
  const ValueId product = e.binary("aten.mul.Tensor", e.widened(e.reshape(rows, split)), e.widened(e.reshape(x, thin)));
  const ValueId y = e.op("aten.sum.dim_IntList", {{"self", product}, {"dim", std::vector<Dim>{Dim(-1)}}});
  if (node.tensor("bias") == kNoValue) return {y};
  return {e.binary("aten.add.Tensor", y, e.widened(node.tensor("bias")))};
}

Values write_trilinear(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto operand = [&](std::string_view tensor, std::string_view expand) {
    return e.reshape(e.widened(node.tensor(tensor)), *expanded_shape(graph, node, tensor, expand));
  };
  const ValueId a = operand("i1", "expand1"), b = operand("i2", "expand2"), c = operand("i3", "expand3");
  const ValueId product = e.binary("aten.mul.Tensor", e.binary("aten.mul.Tensor", a, b), c);
  const auto* axes = node.arg("sumdim").get<std::vector<Dim>>();
  if (!axes || axes->empty()) return {product};
  return {e.op("aten.sum.dim_IntList", {{"self", product}, {"dim", *axes}})};
}

// 1 and the running products of each element.
Values write_powers(OpEmitter& e, const Graph& graph, const Node& node) {
  const Shape out = graph.value(node.outputs[0]).shape;
  const DType dtype = graph.value(node.outputs[0]).dtype;
  const int64_t count = out.back().constant();
  const bool ascending = node.op->arg_index("increasing") < 0 || *node.arg("increasing").get<bool>();
  Shape first = out, rest = out;
  first.back() = Dim(std::min<int64_t>(count, 1)), rest.back() = Dim(1);
  const ValueId ones = e.op("aten.full.default", {{"size", first}, {"fill_value", Dim(1)}, {"dtype", dtype}});
  if (count < 2) return {ones};
  const ValueId x = e.reshape(e.to(node.tensor("x"), dtype), rest);
  rest.back() = Dim(count - 1);
  const ValueId each = e.op("aten.expand.default", {{"self", x}, {"size", rest}});
  const ValueId powers = e.op("aten.cumprod.default", {{"self", each}, {"dim", Dim(-1)}});
  const ValueId y = e.op("aten.cat.default", {{"tensors", Values{ones, powers}}, {"dim", Dim(-1)}});
  if (ascending) return {y};
  return {e.op("aten.flip.default", {{"self", y}, {"dims", std::vector<Dim>{Dim(-1)}}})};
}

constexpr LibraryOp kProductOps[] = {
    {"aten.tensordot.default", write_tensordot},
    {"aten.inner.default", write_inner},
    {"aten.vdot.default", write_inner},
    {"aten.linalg_vecdot.default", write_dot_of_rows},
    {"aten.addr.default", write_scaled_sum},
    {"aten.addmv.default", write_scaled_sum},
    {"aten.addbmm.default", write_scaled_sum},
    {"aten.linalg_multi_dot.default", write_chain},
    {"aten.matrix_power.default", write_matrix_power},
    {"aten.cross.default", write_cross},
    {"aten.linalg_cross.default", write_cross},
    {"aten.bilinear.default", write_bilinear},
    {"aten._trilinear.default", write_trilinear},
    {"aten.vander.default", write_powers},
    {"aten.linalg_vander.default", write_powers},
};

}  // namespace

std::span<const LibraryOp> library_products() { return kProductOps; }

}  // namespace qcg
