// weight_only_int8pack: PyTorch's own int8 weight-only op.
//
//   %y = aten._weight_int8pack_mm(%x, @w, @scales)     x [M, K], w i8 [N, K], scales [N]
#include "graph/patterns/recognizer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern int8pack_pattern() {
  return op({"aten._weight_int8pack_mm.default"}, {{"self", any("x")}, {"mat2", any("w")}, {"scales", any("scale")}});
}

Outcome build_int8pack(Graph& graph, const Match& m) {
  const ValueId w = m.value("w");
  if (!is_parameter(graph, w)) return Outcome::miss("the int8 weight" + how_computed(graph, w));
  if (graph.value(w).dtype != DType::i8 || graph.value(w).shape.size() != 2)
    return Outcome::miss("the weight is not an int8 matrix");
  if (!is_compute_float(graph.value(m.value("x")).dtype)) return Outcome::miss("the activation is not floating point");
  LinearSpec spec{.x = m.value("x"), .weight = w, .scheme = Scheme::w8};
  spec.scale = constant_as_shape(graph, m.value("scale"), {graph.value(w).data.shape[0], 1});
  if (spec.scale == kNoValue) return Outcome::miss("the scales are not a constant of N elements");
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kWeightOnlyInt8Pack = {"_weight_int8pack_mm", int8pack_pattern, build_int8pack};

}  // namespace qcg
