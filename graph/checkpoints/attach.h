// attach_weight: a parameter of a graph becomes what computes it from codes, scales and zero points.
//
//   @gate_proj.weight bf16 [N, K]   ->   %gate_proj.weight = torchao.dequantize_affine(@gate_proj.qweight, …) : bf16
//
// Why here: this is how exporters write quantized linears, so recognition, the oracle and `explain` need to know nothing
// of checkpoints. Codes with real offsets are written by hand, as (codes * scale) + offset; four-bit floats as
// qcg.dequantize_4bit. Columns in another order are looked up in x, in front of each product. An activation that is
// rounded, too, is quantized and dequantized there.
//
//   QCG_CHECK(attach_weight(graph, id, weight, "model.safetensors"));
#pragma once

#include <string>

#include "graph/checkpoints/checkpoint.h"
#include "graph/ir/graph.h"

namespace qcg {

// Precondition: `id` is a parameter [N, K] of a floating dtype, of the weight's shape. Error Unsupported: columns in
// another order, or rounded activations, and the parameter is used by something else than a linear.
Status attach_weight(Graph& graph, ValueId id, const QuantizedWeight& weight, const std::string& where);

// The parameter becomes a cast of `tensor` to its own dtype. Precondition: of the same shape.
void attach_cast(Graph& graph, ValueId id, const Tensor& tensor);

}  // namespace qcg
