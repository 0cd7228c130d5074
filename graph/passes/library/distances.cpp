// Norms, and distances between rows.
#include <cmath>

#include "graph/ir/elements.h"
#include "graph/ops/infer.h"
#include "graph/passes/library/library.h"

namespace qcg {
namespace {

using Values = std::vector<ValueId>;
using Axes = std::vector<Dim>;

ValueId product_of(OpEmitter& e, ValueId a, Arg b) { return e.binary("aten.mul.Tensor", a, std::move(b)); }
ValueId sum_over(OpEmitter& e, ValueId x, const Axes& axes, bool keepdim) {
  return e.op("aten.sum.dim_IntList", {{"self", x}, {"dim", axes}, {"keepdim", keepdim}});
}

// (sum |x|^p)^(1/p); the extremes of |x| for p = inf and -inf, and how many are not 0 for p = 0.
ValueId norm_of(OpEmitter& e, ValueId x, double p, const Axes& axes, bool keepdim) {
  x = e.widened(x);
  if (p == 2) return e.unary("aten.sqrt.default", sum_over(e, product_of(e, x, x), axes, keepdim));
  if (p == 0) return sum_over(e, e.binary("aten.ne.Scalar", x, 0.0), axes, keepdim);
  const ValueId sizes = e.unary("aten.abs.default", x);
  if (p == 1) return sum_over(e, sizes, axes, keepdim);
  if (std::isinf(p))
    return e.op(p > 0 ? Op("aten.amax.default") : Op("aten.amin.default"),
                {{"self", sizes}, {"dim", axes}, {"keepdim", keepdim}});
  const auto power = [&](ValueId v, double exponent) {
    return e.op("aten.pow.Tensor_Scalar", {{"self", v}, {"exponent", exponent}});
  };
  return power(sum_over(e, power(sizes, p), axes, keepdim), 1 / p);
}

Values write_norm(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto* axes = node.op->arg_index("dim") < 0 ? nullptr : node.arg("dim").get<Axes>();
  const bool keepdim = node.op->arg_index("keepdim") >= 0 && *node.arg("keepdim").get<bool>();
  const ValueId x = e.to(node.tensor("self"), graph.value(node.outputs[0]).dtype);
  return {norm_of(e, x, *order_of_norm(node), axes ? *axes : Axes(), keepdim)};
}

// Both operands in the shape that they broadcast to.
std::pair<ValueId, ValueId> broadcast_sides(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId a = e.widened(node.tensor("x1")), b = e.widened(node.tensor("x2"));
  const Shape both = *broadcast(graph.value(a).shape, graph.value(b).shape);
  const auto expanded = [&](ValueId v) {
    return graph.value(v).shape == both ? v : e.op("aten.expand.default", {{"self", v}, {"size", both}});
  };
  return {expanded(a), expanded(b)};
}

// The sum of the products of both, each divided by its norm.
Values write_cosine_similarity(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto [a, b] = broadcast_sides(e, graph, node);
  const Axes axis = {*node.arg("dim").get<Dim>()};
  const auto unit = [&](ValueId x) {
    const ValueId size =
        e.op("aten.clamp_min.default", {{"self", norm_of(e, x, 2, axis, true)}, {"min", node.arg("eps")}});
    return e.binary("aten.div.Tensor", x, size);
  };
  return {sum_over(e, product_of(e, unit(a), unit(b)), axis, false)};
}

Values write_pairwise_distance(OpEmitter& e, const Graph& graph, const Node& node) {
  const auto [a, b] = broadcast_sides(e, graph, node);
  const ValueId difference = e.binary("aten.add.Tensor", e.binary("aten.sub.Tensor", a, b), node.arg("eps"));
  return {norm_of(e, difference, *as_number(node.arg("p")), {Dim(-1)}, *node.arg("keepdim").get<bool>())};
}

// As torch decides it: more than 25 rows on a side are multiplied, unless compute_mode forbids it. Rows
// whose number is known only at run time are subtracted: distances of equal rows are 0 then.
bool are_multiplied(const Graph& graph, const Node& node) {
  if (is_op(node, "aten._euclidean_dist.default")) return true;
  constexpr int64_t kFewRows = 25, kAlways = 1, kNever = 2;
  const Dim* mode = node.arg("compute_mode").get<Dim>();
  if (as_number(node.arg("p")) != 2.0 || (mode && mode->is_constant(kNever))) return false;
  const auto rows_of = [&](std::string_view name) {
    const Shape& shape = graph.value(node.tensor(name)).shape;
    return shape[shape.size() - 2];
  };
  const auto are_few = [&](const Dim& rows) { return !rows.is_constant() || rows.constant() <= kFewRows; };
  return (mode && mode->is_constant(kAlways)) || !are_few(rows_of("x1")) || !are_few(rows_of("x2"));
}

// sqrt(|a|^2 + |b|^2 - 2 a·b), or norms of differences.
Values write_distances(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId a = e.widened(node.tensor("x1")), b = e.widened(node.tensor("x2"));
  const auto lifted = [&](ValueId x, size_t from_end) {
    Shape shape = graph.value(x).shape;
    shape.insert(shape.end() - static_cast<std::ptrdiff_t>(from_end), Dim(1));
    return e.reshape(x, shape);
  };
  const Axes last = {Dim(-1)};
  if (!are_multiplied(graph, node)) {
    const ValueId differences = e.binary("aten.sub.Tensor", lifted(a, 1), lifted(b, 2));
    return {norm_of(e, differences, *as_number(node.arg("p")), last, false)};
  }
  const auto squares = [&](ValueId x) { return sum_over(e, product_of(e, x, x), last, false); };
  const ValueId turned = e.op("aten.transpose.int", {{"self", b}, {"dim0", Dim(-2)}, {"dim1", Dim(-1)}});
  const ValueId products = e.op("aten.matmul.default", {{"self", a}, {"other", turned}});
  const ValueId both = e.binary("aten.add.Tensor", lifted(squares(a), 0), lifted(squares(b), 1));
  const ValueId apart = e.binary("aten.sub.Tensor", both, product_of(e, products, 2.0));
  return {e.unary("aten.sqrt.default", e.op("aten.clamp_min.default", {{"self", apart}, {"min", 0.0}}))};
}

Values write_distance(OpEmitter& e, const Graph&, const Node& node) {
  const ValueId apart = e.binary("aten.sub.Tensor", e.widened(node.tensor("self")), e.widened(node.tensor("other")));
  return {norm_of(e, apart, *as_number(node.arg("p")), {}, false)};
}

// Both rows of each pair are looked up.
Values write_distances_of_pairs(OpEmitter& e, const Graph& graph, const Node& node) {
  const ValueId x = e.widened(node.tensor("self"));
  const std::vector<int64_t> pairs = combinations_of(graph.value(x).shape[0].constant(), 2, false);
  const auto count = static_cast<int64_t>(pairs.size() / 2);
  if (count == 0)
    return {e.op("aten.full.default", {{"size", Shape{Dim(0)}}, {"fill_value", 0.0}, {"dtype", graph.value(x).dtype}})};
  const auto rows = [&](size_t which) {
    std::vector<int64_t> at;
    for (size_t i = which; i < pairs.size(); i += 2) at.push_back(pairs[i]);
    const ValueId positions =
        e.parameter("pairs", make_tensor(DType::i64, {count}, Elements<int64_t>(std::in_place, at.begin(), at.end())));
    return e.op("aten.index_select.default", {{"self", x}, {"dim", Dim(0)}, {"index", positions}});
  };
  const ValueId first = rows(0);
  const ValueId apart = e.binary("aten.sub.Tensor", first, rows(1));
  return {norm_of(e, apart, *as_number(node.arg("p")), {Dim(-1)}, false)};
}

// Slices along an axis whose norm is greater are scaled to it.
Values write_renorm(OpEmitter& e, const Graph& graph, const Node& node) {
  constexpr double kSmall = 1e-7;
  const ValueId x = e.widened(node.tensor("self"));
  const size_t rank = graph.value(x).shape.size(), axis = *as_axis(node.arg("dim"), rank);
  Axes others;
  for (size_t i = 0; i < rank; ++i)
    if (i != axis) others.push_back(axis_number(i));
  const double most = *as_number(node.arg("maxnorm"));
  const ValueId norm = norm_of(e, x, *as_number(node.arg("p")), others, true);
  const ValueId inverse = e.unary("aten.reciprocal.default", e.binary("aten.add.Tensor", norm, kSmall));
  const ValueId factor = e.op(
      "aten.where.ScalarOther",
      {{"condition", e.binary("aten.gt.Scalar", norm, most)}, {"self", product_of(e, inverse, most)}, {"other", 1.0}});
  return {product_of(e, x, factor)};
}

constexpr LibraryOp kDistanceOps[] = {
    {"aten.dist.default", write_distance},
    {"aten.pdist.default", write_distances_of_pairs},
    {"aten._pdist_forward.default", write_distances_of_pairs},
    {"aten.renorm.default", write_renorm},
    {"aten.linalg_vector_norm.default", write_norm},
    {"aten.linalg_norm.default", write_norm},
    {"aten.linalg_norm.ord_str", write_norm},
    {"aten.linalg_matrix_norm.str_ord", write_norm},
    {"aten.norm.Scalar", write_norm},
    {"aten.norm.ScalarOpt_dim", write_norm},
    {"aten.norm.ScalarOpt_dim_dtype", write_norm},
    {"aten.norm.ScalarOpt_dtype", write_norm},
    {"aten.frobenius_norm.dim", write_norm},
    {"aten.cosine_similarity.default", write_cosine_similarity},
    {"aten.pairwise_distance.default", write_pairwise_distance},
    {"aten.cdist.default", write_distances},
    {"aten._cdist_forward.default", write_distances},
    {"aten._euclidean_dist.default", write_distances},
};

}  // namespace

std::span<const LibraryOp> library_distances() { return kDistanceOps; }

}  // namespace qcg
