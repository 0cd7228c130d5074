// weight_only_int4pack: PyTorch's own int4 weight-only ops, whose zero point is a real number added after scaling.
//
//   %y = aten._weight_int4pack_mm_for_cpu(%x, @w, 32, @sz)    w u8 [N, K / 2] packed for torch's CPU kernels
//   %y = aten._weight_int4pack_mm(%x, @w, 32, @sz)            w i32 [N / 8, …] packed for CUDA's tensor cores
//
// value = (code - 8) * sz[g, n, 0] + sz[g, n, 1]. The weight is unpacked here, once; int4_packing.h has the byte
// orders.
#include "graph/ops/int4_packing.h"
#include "graph/patterns/recognizer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern int4pack_pattern() {
  return op(
      {"aten._weight_int4pack_mm_for_cpu.default", "aten._weight_int4pack_mm.default"},
      {{"self", any("x")}, {"mat2", any("w")}, {"qGroupSize", number("group")}, {"qScaleAndZeros", any("scales")}});
}

Outcome build_int4pack(Graph& graph, const Match& m) {
  const Node& node = graph.nodes[m.gemm_node()];
  const ValueId w = m.value("w"), scales = constant_of(graph, m.value("scales"));
  if (!is_parameter(graph, w) || scales == kNoValue)
    return Outcome::fail(
        Error::unsupported(node.where, node.op->name + ": the packed weight or its scales are computed at run time",
                           "make them parameters or buffers of the module"));
  if (!is_compute_float(graph.value(m.value("x")).dtype)) return Outcome::miss("the activation is not floating point");
  Int4Weight weight =
      read_int4pack(graph.value(w).data, static_cast<int64_t>(m.number("group")), graph.value(scales).data);
  LinearSpec spec{.x = m.value("x"), .scheme = Scheme::w4, .group = weight.group};
  spec.weight = add_constant(graph, w, std::move(weight.codes));
  spec.scale = add_parameter_view(graph, scales, std::move(weight.scales));
  spec.offset = add_parameter_view(graph, scales, std::move(weight.offsets));
  if (is_all_zero(graph, spec.offset)) spec.offset = kNoValue;
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kWeightOnlyInt4Pack = {"_weight_int4pack_mm", int4pack_pattern, build_int4pack};

}  // namespace qcg
