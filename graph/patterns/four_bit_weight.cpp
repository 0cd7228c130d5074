// four_bit_weight: qcg.dequantize_4bit(@packed, @scales, format, …), see four_bit.h.
//
// mxfp4 and nvfp4 become scheme f4 (twice the e2m1 number, scales halved and evaluated to f32), nf4 keeps its codes.
#include "graph/four_bit.h"
#include "graph/patterns/constant_numbers.h"
#include "graph/patterns/dequantized_weight.h"
#include "graph/passes/rewrite.h"

namespace qcg {

std::optional<std::string> take_four_bit_weight(Graph& graph, const Node& node, bool weight_kn, LinearSpec& spec) {
  auto read = read_four_bit(graph, node);
  if (!read.ok()) return read.error().message;
  const FourBitWeight w = *read;
  if (weight_kn) return "the 4-bit weight is not an [N, K] matrix";
  std::vector<ValueId> scales = {w.scales};
  if (w.global_scale != kNoValue) scales.push_back(w.global_scale);
  for (ValueId id : {w.packed, scales.front(), scales.back()})
    if (!is_parameter(graph, id)) return "the 4-bit weight or its scales are computed at run time";

  spec.scheme = w.scheme;
  spec.group = w.group >= w.k ? 0 : w.group;
  spec.weight = add_computed(graph, {w.packed}, "unpacked", DType::i8, {w.n, w.k}, [&] {
    return map_codes(unpack_nibbles(graph.value(w.packed).data.reshape({w.n, w.k / 2}), w.order),
                     weights_by_code(w.scheme));
  });
  const int64_t groups = count_blocks(w.k, spec.group);
  spec.scale = add_computed(graph, scales, "scales", DType::f32, {w.n, groups}, [&] {
    const ConstantNumbers numbers(graph, {w.scales, 1, w.group}, w.n, w.k, true);
    double factor = w.unit;
    if (w.global_scale != kNoValue) factor *= ConstantNumbers(graph, {w.global_scale}, 1, 1, false).at(0, 0);
    return make_matrix(w.n, groups, [&](int64_t n, int64_t g) { return factor * numbers.at(n, g * w.group); });
  });
  return std::nullopt;
}

}  // namespace qcg
