// Shape and dtype rules of the ops whose operands are codes with scales: scaled_product.h, four_bit.h.
#include "graph/ops/four_bit.h"
#include "graph/ops/infer.h"
#include "graph/ops/scaled_product.h"

namespace qcg {
namespace {

Result<Types> infer_scaled_product(const OpArgs& a) {
  QCG_TRY(p, read_scaled_product(a.graph, a.node));
  Shape shape = p.lead;
  shape.push_back(p.n);
  return Types{{p.out, std::move(shape)}};
}

Result<Types> infer_dequantize_4bit(const OpArgs& a) {
  QCG_TRY(w, read_four_bit(a.graph, a.node));
  const DType dtype = a.dtype("dtype").value_or(DType::f32);
  if (!is_floating(dtype)) return a.fail("dtype", "expected a floating dtype");
  return Types{{dtype, {Dim(w.n), Dim(w.k)}}};
}

constexpr InferRow kRules[] = {
    {"aten._scaled_mm.default", infer_scaled_product},
    {"aten._scaled_mm_v2.default", infer_scaled_product},
    {"tensor_cast.static_quant_linear.default", infer_scaled_product},
    {"tensor_cast.static_quant_linear_int4.default", infer_scaled_product},
    {"tensor_cast.fp8_linear.default", infer_scaled_product},
    {"tensor_cast.mxfp4_linear.default", infer_scaled_product},
    {"qcg.dequantize_4bit", infer_dequantize_4bit},
};

}  // namespace

std::span<const InferRow> coded_rules() { return kRules; }

}  // namespace qcg
