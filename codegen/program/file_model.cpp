#include "codegen/program/file_model.h"

#include "cache/store/sha256.h"
#include "codegen/program/origin.h"
#include "graph/read/read_graph.h"

namespace qcg {

Result<std::vector<ModelPart>> FileModel::identify() {
  QCG_TRY(inputs, InputFiles::read(options_));
  std::vector<ModelPart> parts;
  for (const InputFile& file : inputs.files())
    if (file.role != "pin") parts.push_back({file.role, file.identity});  // the pin is an option's
  inputs_ = std::move(inputs);
  return parts;
}

Result<Model> FileModel::read() {
  Model out;
  QCG_TRY(graph,
          read_graph(options_.input, {.weights = options_.weights, .int4_packing = options_.int4_packing}, &out.read));
  out.graph = std::move(graph);
  return out;
}

Status FileModel::check_unchanged(const ReadInfo& read) const {
  if (inputs_) QCG_CHECK(inputs_->check_unchanged(read.files));
  return {};
}

std::string FileModel::place() const { return place_of_files(options_); }

Result<std::string> FileModel::digest() const { return sha256_file(options_.input); }

}  // namespace qcg
