#include "runtime/program_cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "runtime/module.h"

namespace qcg {
namespace {

constexpr int64_t kMaxGridX = INT32_MAX;
constexpr int64_t kNoFault = INT64_MAX;
constexpr int64_t kRangeAlignment = 256;  // on the device, as cuMemAlloc aligns

int64_t align_range(int64_t bytes) { return (bytes + kRangeAlignment - 1) / kRangeAlignment * kRangeAlignment; }

// nullopt: more than a grid has, or an extent is negative.
std::optional<uint32_t> blocks_of(const ProgramManifest::Launch& launch, std::span<const int64_t> params) {
  int64_t n = 1;
  for (const auto& axis : launch.axes) {
    const int64_t extent = params[static_cast<size_t>(axis.param)];
    if (extent < 0 || __builtin_mul_overflow(n, extent / axis.piece + (extent % axis.piece != 0), &n)) return {};
  }
  const int64_t blocks = n / launch.rows + (n % launch.rows != 0);
  return blocks > kMaxGridX ? std::nullopt : std::optional(static_cast<uint32_t>(blocks));
}

}  // namespace

Result<std::shared_ptr<CudaImage>> CudaImage::load(std::shared_ptr<CudaDriver> driver, const std::byte* weights,
                                                   const std::vector<WeightRange>& ranges) {
  auto image = std::make_shared<CudaImage>();
  image->driver_ = std::move(driver);
  size_t total = 0;
  for (const WeightRange& range : ranges) total += static_cast<size_t>(align_range(range.bytes));
  QCG_TRY(buffer, image->driver_->allocate(total));
  image->weights_ = std::move(buffer);
  int64_t place = 0;
  for (const WeightRange& range : ranges) {
    image->places_[range.offset] = place;
    QCG_CHECK(image->driver_->copy_in_at(image->weights_at(range.offset), weights + range.offset,
                                         static_cast<size_t>(range.bytes)));
    place += align_range(range.bytes);
  }
  QCG_CHECK(image->driver_->synchronize(nullptr));  // for the streams that do not wait for the default stream
  return image;
}

Result<CudaKernel> CudaImage::kernel(const ProgramDirectory& directory, const ProgramManifest& manifest,
                                     const ProgramManifest::KernelChoice& choice) {
  if (choice.launch.shared_bytes > driver_->most_shared_bytes())
    return Error::unsupported(choice.symbol,
                              "needs " + std::to_string(choice.launch.shared_bytes) +
                                  " bytes of shared memory, of which a block of this device has " +
                                  std::to_string(driver_->most_shared_bytes()),
                              "compile the program on a machine with this device: tuning leaves such kernels out");
  const auto [at, is_new] = kernels_.try_emplace({choice.module, choice.symbol});
  if (is_new) {
    const ProgramManifest::File& file = manifest.files.at(choice.module);
    QCG_TRY(opened, directory.open_file(choice.module, file.bytes));
    QCG_TRY(cubin, read_module(opened, directory.path_of(choice.module), file.sha256));
    QCG_TRY(kernel, driver_->load_kernel(cubin, choice.symbol));
    at->second = std::move(kernel);
  }
  return at->second;
}

Result<std::shared_ptr<const CudaProgram>> CudaProgram::load(std::shared_ptr<CudaImage> image,
                                                             const ProgramDirectory& directory,
                                                             const ProgramManifest& manifest) {
  auto program = std::make_shared<CudaProgram>();
  for (const auto& step : manifest.steps) {
    auto& kernels = program->kernels_.emplace_back();
    for (const auto& choice : step.kernels) {
      QCG_TRY(kernel, image->kernel(directory, manifest, choice));
      kernels.push_back(std::move(kernel));
    }
  }
  program->image_ = std::move(image);
  return std::shared_ptr<const CudaProgram>(std::move(program));
}

std::byte* CudaImage::weights_at(int64_t offset) const {
  const auto after = places_.upper_bound(offset);
  if (after == places_.begin()) return nullptr;  // a program without weights
  const auto [begin, place] = *std::prev(after);
  return static_cast<std::byte*>(weights_.data()) + place + (offset - begin);
}

void CudaImage::give_up_graphs(const Error& reason) const {
  if (!records_graphs_.exchange(false)) return;
  std::fprintf(stderr, "qcodegen: warning: %s: no graph of launches: %s; the steps are launched one by one\n",
               reason.where.c_str(), reason.message.c_str());
}

CudaRun::CudaRun(std::shared_ptr<const CudaProgram> program, const ProgramManifest& manifest)
    : program_(std::move(program)),
      manifest_(manifest),
      inputs_(manifest.inputs.size()),
      outputs_(manifest.outputs.size()) {
  for (size_t s = 0; s < manifest.steps.size(); ++s)
    if (std::ranges::any_of(manifest.steps[s].args, &ProgramManifest::Arg::holds_positions)) refusing_.push_back(s);
}

Status CudaRun::use(void* stream, const CudaEvent& after) {
  stream_ = stream;
  if (queued_) QCG_CHECK(driver().order_after(queued_, stream));
  return after && after != queued_ ? driver().order_after(after, stream) : Status();
}

Status CudaRun::reserve(CudaBuffer& buffer, int64_t bytes) {
  if (buffer.data() != nullptr && static_cast<int64_t>(buffer.bytes()) >= bytes) return {};
  if (is_pending_) QCG_CHECK(driver().wait_for(queued_));  // a queued run may use the old block
  buffer = CudaBuffer();  // frees the old block first, so that both need not fit into memory
  QCG_TRY(larger, driver().allocate(static_cast<size_t>(bytes)));
  buffer = std::move(larger);
  return {};
}

Status CudaRun::copy_in(size_t input, const void* from, int64_t bytes) {
  QCG_CHECK(reserve(inputs_[input], bytes));
  return copy_to(inputs_[input], from, bytes);
}

Status CudaRun::copy_to(const CudaBuffer& to, const void* from, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  return stream_ == nullptr ? driver().copy_in(to, from, size) : driver().copy_in_on(stream_, to.data(), from, size);
}

Status CudaRun::copy_out(size_t output, void* to, int64_t bytes) {
  return driver().copy_out(to, outputs_[output], static_cast<size_t>(bytes));
}

std::byte* CudaRun::address(const ProgramManifest::Buffer& buffer, int64_t arena_offset) const {
  using Kind = ProgramManifest::BufferKind;
  auto at = [](const CudaBuffer& memory, int64_t offset) { return static_cast<std::byte*>(memory.data()) + offset; };
  switch (buffer.kind) {
    case Kind::input: return at(inputs_[static_cast<size_t>(buffer.index)], 0);
    case Kind::output: return at(outputs_[static_cast<size_t>(buffer.index)], 0);
    case Kind::weights: return program_->image_->weights_at(buffer.offset);
    case Kind::temp: return at(arena_, arena_offset);
    case Kind::state: break;
  }
  return nullptr;
}

Status CudaRun::copy_out_at(void* to, const void* address, int64_t bytes) const {
  return driver().copy_out_at(to, address, static_cast<size_t>(bytes));
}

Status CudaRun::clear_faults() {
  const std::vector<int64_t> none(refusing_.size(), kNoFault);
  const auto bytes = static_cast<int64_t>(none.size() * sizeof(int64_t));
  QCG_CHECK(reserve(faults_, bytes));
  Status cleared = copy_to(faults_, none.data(), bytes);
  if (!cleared.ok()) faults_ = CudaBuffer();  // else the next run would take what is there for a refusal
  return cleared;
}

Status CudaRun::add(size_t step, size_t choice, std::span<const qcg_arg> args, std::span<const int64_t> params) {
  const ProgramManifest::Launch& shape = manifest_.steps[step].kernels[choice].launch;
  const std::optional<uint32_t> blocks = blocks_of(shape, params);
  if (!blocks)
    return Error::bad_input(manifest_.steps[step].name, "needs more blocks than a grid has", "use smaller inputs");
  if (!refusing_.empty() && faults_.data() == nullptr) QCG_CHECK(clear_faults());
  const auto slot = std::ranges::lower_bound(refusing_, step) - refusing_.begin();
  const auto* const fault = static_cast<const int64_t*>(faults_.data()) + slot;
  const size_t before = added_.parameters.size();
  const auto append = [&](const void* from, size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(from);
    added_.parameters.insert(added_.parameters.end(), begin, begin + bytes);
  };
  append(args.data(), args.size_bytes());
  append(params.data(), params.size_bytes());
  append(&fault, sizeof fault);
  const CudaGrid grid{*blocks, static_cast<uint32_t>(shape.column_tiles), static_cast<uint32_t>(shape.threads),
                      static_cast<uint32_t>(shape.shared_bytes)};
  added_.calls.push_back({step, &program_->kernels_[step][choice], grid, added_.parameters.size() - before});
  return {};
}

Result<std::optional<CudaRun::Refusal>> CudaRun::start(CudaCalls* last) {
  Status done = launch_or_replay(last);
  begin();
  if (done.ok()) done = driver().synchronize(stream_);
  auto refusal = take_refusal();
  if (refusal.ok() && *refusal) return refusal;  // what failed after it may have failed because of it
  QCG_CHECK(done);
  return refusal;
}

Status CudaRun::queue(CudaCalls* last) {
  Status done = launch_or_replay(last);
  begin();
  return done;
}

Status CudaRun::mark_queued() {
  if (!queued_) {
    QCG_TRY(event, driver().create_event());
    queued_ = std::move(event);
  }
  is_pending_ = true;
  return driver().record_event(queued_, stream_);
}

Result<std::optional<CudaRun::Refusal>> CudaRun::wait() {
  if (!std::exchange(is_pending_, false)) return std::optional<Refusal>();
  stream_ = nullptr;  // the caller's may have ended
  QCG_CHECK(driver().wait_for(queued_));
  return take_refusal();
}

Result<std::optional<CudaRun::Refusal>> CudaRun::take_refusal() {
  if (refusing_.empty() || faults_.data() == nullptr) return std::optional<Refusal>();  // none has been launched
  std::vector<int64_t> faults(refusing_.size());
  QCG_CHECK(driver().copy_out(faults.data(), faults_, faults.size() * sizeof(int64_t)));
  const auto found = std::ranges::find_if(faults, [](int64_t f) { return f != kNoFault; });
  if (found == faults.end()) return std::optional<Refusal>();
  QCG_CHECK(clear_faults());
  QCG_CHECK(driver().synchronize(stream_));  // the next run may be on another stream
  return std::optional(Refusal{refusing_[static_cast<size_t>(found - faults.begin())], *found});
}

Status CudaRun::launch_all(const CudaCalls& calls, void* stream) {
  const std::byte* parameter = calls.parameters.data();
  for (const CudaCalls::Call& call : calls.calls) {
    if (Status status = driver().launch_on(stream, *call.kernel, call.grid, parameter, call.bytes); !status.ok()) {
      Error error = status.error();
      error.message = "step '" + manifest_.steps[call.step].name + "': " + error.message;
      return error;
    }
    parameter += call.bytes;
  }
  return {};
}

// Making a graph takes longer than launching what it has: the second run with the same calls makes it.
Status CudaRun::launch_or_replay(CudaCalls* last) {
  const CudaImage& image = *program_->image_;
  if (last == nullptr || !image.records_graphs()) return launch_all(added_, stream_);
  if (last->calls != added_.calls || last->parameters != added_.parameters) {
    last->graph = nullptr;
    std::swap(last->calls, added_.calls), std::swap(last->parameters, added_.parameters);
    return launch_all(*last, stream_);
  }
  if (!last->graph)
    if (const Status recorded = record(*last); !recorded.ok()) {  // nothing has run yet
      image.give_up_graphs(recorded.error());
      return launch_all(added_, stream_);
    }
  return driver().replay(last->graph, stream_);
}

Status CudaRun::record(CudaCalls& calls) {
  if (!recording_) {
    QCG_TRY(stream, driver().create_stream());
    recording_ = std::move(stream);
  }
  QCG_TRY(graph, driver().record(recording_, [&] { return launch_all(calls, recording_.get()); }));
  calls.graph = std::move(graph);
  return {};
}

}  // namespace qcg
