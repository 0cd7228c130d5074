// ExportModel: the model of a compile that torch.export made and nobody wrote to a file.
//
// Why here: the Python package has the JSON of an ExportedProgram and its tensors in memory, and compiles them in place.
//
//   ExportModel model(json, {{"q_proj.weight", weight}});     // by fully qualified names
//   QCG_TRY(report, compile_model(model, options));
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/program/model_source.h"

namespace qcg {

class ExportModel : public ModelSource {
 public:
  // The tensors must not change while the model is compiled.
  ExportModel(std::string json, std::map<std::string, Tensor> weights, Int4Packing int4_packing)
      : json_(std::move(json)), weights_(std::move(weights)), int4_packing_(int4_packing) {}

  Result<std::vector<ModelPart>> identify() override;  // reads every byte of the weights
  Result<Model> read() override;
  Result<std::string> digest() const override;

 private:
  std::string json_;
  std::map<std::string, Tensor> weights_;
  Int4Packing int4_packing_;
};

}  // namespace qcg
