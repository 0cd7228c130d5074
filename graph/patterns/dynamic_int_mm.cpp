// dynamic_int_mm: da8w8 as torchao's Int8DynamicActivationInt8WeightConfig exports it for the CPU.
//
//   %q, %xs, _ = qcg.quantize_rows(%x, SYMMETRIC, …)      from choose_qparams_affine + quantize_affine
//   %u   = to(to(%q, i32) + 128, u8)                      x86 multiplies u8 by s8, so the export shifts …
//   %p   = aten._int_mm(%u, @wt)
//   %i   = %p - sum(@wt, [0], keepdim, i32) * 128         … and takes 128 * sum(w) off again
//   %f   = to(to(%i, f32) * %xs, bf16)
//   %y   = %f * @scale                                    scale [N]
//
// The shift is an implementation detail: it equals the symmetric s8 * s8 product. The plain form, _int_mm(%q, @wt)
// without shift, is the same pattern. %xs and @scale may come in either order.
//
// With zero points (act_mapping_type = ASYMMETRIC) what they add is taken off between the two scales:
//
//   %o = to((to(%xz, f32) * %xs) * to(sum(@w over K), f32), bf16)
//   %y = (%f - %o) * @scale
//
// Whether the bf16 of %f, %o and their difference is kept is decided where the linear is made.
//
// Whatever comes of %i otherwise (a static scale, as in Int8StaticActivationInt8WeightConfig), without the shift it is
// the exact integer product alone.
#include "graph/patterns/recognizer.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern int_mm_of(Pattern x) {
  return once(op({"aten._int_mm.default"}, {{"self", std::move(x)}, {"mat2", any("w")}}));
}

Pattern shifted_int_mm_pattern() {
  // i8 + 128 is a number of u8, so that the cast to it keeps what a cast to bytes need not.
  Pattern shifted = add(any("q"), number("shift"));
  Pattern stored = either(op({"aten.to.dtype"}, {{"self", maybe_cast(shifted)}}), shifted);
  return sub(int_mm_of(std::move(stored)),
             mul(op({"aten.sum.dim_IntList"}, {{"self", any("w")}}, "sum"), number("taken_off")));
}

// The exact product, shifted or not, times the scales of rows.
Pattern scaled_int_mm() {
  Pattern product = either(once(shifted_int_mm_pattern()), int_mm_of(any("q")));
  Pattern scaled = once(mul(maybe_rows(std::move(product)), any("first")));
  scaled.name = "scaled";
  return maybe_rows(std::move(scaled));
}

Pattern dynamic_int_mm_pattern() { return mul(scaled_int_mm(), any("second")); }

Pattern with_zero_points_pattern() {
  Pattern rows = mul(maybe_cast(any("zero")), any("zero_scale"));
  rows.name = "zero_rows";
  Pattern correction = maybe_cast(once(mul(std::move(rows), any("sums"))));
  Pattern difference = sub(scaled_int_mm(), std::move(correction));
  difference.name = "difference";
  return mul(maybe_rows(once(std::move(difference))), any("second"));
}

// The dtype of the factor of `mul` that is not `factor`.
DType dtype_of_other(const Graph& graph, const Node& mul, ValueId factor) {
  const ValueId self = mul.tensor("self");
  return graph.value(self == factor ? mul.tensor("other") : self).dtype;
}

// Whether the exact sum is rounded, or wraps, before it is scaled.
bool rounds_sum(const Graph& graph, const Match& m) {
  const Node& scaled = *producer_of(graph, m.value("scaled"));
  const ValueId self = scaled.tensor("self");
  ValueId sum = self == m.value("first") ? scaled.tensor("other") : self;
  for (const Node* node = producer_of(graph, sum); node && node->op->role != OpRole::matmul;
       node = producer_of(graph, sum)) {
    if (dtype_bytes(graph.value(sum).dtype) < sizeof(int32_t)) return true;
    if (!is_op(*node, "aten.to.dtype") && !is_row_view(graph, *node)) return false;
    sum = node->tensor("self");
  }
  return false;
}

// Is this the sum over K of the weight [N, K], exact, whatever it was cast to?
bool is_column_sum(Graph& graph, ValueId sums, ValueId weight) {
  const Node* node = producer_of(graph, sums);
  while (node && is_op(*node, "aten.to.dtype") && keeps_numbers(graph, *node))
    node = producer_of(graph, node->tensor("self"));
  if (!node || !is_op(*node, "aten.sum.dim_IntList")) return false;
  const ValueId summed = node->tensor("self");
  const DType dtype = graph.value(node->outputs[0]).dtype;
  const auto* dims = node->arg("dim").get<std::vector<Dim>>();
  if ((dtype != DType::i32 && dtype != DType::i64) || !is_parameter(graph, summed) || !dims || dims->size() != 1)
    return false;
  const auto axis = as_axis(Arg((*dims)[0]), graph.value(summed).shape.size());
  return axis && *axis < 2 && weight_matrix(graph, summed, /*weight_kn=*/*axis == 0) == weight;
}

