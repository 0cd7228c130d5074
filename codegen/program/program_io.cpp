#include "codegen/program/program_io.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/program/origin.h"
#include "graph/read/safetensors.h"

namespace qcg {

Result<LoadedProgram> load_program(const std::string& path, int threads, const std::string& target,
                                   bool verify_weights) {
  LoadOptions options;
  options.target = target;
  options.weights = WeightsMode::huge_pages;
  options.verify_weights = verify_weights;
  QCG_TRY(program, Program::load(path, options));
  QCG_TRY(context, Context::create(program, {.threads = threads}));
  return LoadedProgram{std::move(program), std::move(context)};
}

Result<ProgramManifest> read_manifest(const std::string& path) {
  QCG_TRY(directory, ProgramDirectory::open(path));
  QCG_TRY(text, directory.read_manifest());
  return parse_program_manifest(text);
}

Result<ProgramManifest> read_manifest_of(const std::string& path, const std::string& target) {
  QCG_TRY(program, read_manifest(path));
  return describe_target(std::move(program), path, target);
}

Result<ProgramManifest> describe_target(ProgramManifest program, const std::string& path, const std::string& target) {
  if (!target.empty() || program.other_targets.empty())
    return choose_target(std::move(program), path, target, [](const ProgramManifest&) { return Status(); });
  Host host;
  auto chosen = choose_target(program, path, "", [&](const ProgramManifest& one) { return host.can_run(one); });
  if (chosen.ok()) return chosen;
  program.other_targets.clear();
  return program;
}

Status choose_method(LoadedProgram& loaded, const std::string& method) {
  std::vector<std::string> names;
  for (const auto& one : Program::methods(loaded.program)) {
    names.push_back(one->manifest().method);
    if (names.back() != method) continue;
    if (method.empty()) return {};
    QCG_TRY(context, Context::create(one, {.pool = loaded.context->pool()}));
    loaded = {one, std::move(context)};
    return {};
  }
  if (names[0].empty()) names.clear();
  return require_method(names, method);
}

Result<ProgramIo> ProgramIo::from_file(const Program& program, const std::string& path) {
  QCG_TRY(file, read_safetensors(path));
  std::vector<Tensor> inputs;
  for (const auto& input : program.manifest().inputs) {
    const auto found = file.tensors.find(input.name);
    if (found == file.tensors.end())
      return Error::bad_input(input.name, fmt::format("{} has no tensor of this name", path),
                              "give the tensors the names of the inputs (`qcodegen inspect PROGRAM` shows them)");
    inputs.push_back(found->second.contiguous());
  }
  return from_tensors(program, std::move(inputs));
}

Result<ProgramIo> ProgramIo::from_tensors(const Program& program, std::vector<Tensor> inputs) {
  ProgramIo io;
  io.program_ = &program;
  io.inputs_ = std::move(inputs);
  for (const Tensor& input : io.inputs_)
    io.input_views_.push_back({const_cast<std::byte*>(input.bytes().data()), input.dtype, input.shape, {}});
  QCG_TRY(shapes, program.output_shapes(io.input_views_));
  io.output_shapes_ = std::move(shapes);
  for (size_t i = 0; i < io.output_shapes_.size(); ++i) {
    const DType dtype = program.manifest().outputs[i].dtype;
    const auto bytes = byte_count(io.output_shapes_[i], dtype);
    if (!bytes)
      return Error::bad_input(program.manifest().outputs[i].name, "this output is too large", "use fewer rows");
    io.output_bytes_.emplace_back(static_cast<size_t>(*bytes), std::byte{0xff});
    io.output_views_.push_back({io.output_bytes_.back().data(), dtype, io.output_shapes_[i], {}});
  }
  return io;
}

std::vector<Tensor> ProgramIo::output_tensors() const {
  std::vector<Tensor> out;
  for (size_t i = 0; i < output_bytes_.size(); ++i)
    out.push_back(Tensor::from_bytes(program_->manifest().outputs[i].dtype, output_shapes_[i], output_bytes_[i]));
  return out;
}

Status ProgramIo::write_outputs(const std::string& path) const {
  std::vector<std::pair<std::string, Tensor>> named;
  const std::vector<Tensor> tensors = output_tensors();
  for (size_t i = 0; i < tensors.size(); ++i) named.emplace_back(program_->manifest().outputs[i].name, tensors[i]);
  return write_safetensors(path, named);
}

nlohmann::json ProgramIo::describe_outputs() const {
  nlohmann::json out = nlohmann::json::array();
  for (size_t i = 0; i < output_shapes_.size(); ++i)
    out.push_back({{"name", program_->manifest().outputs[i].name},
                   {"dtype", dtype_name(program_->manifest().outputs[i].dtype)},
                   {"shape", output_shapes_[i]}});
  return out;
}

}  // namespace qcg
