#include "graph/patterns/gemm.h"

#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

// The value under a permute that swaps the last two axes and leaves the others.
std::optional<ValueId> under_transpose(const Graph& graph, ValueId id) {
  const Node* node = producer_if(graph, id, "aten.permute.default");
  if (!node) return std::nullopt;
  const auto& dims = *node->arg("dims").get<std::vector<Dim>>();
  if (dims.size() < 2) return std::nullopt;
  for (size_t i = 0; i < dims.size(); ++i) {
    size_t expected = i + 2 < dims.size() ? i : 2 * dims.size() - 3 - i;  // …, rank-1, rank-2
    if (!dims[i].is_constant(static_cast<int64_t>(expected))) return std::nullopt;
  }
  return node->tensor("self");
}

}  // namespace

UnderTransposes under_transposes(const Graph& graph, ValueId id, bool kn) {
  while (auto inner = under_transpose(graph, id)) id = *inner, kn = !kn;
  return {id, kn};
}

std::optional<Gemm> as_gemm(const Graph& graph, const Node& node) {
  Gemm gemm;
  if (is_op(node, "aten.linear.default")) {
    gemm.x = node.tensor("input");
    gemm.w = node.tensor("weight");
    gemm.bias = node.tensor("bias");
  } else if (is_op(node, "aten.addmm.default")) {
    auto alpha = as_number(node.arg("alpha")), beta = as_number(node.arg("beta"));
    if (!alpha || !beta) return std::nullopt;
    gemm = {node.tensor("mat1"), node.tensor("mat2"), true, node.tensor("self"), *alpha, *beta};
    if (*beta == 0) gemm.bias = kNoValue;  // aten: the bias is ignored then, NaN or not
  } else if (is_op(node, "aten.mm.default") || is_op(node, "aten.bmm.default")) {
    gemm = {node.tensor("self"), node.tensor("mat2"), true};
  } else if (is_op(node, "aten.matmul.default")) {
    gemm = {node.tensor("self"), node.tensor("other"), true};
    if (graph.value(gemm.w).shape.size() == 1) gemm.weight_kn = false;  // [K]: one row of a [1, K] weight
  } else {
    return std::nullopt;
  }
  const auto [w, weight_kn] = under_transposes(graph, gemm.w, gemm.weight_kn);
  gemm.w = w, gemm.weight_kn = weight_kn;
  return gemm;
}

}  // namespace qcg
