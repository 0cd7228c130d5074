#include "codegen/program/export_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cache/store/sha256.h"
#include "graph/read/read_graph.h"
#include "graph/read/shared_memory.h"
#include "graph/read/weights.h"
#include "runtime/piece_digests.h"

namespace qcg {

// Strides are part of it: the same bytes in another order are another weight. So is what lies in the same memory.
Result<std::vector<ModelPart>> ExportModel::identify() {
  std::vector<ModelPart> parts = {{"graph", sha256_hex(json_)}};
  for (const auto& [name, place] : shared_places(weights_)) parts.push_back({"memory", name + " at " + place});
  for (const auto& [name, tensor] : weights_)
    parts.push_back(
        {"weights", sha256_hex(fmt::format("{} {} {} {} {}", name, describe(tensor), fmt::join(tensor.strides, ","),
                                           tensor.offset, fmt::join(piece_digests(tensor.storage->bytes), " ")))});
  return parts;
}

Result<Model> ExportModel::read() {
  Model out;
  QCG_TRY(graph, read_export(json_, weights_, int4_packing_, &out.read));
  out.graph = std::move(graph);
  return out;
}

Result<std::string> ExportModel::digest() const { return sha256_hex(json_); }

}  // namespace qcg
