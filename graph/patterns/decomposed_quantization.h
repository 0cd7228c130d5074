// decomposed_quantization: PyTorch 2 Export's quantized_decomposed.* ops, said in the words that everything else knows.
//
// Why here: recognize_linear runs it first, so that one set of patterns serves torchao's graphs and PT2E's.
#pragma once

#include "graph/rewrite/pass.h"

namespace qcg {

// Counts what it rewrote in the report. Leaves the graph sorted.
Status lift_decomposed_quantization(Graph& graph, PassContext& context);

}  // namespace qcg
