// Candidate: one way to build a problem, among several that compete.
//
// Why here: the batch, the tuner, the pins and the log need its names alone. What it decides is a schedule, a type of
// the kind of kernel and of the device: GemmSchedule (codegen/gemm/schedules.h), CudaSchedule (codegen/cuda/cuda.h).
//
//   for (const Candidate& c : device.candidates(problem, target, 1, 1))
//     fmt::print("{}: {}\n", c.kernel(), c.describe());     // "qgemm_bf16_w4_…", "avx512_fma 8x32 kc=512 panels=8"
//   const GemmSchedule& schedule = c.schedule<GemmSchedule>();
#pragma once

#include <any>
#include <string>
#include <string_view>
#include <utility>

namespace qcg {

// What describe() says of a vendor's kernel.
inline constexpr std::string_view kExternCandidate = "extern oneDNN";

class Candidate {
 public:
  // A vendor's kernel (codegen/vendor/extern_kernel.h), which has no schedule.
  Candidate() : description_(kExternCandidate) {}
  template <class S>
  Candidate(std::string kernel, std::string description, S schedule)
      : kernel_(std::move(kernel)), description_(std::move(description)), schedule_(std::move(schedule)) {}

  bool is_extern() const { return !schedule_.has_value(); }
  const std::string& kernel() const { return kernel_; }         // names its source; unique with describe()
  const std::string& describe() const { return description_; }  // the schedule in one line

  // Null where the schedule is of another type.
  template <class S>
  const S* schedule_if() const {
    return std::any_cast<S>(&schedule_);
  }
  // Precondition: it is of this type.
  template <class S>
  const S& schedule() const {
    return *std::any_cast<S>(&schedule_);
  }

 private:
  std::string kernel_, description_;
  std::any schedule_;
};

}  // namespace qcg
