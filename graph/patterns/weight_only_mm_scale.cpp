// weight_only_mm_scale: int8 weight-only as torchao's Int8WeightOnlyConfig exports it: the product first, then the
// scale.
//
//   %t   = permute(@w)                    i8 [K, N], a view of the i8 [N, K] weight
//   %to  = aten.to.dtype(%t, bf16)
//   %mm  = aten.mm(%x, %to)               %x reshaped to two axes and back around this
//   %mul = aten.mul.Tensor(%mm, %scale)   %scale: flatten(to(@s [N, 1], bf16))
//
// An e4m3 or e5m2 weight is scheme f8 in the same way, and one scale for all channels is N equal ones. s_n * sum x*w is
// the meaning, rounded once, at the end. The rounding of %mm to bf16 is kept where it decides a step, or where a wider
// result shows it.
#include "graph/patterns/recognizer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern mm_scale_pattern() { return mul(maybe_rows(once(gemm(any("x"), cast(parameter("w"))))), any("scale")); }

Outcome build_mm_scale(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  const auto scheme = stored_scheme(graph.value(m.value("w")).dtype);
  if (!scheme) return {};  // a dense weight in another dtype: dense_linear
  if (gemm.bias != kNoValue || gemm.alpha != 1) return Outcome::miss("a bias is added before the scale");
  LinearSpec spec{.x = gemm.x, .weight = weight_matrix(graph, m.value("w"), gemm.weight_kn), .scheme = *scheme};
  spec.product = graph.value(gemm.x).dtype;
  if (!is_compute_float(graph.value(gemm.x).dtype)) return Outcome::miss("the activation is not floating point");
  if (spec.weight == kNoValue) return Outcome::miss("the weight is not one matrix");
  const int64_t n = graph.value(spec.weight).data.shape[0];
  const Shape& shape = graph.value(m.value("scale")).shape;
  if (!product(shape).is_constant(1) && (shape.empty() || !shape.back().is_constant(n)))
    return Outcome::miss("the factor has shape " + to_string(shape) +
                         ", not one scale per output channel (N = " + std::to_string(n) + ")");
  spec.scale = channel_numbers(graph, m.value("scale"), n);
  if (spec.scale == kNoValue) return Outcome::miss("the scale of the weight is computed at run time");
  if (!is_floating(graph.value(spec.scale).dtype)) return Outcome::miss("the scale is not floating point");
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kWeightOnlyMmScale = {"int8 weight-only, mm then scale", mm_scale_pattern, build_mm_scale};

}  // namespace qcg
