// Reader of the JSON that torch.export serializes (models/<name>.json of a .pt2, or that file alone), schema major 8.
//
// Why here: the graph that users have. Its facts: arguments equal to the schema's default are left out; getitem is
// folded into the producer's outputs; sizes computed by sym_size and Python arithmetic are nodes of their own (here
// they become Dims); regions such as torch.no_grad() are sub-graphs (regions.cpp reads them in place); nodes may write
// in place (mutations.h). All unsupported operators are refused at once, by name.
//
//   QCG_TRY(doc, JsonDocument::parse(text, ""));
//   QCG_TRY(exported, read_torch_export(doc));
//   exported.weights["q_proj.weight"]     // the parameter's id; it is not bound to bytes yet
#pragma once

#include <map>
#include <string>

#include "graph/ir/graph.h"
#include "graph/read/files/json.h"

namespace qcg {

struct TorchExport {
  Graph graph;
  // By fully qualified name. A parameter's Value carries the same name, unless an input has it (then its
  // placeholder's).
  std::map<std::string, ValueId, std::less<>> weights;
  std::map<std::string, std::string>
      modules;  // by a node's name: the path of the module it belongs to, if that is known
  std::string torch_version;
  std::vector<std::string> notes;  // what the signature does not show of the model
  size_t node_count = 0;           // as in the file, before sym_size and the like became Dims
};

// By fully qualified name: constants of one integer, whose values sizes may follow from (padding.item()).
using KnownConstants = std::map<std::string, Tensor, std::less<>>;

Result<TorchExport> read_torch_export(const JsonDocument& document, KnownConstants constants = {});

}  // namespace qcg
