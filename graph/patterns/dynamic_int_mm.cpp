// dynamic_int_mm: da8w8 as torchao's Int8DynamicActivationInt8WeightConfig exports it for the CPU.
//
//   %q, %xs, _ = qcg.quantize_rows(%x, SYMMETRIC, …)      from choose_qparams_affine + quantize_affine
//   %u   = to(to(%q, i32) + 128, u8)                      x86 multiplies u8 by s8, so the export shifts …
//   %p   = aten._int_mm(%u, @wt)
//   %i   = %p - sum(@wt, [0], keepdim, i32) * 128         … and takes 128 * sum(w) off again
//   %f   = to(to(%i, f32) * %xs, bf16)
//   %y   = %f * @scale                                    scale [N]
//
// The shift is an implementation detail: it equals the symmetric s8 * s8 product. The plain form, _int_mm(%q, @wt) without
// shift, is the same pattern. %xs and @scale may come in either order.
//
// Whether the bf16 of %f is kept is decided where the linear is made.
#include "graph/passes/rewrite.h"
#include "graph/patterns/recognizer.h"

namespace qcg {

namespace {

Pattern int_mm_of(Pattern x) {
  return once(op({"aten._int_mm.default"}, {{"self", std::move(x)}, {"mat2", any("w")}}));
}

Pattern dynamic_int_mm_pattern() {
  Pattern shifted = once(sub(int_mm_of(maybe_cast(add(any("q"), number("shift")))),
                             mul(op({"aten.sum.dim_IntList"}, {{"self", any("w")}}, "sum"), number("taken_off"))));
  Pattern product = either(std::move(shifted), int_mm_of(any("q")));
  return mul(maybe_rows(once(mul(maybe_rows(std::move(product)), any("first")))), any("second"));
}

// Sum over K of a [K, N] weight, one number per column.
bool sums_over_k(const Graph& graph, const Node& product) {
  const Node* sub_node = nullptr;
  for (const Node& node : graph.nodes)
    if (is_op(node, "aten.sub.Tensor") && node.tensor("self") == product.outputs[0]) sub_node = &node;
  if (!sub_node) return false;
  const Node* factor = producer_if(graph, sub_node->tensor("other"), "aten.mul.Tensor");
  if (!factor) return false;
  for (const Arg& arg : factor->args) {
    const ValueId* id = arg.get<ValueId>();
    const Node* sum = id ? producer_if(graph, *id, "aten.sum.dim_IntList") : nullptr;
    const auto* dims = sum ? sum->arg("dim").get<std::vector<Dim>>() : nullptr;
    if (dims && dims->size() == 1 && as_axis(Arg((*dims)[0]), 2) == size_t{0}) return true;
  }
  return false;
}

// Of the two factors of `mul`, the one that is not `factor`.
DType dtype_of_other(const Graph& graph, const Node& mul, ValueId factor) {
  const ValueId self = mul.tensor("self");
  return graph.value(self == factor ? mul.tensor("other") : self).dtype;
}

Outcome build_dynamic_int_mm(Graph& graph, const Match& m) {
  const Node product = graph.nodes[m.gemm_node()];
  LinearSpec spec{.scheme = Scheme::da8w8};
  if (!take_quantized_rows(graph, m.value("q"), spec)) return Outcome::miss("the activation is not quantized per row");
  if (spec.x_zero != kNoValue) return Outcome::miss("the activation has zero points, but nothing compensates for them");
  const bool shifted = !(product.tensor("self") == m.value("q"));
  if (shifted && (m.number("shift") != 128 || m.number("taken_off") != 128 || !sums_over_k(graph, product)))
    return Outcome::miss("the shift of the activation is not the one that sum(w) over K takes off (128)");
  ValueId first = m.value("first"), second = m.value("second");
  if (under_rows(graph, first) != spec.x_scale) std::swap(first, second);
  else spec.product = dtype_of_other(graph, graph.nodes[m.nodes().back()], second);
  if (under_rows(graph, first) != spec.x_scale)
    return Outcome::miss("the product is not scaled by the activation's own scale");
  if (!is_parameter(graph, m.value("w")) || graph.value(m.value("w")).dtype != DType::i8)
    return Outcome::miss("the weight is not an int8 constant");
  spec.weight = weight_matrix(graph, m.value("w"), /*weight_kn=*/true);
  if (spec.weight == kNoValue) return Outcome::miss("the int8 weight is not one matrix");
  const int64_t n = graph.value(spec.weight).data.shape[0];
  const Shape& shape = graph.value(second).shape;
  if (!shape.empty() && shape.back().is_constant(n)) spec.scale = constant_as_shape(graph, second, {n, 1});
  if (spec.scale == kNoValue || !is_floating(graph.value(spec.scale).dtype))
    return Outcome::miss("the weight's scale is not a constant of N elements");
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kDynamicIntMm = {"dynamic int8 activation, _int_mm", dynamic_int_mm_pattern, build_dynamic_int_mm};

}  // namespace qcg
