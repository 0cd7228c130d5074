// read_graph: any supported file to a verified graph with its weights.
//
// Why here: the first line of the compile pipeline, and of explain, check and --emit. It looks at the bytes, not at the
// file's name.
//
//   ReadInfo info;
//   QCG_TRY(graph, read_graph("llama_mlp.pt2", {}, &info));                        // info.format == "pt2"
//   QCG_TRY(graph, read_graph("graph.json", {.weights = {"model.safetensors"}}));
//   QCG_TRY(graph, read_graph("graph.json", {.weights = {"random:1"}}));
//
// Without weights, the parameters of a graph.json stay unbound (Tensor::bound() is false): enough for explain.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/read/weights.h"

namespace qcg {

// The byte order of weights that torch packed for its CPU: int4_order.h.
enum class Int4Packing : uint8_t { automatic, avx512, avx2 };
inline constexpr std::string_view kInt4Packings[] = {"auto", "avx512", "avx2"};  // as in --int4-packing
constexpr std::string_view int4_packing_name(Int4Packing p) { return kInt4Packings[static_cast<size_t>(p)]; }

// How names of a checkpoint become those of a graph: renames first, then the prefix comes off. Only read_model()
// (graph/checkpoints/) looks at it.
struct WeightNaming {
  std::string prefix;                                        // "model.layers.0.mlp."
  std::vector<std::pair<std::string, std::string>> renames;  // a part of a name, and what stands for it
};

struct ReadOptions {
  std::vector<std::string> weights;  // safetensors files, index files, folders, or "random:SEED"
  WeightNaming naming{};
  Int4Packing int4_packing = Int4Packing::automatic;
};

struct ReadInfo {
  std::string format;                          // "pt2", "torch.export", "native" or "text"
  std::string torch_version;                   // empty unless written by torch
  size_t node_count = 0;                       // as in the file
  uint64_t weight_bytes = 0;                   // of all parameters
  std::map<std::string, std::string> modules;  // by a node's name: the path of its module, as the exporter told
  std::vector<std::string> files;              // every file read: with the options, what the graph depends on
  std::vector<std::string> notes;              // what the file did not say and its numbers did
  std::vector<std::string> warnings;           // what neither said, and was assumed
};

// Error BadInput where the path is a folder: the remedy for one that holds a checkpoint is to export its graph.
Status refuse_folder(const std::string& path);

// What every graph must be before it is compiled, whoever made it: verified, nothing written in place, names of outputs
// unique. Errors: those of verify_graph and check_in_place; Unsupported for a signature of too many axes.
Status accept_graph(Graph& graph);

// A graph as it was read and accepted, with the names of its weights, of which some may have no data.
struct UnboundGraph {
  Graph graph;
  WeightNames weights;
  ReadInfo info;
};
Result<UnboundGraph> read_unbound_graph(const std::string& path, const ReadOptions& options);
// What follows when the weights are there.
Graph settle_graph(UnboundGraph source, const ReadOptions& options, ReadInfo* info);

Result<Graph> read_graph(const std::string& path, const ReadOptions& options = {}, ReadInfo* info = nullptr);

// The JSON of torch.export in memory, with all of its weights by their fully qualified names. Weights that the graph does
// not name are ignored. Error BadInput: a weight is missing, or is not what the graph declares.
Result<Graph> read_export(std::string_view json, const std::map<std::string, Tensor>& weights, Int4Packing int4_packing,
                          ReadInfo* info = nullptr);

}  // namespace qcg
