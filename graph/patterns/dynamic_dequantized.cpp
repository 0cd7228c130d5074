// dynamic_dequantized: both operands quantized and dequantized around a float linear, as torchao's
// Int8DynamicActivation… configurations export them.
//
//   %xq, %xs, %xz = qcg.quantize_rows(%x, …)         from choose_qparams_affine + quantize_affine, see quantize_rows.cpp
//   %xd     = torchao.dequantize_affine(%xq, block_size = [1, K], %xs, %xz, …)
//   %wd     = torchao.dequantize_affine(@w, block_size = [1, g], @scale, @zero, …)
//   %linear = aten.linear(%xd, %wd)
//
// With an int8 weight it is da8w8, with an int4 weight da8w4, with an e2m1 one (qcg.dequantize_4bit) da8f4; per channel
// or per group.
#include "graph/patterns/dequantized_weight.h"
#include "graph/rewrite/rewrite.h"

namespace qcg {

namespace {

Pattern dynamic_dequantized_pattern() {
  return gemm(maybe_rows(op({"torchao.dequantize_affine.default"}, {{"input", any("q")}}, "x_dequantized")), any("w"));
}

Outcome build_dynamic_dequantized(Graph& graph, const Match& m) {
  const Gemm gemm = *as_gemm(graph, graph.nodes[m.gemm_node()]);
  const Node x_dequantize = *producer_of(graph, m.value("x_dequantized"));
  LinearSpec spec;
  if (!is_row_block(graph, x_dequantize) || !take_quantized_rows(graph, m.value("q"), spec))
    return {};  // static_dequantized's
  const Node* quantize = producer_of(graph, spec.x);
  const ValueId zero = x_dequantize.tensor("zero_point");
  const bool same_zero = zero == kNoValue ? spec.x_zero == kNoValue : under_rows(graph, zero) == quantize->outputs[2];
  if (under_rows(graph, x_dequantize.tensor("scale")) != spec.x_scale || !same_zero)
    return Outcome::miss("the activation is dequantized with other parameters than it was quantized with");
  if (auto missing = take_integer_weight(graph, gemm.w, gemm.weight_kn, spec)) return Outcome::miss(*missing);
  if (auto missing = add_gemm_bias(graph, gemm, spec)) return Outcome::miss(*missing);
  return Outcome::match(std::move(spec));
}

}  // namespace

const Recognizer kDynamicDequantized = {"dynamic int8 activation, dequantized", dynamic_dequantized_pattern,
                                        build_dynamic_dequantized};

}  // namespace qcg
