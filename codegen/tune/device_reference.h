// A vendor's product beside kernels of a device: cuBLASLt, checked and timed as they are.
//
// Why here: it needs the trial's stream and memory, which vendors know nothing of.
//
//   const auto reference = DeviceReference::find(problem);     // what a problem stands beside, if there is a library
//   if (reference) clock = reference->clock(trial, problem, tensors, inputs, threads, cold_bytes);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/tune/device_trial.h"
#include "codegen/vendor/cublaslt.h"

namespace qcg {

class DeviceReference {
 public:
  // Empty: the library is not here, or multiplies nothing that could stand beside the problem.
  static std::optional<DeviceReference> find(const Problem& problem);
  std::string name() const;  // "cuBLASLt 13.1.0 bf16 (dense)"

  // Seconds of the fastest algorithm that the library offers, as DeviceTrial::clock gives them. Weights are copied
  // until they fill `cold_bytes`. Error Unsupported: the library has none for this m on this device. Error Internal:
  // its product is not ours.
  Result<std::function<double()>> clock(DeviceTrial& trial, const Problem& problem,
                                        const std::vector<SegmentTensors>& tensors, const KernelInputs& inputs,
                                        int threads, int64_t cold_bytes) const;

 private:
  std::shared_ptr<CublasLt> library_;
  VendorMatmul way_;
};

}  // namespace qcg
