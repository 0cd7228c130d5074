#include "graph/checkpoints/read_model.h"

#include "graph/checkpoints/bind.h"

namespace qcg {

Result<Graph> read_model(const std::string& path, const ReadOptions& options, ReadInfo* info) {
  QCG_TRY(source, read_unbound_graph(path, options));
  if (!options.weights.empty()) QCG_CHECK(bind_checkpoints(source, options));
  return settle_graph(std::move(source), options, info);
}

}  // namespace qcg
