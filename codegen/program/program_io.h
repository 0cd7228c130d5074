// ProgramIo: a program's inputs read from safetensors, its outputs allocated, views of both.
//
// Why here: run, check, bench and the verification of a compile feed programs the same way.
//
//   auto io = ProgramIo::from_file(*program, "in.safetensors");
//   context->run(io->inputs(), io->outputs());
//   io->write_outputs("out.safetensors");
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/ir/tensor.h"
#include "runtime/program.h"

namespace qcg {

struct LoadedProgram {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Context> context;
};
// Weights on huge pages: a process that only runs this program wants the bandwidth, not the sharing.
// verify_weights: their checksum too, about 1 s per GB; the rest is always checked. `target`: LoadOptions::target.
Result<LoadedProgram> load_program(const std::string& path, int threads, const std::string& target = {},
                                   bool verify_weights = false);
// The manifest of all targets, the first of which has the others.
Result<ProgramManifest> read_manifest(const std::string& path);
// The manifest of one target, which need not run here. `target` is one of the program's; empty: the target that this
// machine loads, or the first.
Result<ProgramManifest> read_manifest_of(const std::string& path, const std::string& target);
// The same of a manifest that was read from `path`.
Result<ProgramManifest> describe_target(ProgramManifest program, const std::string& path, const std::string& target);

// Goes on with one method of a program, in a context of its own on the same threads. Error Usage: the program has
// methods and `method` is empty, or there is none of this name.
Status choose_method(LoadedProgram& loaded, const std::string& method);

class ProgramIo {
 public:
  // Error BadInput names the missing input, or the dtype or axis that does not fit. Inputs the program lacks are
  // ignored.
  static Result<ProgramIo> from_file(const Program& program, const std::string& path);
  // Tensors in input order. Outputs begin with all bits set, which a kernel that forgets an element leaves behind.
  static Result<ProgramIo> from_tensors(const Program& program, std::vector<Tensor> inputs);

  std::span<const TensorView> inputs() const { return input_views_; }
  std::span<const TensorView> outputs() const { return output_views_; }
  const std::vector<Tensor>& input_tensors() const { return inputs_; }
  std::vector<Tensor> output_tensors() const;  // copies
  Status write_outputs(const std::string& path) const;
  nlohmann::json describe_outputs() const;  // [{name, dtype, shape}]

 private:
  const Program* program_ = nullptr;
  std::vector<Tensor> inputs_;
  std::vector<TensorView> input_views_, output_views_;
  std::vector<std::vector<int64_t>> output_shapes_;
  std::vector<std::vector<std::byte>> output_bytes_;
};

}  // namespace qcg
