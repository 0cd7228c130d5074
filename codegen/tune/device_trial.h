// DeviceTrial: kernels of a device called once, to be checked, or timed by replays of a graph of their launches.
//
// Why here: the tuner's processes run kernels on the CPU or on a device; a driver must be opened by the process that
// uses it, because it does not survive a fork. So whoever asks about the device does it in a process of its own, too.
//
//   const DeviceFacts facts = device_facts(Isa::sm_90a);      // facts.missing: why there is none
//   QCG_TRY(trial, DeviceTrial::open(Isa::sm_90a));           // in a trial's process
//   const OracleReport r = trial.check(built, oracle, packed);
//   QCG_TRY(clock, trial.clock(built, problem, inputs, copies));   const double seconds = clock();
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/build/build.h"
#include "codegen/check/call_memory.h"
#include "codegen/gemm/kernel_oracle.h"
#include "codegen/kernel/target.h"
#include "codegen/trial/ceilings.h"
#include "runtime/cuda.h"

namespace qcg {

struct DeviceFacts {
  std::string missing;  // why this machine cannot run kernels of the ISA; empty: it can
  std::string name;     // "NVIDIA H200"
  Ceilings ceilings;    // what it can do at best: copies measured, products by its clock
};
// Asked in a child of this process, once if there is one.
DeviceFacts device_facts(Isa isa);

// Why neither the CPU nor the device of this machine runs kernels of the target; empty: it does.
std::string why_not_here(const Target& target);
// Of a device, or of this machine's CPU.
Ceilings ceilings_of(const Target& target, int threads);

CudaGrid grid_of(const CudaLaunch& launch, std::span<const int64_t> params);
// The one parameter of a kernel: its arguments and what follows them.
std::vector<std::byte> parameter_of(const std::vector<qcg_arg>& args, std::span<const int64_t> numbers);

class DeviceTrial {
 public:
  static Result<DeviceTrial> open(Isa isa);

  // The kernel at every m of the oracle.
  OracleReport check(const BuiltKernel& built, const KernelOracle& oracle, std::span<const std::byte> packed);
  // A call of another kernel than a GEMM; what it wrote is in `call`. Error BadInput: it refused a position.
  Status run(const BuiltKernel& built, CallMemory& call);

  // Seconds of one launch, each time it is called: the mean of launches one after the other, through copies of what is
  // read. Errors of the driver when it is made; later ones are 0 seconds.
  Result<std::function<double()>> clock(const BuiltKernel& built, const Problem& problem, const KernelInputs& inputs,
                                        std::span<const std::span<const std::byte>> copies);
  // The same of another kernel, whose memory is at `layout`: `copies` places, filled with `benign` and positions.
  Result<std::function<double()>> clock(const BuiltKernel& built, const CallLayout& layout, int64_t copies,
                                        std::byte benign, uint64_t seed);
  // The same of whatever `launch` puts on the stream, and keeps alive; it has run before.
  Result<std::function<double()>> clock(std::function<Status()> launch);

  CudaDriver& driver() { return *driver_; }
  const CudaStream& stream() const { return stream_; }
  Result<CudaBuffer> upload(std::span<const std::byte> bytes);

 private:
  struct Timed;
  explicit DeviceTrial(std::shared_ptr<CudaDriver> driver, CudaStream stream)
      : driver_(std::move(driver)), stream_(std::move(stream)) {}
  Result<std::function<double()>> clock(std::shared_ptr<Timed> timed);

  std::shared_ptr<CudaDriver> driver_;
  CudaStream stream_;
  // Copies of weights on the device, for candidates that are timed on the same ones.
  std::vector<std::pair<const std::byte*, std::shared_ptr<CudaBuffer>>> uploaded_;
};

}  // namespace qcg
