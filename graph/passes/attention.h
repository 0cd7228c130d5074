// attention: scaled dot product attention as two products and a softmax.
//
//   y = scaled_dot_product_attention(q, k, v, mask)
//   ->  s = q @ k^T * scale, -inf where mask is false or a later column than the row if it is causal, or plus the mask
//       e = exp(s - amax(s)),  y = (e @ v) / sum(e)
//
// Why here: decompose.cpp writes it; several nodes of torch mean it. Scores, softmax and sums are f32 whatever the
// dtype, as in torch's kernel. A row that is masked everywhere gives 0. Heads of the query that share one of key and
// value are a batch that reads it several times, whether the node says so (enable_gqa) or key and value are repeated in
// the graph (repeat_kv): nothing is repeated in memory.
#pragma once

#include "graph/rewrite/op_emitter.h"

namespace qcg {

bool is_attention(Op op);
// What a tensor of heads repeats, reshape(expand([…, heads, 1, rows, size], […, heads, group, rows, size])); kNoValue:
// it repeats nothing.
ValueId repeated_heads(const Graph& graph, ValueId id);
// The first output alone: logarithms of sums and weights have no kernel. A bad node leaves its error in the emitter.
ValueId write_attention(OpEmitter& e, Graph& graph, const Node& node);

}  // namespace qcg
