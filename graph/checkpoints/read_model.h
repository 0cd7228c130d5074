// read_model: a graph with its weights, from files of any kind, checkpoints included.
//
// Why here: what compile, check and inspect call; read_graph (graph/read/) knows files of tensors only.
//
//   QCG_TRY(graph, read_model("llama.pt2", {.weights = {"Llama-3-8B-GPTQ"}}, &info));
#pragma once

#include "graph/read/read_graph.h"

namespace qcg {

Result<Graph> read_model(const std::string& path, const ReadOptions& options = {}, ReadInfo* info = nullptr);

}  // namespace qcg
