// weight_only_unscaled: an int8 or fp8 weight used as numbers, with no scale that could be found.
//
//   %mm = aten.mm(%x, aten.to.dtype(@w, bf16))     @w i8, e4m3 or e5m2
//
// It is weight-only with every scale 1: half the bytes of a dense weight, and whatever multiplies the result later is
// an epilogue.

#include "graph/patterns/recognizer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern unscaled_pattern() { return gemm(any("x"), cast(parameter("w"))); }

ValueId add_ones(Graph& graph, int64_t n) {
  std::vector<std::byte> bytes(static_cast<size_t>(n) * sizeof(float));
  for (int64_t i = 0; i < n; ++i) double_to_element(DType::f32, 1.0, bytes.data() + i * 4);
  return graph.add_parameter(graph.unique_name("ones"), Tensor::from_bytes(DType::f32, {n, 1}, std::move(bytes)));
}

Outcome build_unscaled(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  const auto scheme = stored_scheme(graph.value(m.value("w")).dtype);
  if (!scheme) return {};
  if (!is_compute_float(graph.value(gemm.x).dtype)) return {};
  LinearSpec spec{.x = gemm.x, .weight = weight_matrix(graph, m.value("w"), gemm.weight_kn), .scheme = *scheme};
  if (spec.weight == kNoValue) return Outcome::miss("the weight is not one matrix");
  spec.scale = add_ones(graph, graph.value(spec.weight).data.shape[0]);
  if (auto missing = add_gemm_bias(graph, gemm, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kWeightOnlyUnscaled = {"int8 weight-only, no scale", unscaled_pattern, build_unscaled};

}  // namespace qcg
