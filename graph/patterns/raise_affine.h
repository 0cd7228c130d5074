// raise_affine: torchao's quantization that an exporter took apart (run_decompositions) becomes torchao's ops again.
//
// Why here: recognize_linear runs it first, so that decomposed graphs meet the same patterns as whole ones.
#pragma once

#include "graph/rewrite/pass.h"

namespace qcg {

// Counts what it rewrote in the report. Leaves the graph sorted.
Status raise_affine(Graph& graph, PassContext& context);

}  // namespace qcg
