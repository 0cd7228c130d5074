#include "codegen/program/file_model.h"

#include "cache/store/sha256.h"
#include "codegen/program/origin.h"
#include "graph/checkpoints/read_model.h"

namespace qcg {

namespace {

// Empty: names are as they are.
std::string naming_text(const WeightNaming& naming) {
  std::string out = naming.prefix.empty() ? "" : "prefix=" + naming.prefix;
  for (const auto& [from, to] : naming.renames) out += "\n" + from + "=" + to;
  return out;
}

}  // namespace

Result<std::vector<ModelPart>> FileModel::identify() {
  QCG_TRY(inputs, InputFiles::read(options_));
  std::vector<ModelPart> parts;
  for (const InputFile& file : inputs.files())
    if (file.role != "pin") parts.push_back({file.role, file.identity});  // the pin is an option's
  if (const std::string names = naming_text(options_.naming); !names.empty()) parts.push_back({"names", names});
  inputs_ = std::move(inputs);
  return parts;
}

Result<Model> FileModel::read() {
  Model out;
  QCG_TRY(graph, read_model(options_.input, read_options(options_), &out.read));
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
