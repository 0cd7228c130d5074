// ExternKernel: a vendor's matmul as one more candidate of a problem, for --extern=auto.
//
// Why here: it stands beside the microkernels' candidates (codegen/gemm/schedules.cpp) under the same rules: only what
// the oracle agrees with is taken, and the tuner times what the program runs. The kernel is the module
// libqcodegen_onednn.so itself: its bytes go into the program, oneDNN stays outside. It reads a plain copy of the
// weights, which lies beside the packed one.
//
//   ExternOffer offer = find_extern_kernel(problem, m);
//   if (!offer.kernel) return offer.why_not;                       // "oneDNN leaves out part of its epilogue"
//   offer.kernel->write_weights(problem, tensors, threads, weights);
//   built.push_back(offer.kernel->built(weights, isa));               // and tune: the candidate without a microkernel
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/build/build.h"
#include "codegen/vendor/onednn_task.h"
#include "codegen/vendor/vendor_matmul.h"
#include "runtime/memory.h"

namespace qcg {

inline constexpr char kExternSymbol[] = "qcg_onednn_kernel", kExternLibrary[] = "oneDNN";

struct ExternKernel {
  std::string name;  // as the reference's: "oneDNN 2.6.3 f32 matmul + bias + relu"
  VendorMatmul way;
  OneDnnTask task;
  std::string module;  // bytes of the adapter

  int64_t weights_bytes() const;
  // Plain weights, biases and scales of `tensors`, in the order of the problem's segments; `out` has weights_bytes().
  void write_weights(const Problem& problem, const std::vector<SegmentTensors>& tensors, int threads,
                     std::span<std::byte> out) const;
  // As the tuner takes it; `weights` were written by write_weights and must stay.
  BuiltKernel built(std::span<const std::byte> weights, Isa isa) const;
};

// How the whole problem would be asked for. Needs no library.
struct ExternWay {
  VendorMatmul way;
  OneDnnTask task;
};
// Best first. Empty: `why_not` says what of the problem oneDNN does not compute as it must be.
std::vector<ExternWay> extern_ways(const Problem& problem, std::string& why_not);

struct ExternOffer {
  std::optional<ExternKernel> kernel;
  std::string why_not;           // empty if there is one
  bool library_missing = false;  // why_not is about this machine, not about the problem
};
// The library is asked in a child process: this one may go on forking.
ExternOffer find_extern_kernel(const Problem& problem, int64_t m);

}  // namespace qcg
