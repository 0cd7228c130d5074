// int_mm: the exact integer product alone.
//
//   %y = aten._int_mm(%x, permute(@w))     x s8 [M, K], w s8 [N, K], y s32
#include "graph/patterns/recognizer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern int_mm_pattern() { return op({"aten._int_mm.default"}, {{"self", any("x")}, {"mat2", any("w")}}); }

Outcome build_int_mm(Graph& graph, const Match& m) {
  ValueId w = m.value("w");
  bool weight_kn = true;
  if (const Node* permute = producer_if(graph, w, "aten.permute.default")) {
    w = permute->tensor("self");
    weight_kn = false;
  }
  if (!is_parameter(graph, w)) return Outcome::miss("the right operand" + how_computed(graph, w));
  const DType x = graph.value(m.value("x")).dtype;
  if (graph.value(w).dtype != DType::i8 || (x != DType::i8 && x != DType::u8))
    return Outcome::miss("the exact integer product is s8 or u8 times s8");
  LinearSpec spec{.x = m.value("x"), .weight = weight_matrix(graph, w, weight_kn), .scheme = Scheme::s8s8};
  if (spec.weight == kNoValue) return Outcome::miss("the weight is not one matrix");
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kIntMm = {"_int_mm", int_mm_pattern, build_int_mm};

}  // namespace qcg
