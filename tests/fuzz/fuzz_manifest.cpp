// manifest.json of a program: what was accepted may be indexed without a check, in every method of every target.
#include "runtime/program_manifest.h"
#include "runtime/program_target.h"
#include "tests/fuzz/fuzz.h"

namespace {

void touch(const qcg::ProgramManifest& manifest) {
  const std::vector<int64_t> values(manifest.symbols.size(), 3);
  for (const auto& step : manifest.steps) {
    for (const auto& kernel : step.kernels)
      if (!manifest.files.contains(kernel.module)) std::abort();
    for (const auto& arg : step.args) {
      (void)manifest.buffers.at(static_cast<size_t>(arg.buffer));
      (void)arg.offset.evaluate(values);
    }
  }
  for (const auto& read : manifest.reads) {
    const auto& buffer = manifest.buffers.at(static_cast<size_t>(read.buffer));
    if (buffer.kind == qcg::ProgramManifest::BufferKind::weights) std::abort();
    (void)manifest.steps.at(static_cast<size_t>(read.step));
    (void)manifest.most_of(read, values);
  }
  int64_t end = 0;
  for (const auto& range : qcg::weights_read(manifest)) {
    if (range.offset < end || range.bytes < 0) std::abort();
    end = range.offset + range.bytes;
  }
  const auto weights = manifest.files.find("weights.bin");
  if (end > (weights == manifest.files.end() ? 0 : weights->second.bytes)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto manifest = qcg::parse_program_manifest(qcg::fuzz::text(data, size));
  if (!manifest.ok()) return 0;
  std::vector<qcg::ProgramManifest> targets = manifest->other_targets;
  targets.push_back(std::move(*manifest));
  for (const auto& target : targets) {
    touch(target);
    for (const auto& method : target.others) touch(method);
  }
  return 0;
}
