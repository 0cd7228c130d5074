// Shape and dtype rules of the ops whose operands are codes with scales: scaled_product.h, four_bit.h.
#include "graph/ops/four_bit.h"
#include "graph/ops/infer.h"
#include "graph/ops/rows_products.h"
#include "graph/ops/rows_quantize.h"
#include "graph/ops/scaled_product.h"

namespace qcg {

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

}  // namespace qcg
