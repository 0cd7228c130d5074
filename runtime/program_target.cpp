#include "runtime/program_target.h"

#include <algorithm>
#include <utility>

#include "runtime/host/host_isa.h"

namespace qcg {
namespace {

constexpr int64_t kPage = 4096;
constexpr const char* kCompileHere = "compile the program with --target=cpu on this machine";

// The targets of a program, the first of which has the others.
std::vector<ProgramManifest> targets_of(ProgramManifest program) {
  std::vector<ProgramManifest> out = std::exchange(program.other_targets, {});
  out.insert(out.begin(), std::move(program));
  return out;
}

bool is_wished(const std::string& target, const std::string& wish) {
  return wish.empty() || target == wish || target.starts_with(wish + ":");
}

}  // namespace

Status Host::can_run(const ProgramManifest& target) {
  if (target.target.starts_with("cpu:")) {
    const std::string missing = why_host_lacks(target.isa);
    return missing.empty() ? Status() : Error::unsupported("", "needs " + target.isa + ": " + missing, kCompileHere);
  }
  if (!target.on_device())
    return Error::unsupported("",
                              "was compiled for '" + target.target + "', this runtime runs cpu, cuda and hip programs",
                              "compile the program with --target=cpu");
  const std::string but = "was compiled for " + target.target + ", but ";
  const DeviceApi api = target.on_hip() ? DeviceApi::hip : DeviceApi::cuda;
  std::shared_ptr<CudaDriver>& own = drivers_[static_cast<size_t>(api)];
  if (!own) {
    auto driver = CudaDriver::load(api);
    if (!driver.ok()) {
      Error error = std::move(driver.error());
      error.message = but + error.message;
      return error;
    }
    own = std::move(*driver);
  }
  driver_ = own;
  const std::string missing = own->why_lacks(target.isa);
  return missing.empty() ? Status() : Error::unsupported("", but + missing, kCompileHere);
}

std::string list_targets(const ProgramManifest& program) {
  std::string out = program.target;
  for (const ProgramManifest& other : program.other_targets) out += ", " + other.target;
  return out;
}

Result<ProgramManifest> choose_target(ProgramManifest program, const std::string& path, const std::string& wish,
                                      const CanRun& can_run) {
  const std::string names = list_targets(program);
  std::vector<ProgramManifest> targets = targets_of(std::move(program));
  std::erase_if(targets, [&](const ProgramManifest& one) { return !is_wished(one.target, wish); });
  if (targets.empty())
    return Error::bad_input(path, "the program has no target '" + wish + "'", "it was compiled for " + names);
  std::string reasons;
  for (ProgramManifest& target : targets) {
    const Status possible = can_run(target);
    if (possible.ok()) return std::move(target);
    Error error = possible.error();
    error.where = path;
    if (error.code != ErrorCode::Unsupported || targets.size() == 1) return error;
    reasons += (reasons.empty() ? "" : "; ") + target.target + " " + error.message;
  }
  return Error::unsupported(path, "was compiled for no target that this machine can run: " + reasons, kCompileHere);
}

std::vector<WeightRange> weights_read(const ProgramManifest& target) {
  std::vector<WeightRange> found;
  const auto add_buffers = [&](const ProgramManifest& method) {
    for (const ProgramManifest::Buffer& buffer : method.buffers)
      if (buffer.kind == ProgramManifest::BufferKind::weights) found.push_back({buffer.offset, buffer.bytes});
  };
  add_buffers(target);
  for (const ProgramManifest& method : target.others) add_buffers(method);
  for (const ProgramManifest::State& state : target.states)
    if (state.initial) found.push_back({*state.initial, state.bytes});
  std::ranges::sort(found, {}, &WeightRange::offset);
  std::vector<WeightRange> out;
  for (const WeightRange& range : found) {
    const int64_t begin = range.offset / kPage * kPage, end = range.offset + range.bytes;
    if (out.empty() || begin > out.back().offset + out.back().bytes + kPage) out.push_back({begin, end - begin});
    else out.back().bytes = std::max(out.back().bytes, end - out.back().offset);
  }
  return out;
}

}  // namespace qcg
