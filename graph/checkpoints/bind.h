// bind_checkpoints: gives the weights of a checkpoint, quantized or not, to a graph that was exported dense.
//
// Why here: names, shapes and dtypes of graph and checkpoint meet here, and whatever does not fit is listed at once.
//
//   QCG_CHECK(bind_checkpoints(source, options));
//
// A tensor of the checkpoint is known by its name after the renames and without the prefix. Where no prefix is given and
// no name fits, the one prefix comes off, of the checkpoint's names or the graph's, with which most names fit.
#pragma once

#include "graph/read/read_graph.h"

namespace qcg {

// Later sources win where two hold one name; random fills what no file gave. Error BadInput: missing and mismatched
// weights, with what is left over; ambiguous names. Unsupported: what a scheme, or the graph's dtype, does not hold
// exactly.
Status bind_checkpoints(UnboundGraph& source, const ReadOptions& options);

}  // namespace qcg
