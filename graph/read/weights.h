// Weights for a graph that was read without them: from safetensors by name, or made up from a seed.
//
// Why here: graph.json carries no bytes. Made-up weights serve shape-only work (benchmarks, tuning) and must look like
// real ones: outputs of order one, no denormals, integers within the range their quantization op declares.
//
//   QCG_CHECK(bind_weights(graph, weight_names(graph), {"model.safetensors"}, files));
//   QCG_CHECK(bind_weights(graph, weight_names(graph), {"random:1"}, files));
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace qcg {

using WeightNames = std::map<std::string, ValueId, std::less<>>;

std::string describe(const Tensor& tensor);    // "i8[704, 256]"
WeightNames weight_names(const Graph& graph);  // every parameter by its value's name

// Later sources win where two hold the same name; random fills what no file gave. Every name must end up bound; those
// bound before stay as they are when no source has them. files receives the paths that were read.
Status bind_weights(Graph& graph, const WeightNames& names, const std::vector<std::string>& sources,
                    std::vector<std::string>& files);

// Every unbound parameter, deterministic in seed and the parameter's name, at memory speed on two threads.
Status bind_random_weights(Graph& graph, const WeightNames& names, uint64_t seed);

}  // namespace qcg
