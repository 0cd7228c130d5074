#include "runtime/program_cuda.h"

#include <cstring>
#include <map>

#include "runtime/memory.h"

namespace qcg {
namespace {

constexpr int64_t kMaxModuleBytes = int64_t{256} << 20;
constexpr int64_t kMaxGridX = INT32_MAX;

Result<std::string> read_cubin(const std::string& path, const ProgramManifest::File& expected) {
  if (expected.bytes > kMaxModuleBytes)
    return Error::bad_input(path, "is larger than 256 MiB", "compile the program again");
  QCG_TRY(file, open_program_file(path, expected.bytes));
  QCG_TRY(cubin, read_program_file(file, path));
  if (digest_hex(std::as_bytes(std::span(cubin))) != expected.sha256)
    return Error::bad_input(path, "does not have the checksum in the manifest",
                            "the program is damaged or was changed: copy or compile it again");
  return cubin;
}

}  // namespace

Result<std::shared_ptr<const CudaProgram>> CudaProgram::load(std::shared_ptr<CudaDriver> driver,
                                                             const std::string& directory,
                                                             const ProgramManifest& manifest,
                                                             std::span<const std::byte> weights) {
  auto program = std::make_shared<CudaProgram>();
  program->driver_ = std::move(driver);
  std::map<std::pair<std::string, std::string>, CudaKernel> loaded;  // by module and symbol
  for (const auto& step : manifest.steps) {
    auto& kernels = program->kernels_.emplace_back();
    for (const auto& choice : step.kernels) {
      const auto [at, is_new] = loaded.try_emplace({choice.module, choice.symbol});
      if (is_new) {
        QCG_TRY(cubin, read_cubin(directory + "/" + choice.module, manifest.files.at(choice.module)));
        QCG_TRY(kernel, program->driver_->load_kernel(cubin, choice.symbol));
        at->second = std::move(kernel);
      }
      kernels.push_back(at->second);
    }
  }
  QCG_TRY(buffer, program->driver_->allocate(weights.size()));
  program->weights_ = std::move(buffer);
  QCG_CHECK(program->driver_->copy_in(program->weights_, weights.data(), weights.size()));
  return std::shared_ptr<const CudaProgram>(std::move(program));
}

CudaRun::CudaRun(std::shared_ptr<const CudaProgram> program, const ProgramManifest& manifest)
    : program_(std::move(program)),
      manifest_(manifest),
      inputs_(manifest.inputs.size()),
      outputs_(manifest.outputs.size()) {}

Status CudaRun::reserve(CudaBuffer& buffer, int64_t bytes) {
  if (buffer.data() != nullptr && static_cast<int64_t>(buffer.bytes()) >= bytes) return {};
  buffer = CudaBuffer();  // first, so that old and new need not fit together
  QCG_TRY(larger, program_->driver_->allocate(static_cast<size_t>(bytes)));
  buffer = std::move(larger);
  return {};
}

Status CudaRun::copy_in(size_t input, const void* from, int64_t bytes) {
  QCG_CHECK(reserve(inputs_[input], bytes));
  return program_->driver_->copy_in(inputs_[input], from, static_cast<size_t>(bytes));
}

Status CudaRun::copy_out(size_t output, void* to, int64_t bytes) {
  return program_->driver_->copy_out(to, outputs_[output], static_cast<size_t>(bytes));
}

std::byte* CudaRun::address(const ProgramManifest::Buffer& buffer, int64_t arena_offset) const {
  using Kind = ProgramManifest::BufferKind;
  auto at = [](const CudaBuffer& memory, int64_t offset) { return static_cast<std::byte*>(memory.data()) + offset; };
  switch (buffer.kind) {
    case Kind::input: return at(inputs_[static_cast<size_t>(buffer.index)], 0);
    case Kind::output: return at(outputs_[static_cast<size_t>(buffer.index)], 0);
    case Kind::weights: return at(program_->weights_, buffer.offset);
    case Kind::temp: return at(arena_, arena_offset);
  }
  return nullptr;
}

Status CudaRun::launch(size_t step, size_t choice, std::span<const qcg_arg> args, std::span<const int64_t> params) {
  const ProgramManifest::Launch& shape = manifest_.steps[step].kernels[choice].launch;
  const int64_t m = params[0], blocks = m / shape.rows + (m % shape.rows != 0);
  if (m < 0 || blocks > kMaxGridX)
    return Error::bad_input(manifest_.steps[step].name, "cannot launch " + std::to_string(m) + " rows",
                            "use smaller inputs");
  parameters_.resize(args.size_bytes() + params.size_bytes());
  std::memcpy(parameters_.data(), args.data(), args.size_bytes());
  std::memcpy(parameters_.data() + args.size_bytes(), params.data(), params.size_bytes());
  const CudaGrid grid{static_cast<uint32_t>(blocks), static_cast<uint32_t>(shape.column_tiles),
                      static_cast<uint32_t>(shape.threads), static_cast<uint32_t>(shape.shared_bytes)};
  return program_->driver_->launch(program_->kernels_[step][choice], grid, parameters_.data(), parameters_.size());
}

}  // namespace qcg
