// choose_target: which target of a program is loaded. weights_read: which part of its weights that target reads.
//
// Why here: a program may hold several targets, the best first (docs/program_format.md). All but the loader see the one
// that was chosen.
//
//   Host host;
//   QCG_TRY(manifest, choose_target(std::move(parsed), "mlp.qcg", "", [&](const auto& one) { return host.can_run(one); }));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/cuda.h"
#include "runtime/program_manifest.h"

namespace qcg {

// What this machine can run. It opens the driver of CUDA or HIP for the first target that needs it.
class Host {
 public:
  // Error Unsupported says what the machine lacks.
  Status can_run(const ProgramManifest& target);
  // That of the target for a device that was asked about last; null before.
  const std::shared_ptr<CudaDriver>& driver() const { return driver_; }

 private:
  std::shared_ptr<CudaDriver> drivers_[2];  // by DeviceApi
  std::shared_ptr<CudaDriver> driver_;
};

// Ok, or error Unsupported.
using CanRun = std::function<Status(const ProgramManifest& target)>;

// The first target that can be run. `wish` is the name of a target ("cpu:avx2"), of a device ("cpu": the best of its
// targets), or empty. `path` is where the program lies. Error BadInput: the program has no such target. Error
// Unsupported: it cannot be run, or none can.
Result<ProgramManifest> choose_target(ProgramManifest program, const std::string& path, const std::string& wish,
                                      const CanRun& can_run);

// Names of all targets, "cuda:sm_80, cpu:avx2".
std::string list_targets(const ProgramManifest& program);

struct WeightRange {
  int64_t offset = 0, bytes = 0;  // in weights.bin
};
// What the steps of all methods and the initial states read, ascending and apart. Each begins with a page.
std::vector<WeightRange> weights_read(const ProgramManifest& target);

}  // namespace qcg
