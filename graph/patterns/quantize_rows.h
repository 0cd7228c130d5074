// quantize_rows: choose_qparams_affine + quantize_affine of the same activation become one qcg.quantize_rows.
//
// Why here: it is the activation half of every dynamically quantized spelling; recognize_linear runs it first, so that
// the patterns for linears see one op.
#pragma once

#include "graph/rewrite/pass.h"

namespace qcg {

// Counts "activation quantizations" and notes near misses in the report. Leaves the graph sorted.
Status lift_quantize_rows(Graph& graph, PassContext& context);

}  // namespace qcg
