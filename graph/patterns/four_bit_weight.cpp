// four_bit_weight: qcg.dequantize_4bit(@packed, @scales, format, …), see four_bit.h.
//
// mxfp4 and nvfp4 become scheme f4 (twice the e2m1 number, scales evaluated to f32), nf4 keeps its codes. The factor
// 1/2 goes into the scales of mxfp4, and into the global scale of nvfp4, which multiplies sums: so group scales of nvfp4
// remain e4m3 numbers, of one byte.
#include "graph/ops/four_bit.h"
#include "graph/patterns/constant_numbers.h"
#include "graph/patterns/dequantized_weight.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

std::optional<std::string> take_four_bit_weight(Graph& graph, const Node& node, bool weight_kn, LinearSpec& spec) {
  auto read = read_four_bit(graph, node);
  if (!read.ok()) return read.error().message;
  const FourBitWeight w = *read;
  if (weight_kn) return "the 4-bit weight is not an [N, K] matrix";
  for (ValueId id : {w.packed, w.scales, w.global_scale})
    if (id != kNoValue && !is_parameter(graph, id)) return "the 4-bit weight or its scales are computed at run time";

  spec.scheme = w.scheme;
  spec.group = w.group >= w.k ? 0 : w.group;
  spec.weight = add_computed(graph, {w.packed}, "unpacked", DType::i8, {w.n, w.k}, [&] {
    return map_codes(unpack_nibbles(graph.value(w.packed).data.reshape({w.n, w.k / 2}), w.order),
                     weights_by_code(w.scheme));
  });
  const int64_t groups = count_blocks(w.k, spec.group);
  const bool has_global = w.global_scale != kNoValue;
  spec.scale = add_computed(graph, {w.scales}, "scales", DType::f32, {w.n, groups}, [&] {
    const ConstantNumbers numbers(graph, {w.scales, 1, w.group}, w.n, w.k, true);
    const double unit = has_global ? 1 : w.unit;
    return make_matrix(w.n, groups, [&](int64_t n, int64_t g) { return unit * numbers.at(n, g * w.group); });
  });
  if (!has_global) return std::nullopt;
  const ValueId global = add_computed(graph, {w.global_scale}, "unit", DType::f32, {1}, [&] {
    const ConstantNumbers number(graph, {w.global_scale}, 1, 1, false);
    return make_matrix(1, 1, [&](int64_t, int64_t) { return w.unit * number.at(0, 0); }).reshape({1});
  });
  spec.epilogue = Expr::call("mul", {std::move(spec.epilogue), spec.add_operand(global)});
  return std::nullopt;
}

}  // namespace qcg
