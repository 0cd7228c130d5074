// dense_linear: a product with a weight that is just numbers.
//
//   %linear = aten.linear(%x, @fc.weight, @fc.bias)
//   %mm     = aten.mm(%x, permute(@w))            also matmul, bmm of one matrix, addmm(@b, %x, @w, beta, alpha)
#include "graph/patterns/recognizer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern dense_pattern() { return gemm(any("x"), any("w")); }

Outcome build_dense(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  if (is_parameter(graph, gemm.x))
    return Outcome::miss("the left operand is a weight; only x times weight is a linear");
  const ValueId weight = constant_of(graph, gemm.w);
  if (weight == kNoValue) return Outcome::miss("the right operand" + how_computed(graph, gemm.w));
  const DType x = graph.value(gemm.x).dtype, w = graph.value(weight).dtype;
  if (!is_compute_float(x) || x != w)
    return Outcome::miss("activation " + std::string(dtype_name(x)) + " times weight " + std::string(dtype_name(w)) +
                         " has no dense kernel (only f32, bf16 and f16 operands of one dtype have one)");
  LinearSpec spec{.x = gemm.x, .weight = weight_matrix(graph, weight, gemm.weight_kn)};
  if (spec.weight == kNoValue)
    return Outcome::miss("the weight has shape " + to_string(graph.value(weight).shape) + ": one matrix is needed");
  if (auto missing = add_gemm_bias(graph, gemm, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kDenseLinear = {"dense linear", dense_pattern, build_dense};

}  // namespace qcg
