// settle_int4_order: weights of _weight_int4pack_mm_for_cpu get one byte order, whatever torch packed them in.
//
// Why here: torch packs for the CPU it runs on, and an archive does not say which that was. It is settled once, while a
// graph is read, so that recognition and the oracle know one order (AVX-512's) and people are told what was assumed.
//
//   settle_int4_order(graph, Int4Packing::automatic, info);   // info.warnings: "3 weights … were read as packed with AVX-512 …"
#pragma once

#include "graph/read/read_graph.h"

namespace qcg {

// Weights without bytes are left alone.
void settle_int4_order(Graph& graph, Int4Packing packing, ReadInfo& info);

}  // namespace qcg
