#include "codegen/program/model_source.h"

#include "graph/read/weights.h"

namespace qcg {

Result<Model> GraphModel::read() {
  Model out{graph_, {}};
  const WeightNames names = weight_names(out.graph);
  for (const auto& [name, tensor] : weights_) {
    const auto found = names.find(name);
    if (found == names.end())
      return Error::bad_input(name, "the graph has no such weight", "name weights as the graph's parameters are named");
    Value& value = out.graph.value(found->second);
    if (tensor.dtype != value.dtype || tensor.shape != value.data.shape)
      return Error::bad_input(name,
                              "the tensor is " + describe(tensor) + ", the graph declares " + describe(value.data),
                              "give the weights that belong to this graph");
    value.data = tensor;
  }
  QCG_CHECK(accept_graph(out.graph));
  out.read.format = "memory";
  out.read.node_count = out.graph.nodes.size();
  return out;
}

}  // namespace qcg
