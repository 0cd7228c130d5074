// move_quantization: per-tensor quantization through operations that do not look at the numbers.
//
// Why here: recognize_linear runs it between lift_decomposed_quantization and the patterns, so that an int8 tensor that
// is only reshaped or concatenated on its way to a linear arrives there as int8.
#pragma once

#include "graph/rewrite/pass.h"

namespace qcg {

// Counts what it moved in the report. Leaves the graph sorted.
Status move_quantization(Graph& graph, PassContext& context);

}  // namespace qcg