// Everything but the scales, which come in one order here and in two there.
std::optional<std::string> take_int_mm(Graph& graph, const Match& m, LinearSpec& spec) {
  const Node product = graph.nodes[m.gemm_node()];
  if (!is_parameter(graph, m.value("w")) || graph.value(m.value("w")).dtype != DType::i8)
    return "the weight is not an int8 constant";
  spec.weight = weight_matrix(graph, m.value("w"), /*weight_kn=*/true);
  if (spec.weight == kNoValue) return "the int8 weight is not one matrix";
  if (product.tensor("self") == m.value("q")) return std::nullopt;
  if (m.number("shift") != 128 || m.number("taken_off") != 128 || !is_column_sum(graph, m.value("sum"), spec.weight))
    return "the shift of the activation is not the one that sum(w) over K compensates (128)";
  if (graph.value(product.tensor("self")).dtype != DType::u8) return "the shifted activation is not uint8";
  if (graph.value(under_rows(graph, m.value("q"))).dtype != DType::i8)
    return "the shifted activation comes from a tensor that is not int8";
  return std::nullopt;
}

// The scale that was chosen for the rows of x, and a multiplication by it that multiplies rows: [M] of a product [M, M]
// multiplies columns.
bool scales_rows(const Graph& graph, ValueId scale, const LinearSpec& spec, ValueId result) {
  return under_rows(graph, scale) == spec.x_scale && is_per_row(graph, scale, graph.value(result).shape);
}

std::optional<std::string> take_weight_scale(Graph& graph, ValueId scale, LinearSpec& spec) {
  const int64_t n = graph.value(spec.weight).data.shape[0];
  const Shape& shape = graph.value(scale).shape;
  if (product(shape).is_constant(1) || shape.back().is_constant(n)) spec.scale = channel_numbers(graph, scale, n);
  if (spec.scale == kNoValue || !is_floating(graph.value(spec.scale).dtype))
    return "the weight's scale is not a constant of one element or N";
  return std::nullopt;
}

Outcome build_dynamic_int_mm(Graph& graph, const Match& m) {
  LinearSpec spec{.scheme = Scheme::da8w8};
  if (!take_quantized_rows(graph, m.value("q"), spec)) return Outcome::miss("the activation is not quantized per row");
  if (spec.x_zero != kNoValue) return Outcome::miss("the activation has zero points, but nothing compensates for them");
  if (auto missing = take_int_mm(graph, m, spec)) return Outcome::miss(*missing);
  if (rounds_sum(graph, m)) return Outcome::miss("the integer product is rounded before it is scaled");
  const ValueId first = m.value("first"), second = m.value("second");
  const Node& root = graph.nodes[m.nodes().back()];
  const bool rows_first = scales_rows(graph, first, spec, m.value("scaled"));
  if (rows_first) spec.product = dtype_of_other(graph, root, second);
  else if (!scales_rows(graph, second, spec, root.outputs[0]))
    return Outcome::miss("the rows of the product are not scaled by the activation's own scale");
  if (auto missing = take_weight_scale(graph, rows_first ? second : first, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

Outcome build_with_zero_points(Graph& graph, const Match& m) {
  LinearSpec spec{.scheme = Scheme::da8w8};
  if (!take_quantized_rows(graph, m.value("q"), spec)) return Outcome::miss("the activation is not quantized per row");
  if (auto missing = take_int_mm(graph, m, spec)) return Outcome::miss(*missing);
  if (rounds_sum(graph, m)) return Outcome::miss("the integer product is rounded before it is scaled");
  ValueId zero = m.value("zero"), zero_scale = m.value("zero_scale");
  if (under_rows(graph, zero) == spec.x_scale) std::swap(zero, zero_scale);
  const Shape result = graph.value(m.value("difference")).shape;
  if (!scales_rows(graph, m.value("first"), spec, m.value("scaled")) || under_rows(graph, zero_scale) != spec.x_scale)
    return Outcome::miss("the rows of the product are not scaled by the activation's own scale");
  if (spec.x_zero == kNoValue || under_rows(graph, zero) != spec.x_zero ||
      !is_per_row(graph, m.value("zero_rows"), result) || !is_column_sum(graph, m.value("sums"), spec.weight) ||
      !is_per_column(graph, m.value("sums"), result))
    return Outcome::miss("the subtracted term is not the activation's zero point times sum(w) over K");
  if (auto missing = take_weight_scale(graph, m.value("second"), spec)) return Outcome::miss(*missing);
  const Node& difference = *producer_of(graph, m.value("difference"));
  spec.product = graph.value(difference.outputs[0]).dtype;
  if (graph.value(difference.tensor("self")).dtype != spec.product ||
      graph.value(difference.tensor("other")).dtype != spec.product)
    return Outcome::miss("the product and the subtracted term are rounded to different dtypes");
  spec.zero_rows = m.value("zero_rows");
  spec.zero_columns = m.value("sums");
  return Outcome::match(std::move(spec));
}

Outcome build_shifted_int_mm(Graph& graph, const Match& m) {
  LinearSpec spec{.scheme = Scheme::s8s8};
  if (auto missing = take_int_mm(graph, m, spec)) return Outcome::miss(*missing);
  for (spec.x = m.value("q"); graph.value(spec.x).dtype != DType::i8;) {
    const Node* cast = producer_if(graph, spec.x, "aten.to.dtype");
    if (!cast || !keeps_numbers(graph, *cast))
      return Outcome::miss("the shifted activation comes from a tensor that is not int8");
    spec.x = cast->tensor("self");
  }
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kDynamicIntMm = {"dynamic int8 activation, _int_mm", dynamic_int_mm_pattern, build_dynamic_int_mm};
const Recognizer kDynamicIntMmWithZeros = {"dynamic int8 activation with zero points, _int_mm",
                                           with_zero_points_pattern, build_with_zero_points};
const Recognizer kShiftedIntMm = {"_int_mm of a shifted activation", shifted_int_mm_pattern, build_shifted_int_mm};

}  // namespace qcg
