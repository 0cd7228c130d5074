// KernelFamily: one kind of kernel (gemm, loop, reduce, …) as a row of functions. KernelProblem: a problem of any
// family.
//
// Why here: the planner, the batch, the tuner, the log and the report treat all kernels alike; what a kind of kernel is
// stands in its own folder. A new kind is a folder and a row of kernel_families() (codegen/families.h).
//
//   KernelProblem problem(kLoopFamily, LoopProblem{…});
//   problem.family().render(problem, isa, "qcg_kernel_3");
//   if (const Problem* gemm = problem.get_if<Problem>()) …      // for what only one family has
#pragma once

#include <any>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "codegen/kernel/launch.h"
#include "codegen/kernel/target.h"
#include "runtime/reach.h"

namespace qcg {

struct KernelFamily;
struct Expected;
class CallMemory;

// The numbers that one call of a kernel gets: params, and of each argument the elements from one row to the next.
struct CallSizes {
  std::vector<int64_t> params, strides;
  friend bool operator==(const CallSizes&, const CallSizes&) = default;
};

// One argument of a call that is tried: its random elements are uniform in [low, high].
struct ArgumentKind {
  DType dtype = DType::f32;
  double low = -2, high = 2;
  bool updated = false;  // an output of which the kernel writes a part: it holds random elements before
};

// By output, elements of it in row-major order over the axes of its reach.
using OutputPoints = std::vector<std::vector<int64_t>>;

class KernelProblem {
 public:
  template <class P>
  KernelProblem(const KernelFamily& family, P problem) : family_(&family), value_(std::move(problem)) {}

  const KernelFamily& family() const { return *family_; }
  // The family's own type of problem. get: precondition; get_if: null where it is another.
  template <class P>
  const P& get() const {
    return *std::any_cast<P>(&value_);
  }
  template <class P>
  const P* get_if() const {
    return std::any_cast<P>(&value_);
  }
  template <class P>
  P* get_if() {
    return std::any_cast<P>(&value_);
  }

 private:
  const KernelFamily* family_;
  std::any value_;
};

struct KernelFamily {
  std::string_view name;                           // in names of kernels and in the log
  std::string (*signature)(const KernelProblem&);  // identity of the mathematics: part of the cache key
  std::string (*formula)(const KernelProblem&);    // for people: "mul(silu(in0), in1)"
  std::string& (*comment)(KernelProblem&);         // provenance, at the head of the source
  // What the kernel touches through each of `args` arguments; those that it writes come last. `packed`: bytes of the
  // packed weights.
  std::vector<Reach> (*reaches)(const KernelProblem&, size_t args, int64_t packed);
  // Of families with one kernel per problem; null where candidates compete, which have a tuner of their own (tune.h).
  Result<std::string> (*render)(const KernelProblem&, Isa, std::string_view symbol);
  std::vector<ArgumentKind> (*arguments)(const KernelProblem&, size_t args);
  // What the points must be, from the inputs in memory; as many per output as there are points.
  Result<std::vector<std::vector<Expected>>> (*expect)(const KernelProblem&, const CallMemory&, const OutputPoints&);
  double (*operations)(const KernelProblem&, const CallSizes&);  // multiplications, additions and functions
  // Of families whose outputs are updated: the elements that a call writes. They are looked at, whatever else is.
  OutputPoints (*changes)(const KernelProblem&, const CallMemory&) = nullptr;
  // The grid of what `render` gives for an ISA of a device; null: it gives nothing for one. The kernel has one parameter:
  // the args, the params and the address of the fault (qcg_refuse).
  CudaLaunch (*launch)(const KernelProblem&, Isa) = nullptr;

  bool has_candidates() const { return render == nullptr; }
};

// Members of a family whose type of problem is P.
template <class P>
std::string signature_of(const KernelProblem& problem) {
  return problem.get<P>().signature();
}
template <class P>
std::string& comment_of(KernelProblem& problem) {
  return problem.get_if<P>()->comment;
}
template <class P, Result<std::string> (*Render)(const P&, Isa, std::string_view symbol)>
Result<std::string> render_of(const KernelProblem& problem, Isa isa, std::string_view symbol) {
  return Render(problem.get<P>(), isa, symbol);
}

// Launch takes a problem, and the ISA where it matters.
template <class P, auto Launch>
CudaLaunch launch_of(const KernelProblem& problem, Isa isa) {
  if constexpr (std::is_invocable_v<decltype(Launch), const P&, Isa>) return Launch(problem.get<P>(), isa);
  else return Launch(problem.get<P>());
}

// "loop|loop rank=2 …": unique among all families.
std::string problem_signature(const KernelProblem& problem);

}  // namespace qcg
