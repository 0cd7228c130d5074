// weight_only_scaled_weight: int8 or fp8 per channel dequantized by hand, in front of the product.
//
//   %to     = aten.to.dtype(@w, bf16)               i8 [N, K]
//   %wd     = aten.mul.Tensor(%to, @scale)          scale [N, 1]
//   %linear = aten.linear(%x, %wd)                  or mm with everything transposed
//
// torchao's Float8WeightOnlyConfig, with an e4m3 weight:
//
//   %mul    = aten.mul.Tensor(to(permute(@w), f32), permute(@scale))     scale f32 [N, 1]
//   %matmul = aten.matmul(%x, to(%mul, bf16))
//
// An int8 weight whose codes all lie in [-8, 7] is int4. The rounding of the dequantized weight is not kept (numerics:
// exact mode).
#include "graph/patterns/dequantized_weight.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern scaled_weight_pattern() { return gemm(any("x"), maybe_cast(mul(cast(parameter("w")), any("scale")))); }

Outcome build_scaled_weight(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  const ValueId w = m.value("w");
  const auto scheme = stored_scheme(graph.value(w).dtype);
  if (!scheme) return {};
  if (!is_compute_float(graph.value(gemm.x).dtype)) return Outcome::miss("the activation is not floating point");
  LinearSpec spec{.x = gemm.x, .weight = weight_matrix(graph, w, gemm.weight_kn), .scheme = *scheme};
  if (spec.weight == kNoValue || graph.value(w).shape.size() != 2) return Outcome::miss("the weight is not one matrix");
  const auto& nk = graph.value(spec.weight).data.shape;
  // Oriented like the weight: [N, 1] beside [N, K], or [1, N] and [N] beside [K, N].
  const Shape shape = graph.value(m.value("scale")).shape;
  const Shape column = {Dim(nk[0]), Dim(1)}, row = {Dim(1), Dim(nk[0])}, flat = {Dim(nk[0])};
  const bool per_channel = gemm.weight_kn ? shape == row || shape == flat : shape == column;
  if (!per_channel && !product(shape).is_constant(1)) return {};  // weight_only_arithmetic's
  spec.scale = channel_numbers(graph, m.value("scale"), nk[0]);
  if (spec.scale == kNoValue) return Outcome::miss("the weight's scale is computed at run time");
  if (!is_floating(graph.value(spec.scale).dtype)) return Outcome::miss("the weight's scale is not floating point");
  if (graph.value(w).dtype == DType::i8)
    if (const auto form = scan_codes(graph.value(w).data); form && form->scheme == Scheme::w4 && form->shift == 0)
      spec.scheme = form->scheme, spec.note = kScannedNote;
  if (auto missing = add_gemm_bias(graph, gemm, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kWeightOnlyScaledWeight = {"int8 weight times scale", scaled_weight_pattern, build_scaled_weight};

}  // namespace qcg
