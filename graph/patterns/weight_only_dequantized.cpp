// weight_only_dequantized: int8 per channel or int4 per group, dequantized in front of the product.
//
//   %dq     = torchao.dequantize_affine(@w, block_size = [1, 32], @scale, @zero, i8, -8, 7, output_dtype = bf16)
//   %linear = aten.linear(%x, %dq)
//
// block [1, K] is per channel, [1, g] per group; int4 arrives as int8 in [-8, 7] and the range says so. A zero point
// that is all zero is dropped. The rounding of %dq to bf16 is not kept (numerics: exact mode).
#include "graph/patterns/dequantized_weight.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern dequantized_pattern() { return gemm(any("x"), dequantized_weight()); }

Outcome build_dequantized(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  LinearSpec spec{.x = gemm.x};
  if (!is_compute_float(graph.value(gemm.x).dtype)) return Outcome::miss("the activation is not floating point");
  if (auto missing = take_weight(graph, m.value("w_dequantized"), gemm.weight_kn, spec)) return Outcome::miss(*missing);
  if (auto missing = add_gemm_bias(graph, gemm, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kWeightOnlyDequantized = {"dequantized weight", dequantized_pattern, build_dequantized};

}  // namespace qcg
