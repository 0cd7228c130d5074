// FileModel: the model of a compile whose graph and weights lie in files.
//
// Why here: its key is the files' contents, its place their paths, and nobody may have written to them meanwhile.
//
//   FileModel model(options);       // options.input, options.weights
//   QCG_TRY(report, compile_model(model, options));
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/program/compile_options.h"
#include "codegen/program/input_files.h"
#include "codegen/program/model_source.h"

namespace qcg {

class FileModel : public ModelSource {
 public:
  explicit FileModel(CompileOptions options) : options_(std::move(options)) {}

  Result<std::vector<ModelPart>> identify() override;  // reads every byte
  Result<Model> read() override;
  Status check_unchanged(const ReadInfo& read) const override;
  std::string place() const override;
  Result<std::string> digest() const override;

 private:
  CompileOptions options_;
  std::optional<InputFiles> inputs_;
};

}  // namespace qcg
