// ModelSource: where a compile gets its model from, and what it may remember of that place.
//
// Why here: the pipeline reads no file of a model. Files are one source (file_model.h), a graph in memory is another.
//
//   GraphModel model(std::move(graph));                 // its weights are bound
//   QCG_TRY(report, compile_model(model, options));
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/ir/graph.h"
#include "graph/ir/tensor.h"
#include "graph/read/read_graph.h"

namespace qcg {

struct Model {
  Graph graph;
  ReadInfo read;  // of a graph in memory: its format is "memory"
};

// An ingredient of a whole compile's key: "graph", and the digest of the graph's bytes.
struct ModelPart {
  std::string role, identity;
};

class ModelSource {
 public:
  virtual ~ModelSource() = default;

  // What the model is known by. Empty: by nothing, so that the whole compile is not kept in the cache.
  virtual Result<std::vector<ModelPart>> identify() { return std::vector<ModelPart>(); }
  // The model with its weights. Called once per compile, and not at all if the compile is known already.
  virtual Result<Model> read() = 0;
  // Error Io: what was read is no longer what identify() has seen.
  virtual Status check_unchanged(const ReadInfo&) const { return {}; }

  // Where `check` and `bench` find the model again: a JSON object that becomes a part of origin.json.
  virtual std::string place() const { return "{}"; }
  // The graph's SHA-256 in origin.json; empty: none.
  virtual Result<std::string> digest() const { return std::string(); }
};

// A graph in memory. Nothing is known of where it came from: whoever knows more derives from ModelSource.
class GraphModel : public ModelSource {
 public:
  // `weights`, by the names of the graph's parameters: of those that have no data yet, or other data.
  explicit GraphModel(Graph graph, std::map<std::string, Tensor> weights = {})
      : graph_(std::move(graph)), weights_(std::move(weights)) {}

  // Error BadInput: a weight that the graph does not declare, or declares otherwise. Error Internal: the graph is
  // broken.
  Result<Model> read() override;

 private:
  Graph graph_;
  std::map<std::string, Tensor> weights_;
};

}  // namespace qcg
