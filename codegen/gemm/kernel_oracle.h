// KernelOracle: whether a kernel's outputs are right, from the problem's logical tensors alone.
//
// Why here: no candidate is timed before it matches, so this stands between building and timing. What is right is said
// by graph/oracle/reference.h (float64, integers exact); this file adds inputs, the points that are looked at, and the
// bound.
//
//   KernelOracle oracle(problem, tensors, {1, 3, 11}, seed);   // each m's inputs random, never zeros; some rows sparse
//   OracleReport r = oracle.run_and_check(pool, kernel, packed);
//   if (!r.ok) log(r.reason);                                  // "error 3.1 > 0.02 at output 0, m=3, n=1401"
//
// Bound, per element: |y - want| <= what the epilogue's value may be off by (graph/oracle/reference.h) when every acc
// is off by e, + half an ulp of the output dtype, with
//
//   floats:    e = 2^-24 * min(K + 2, 8 sqrt K + 8) * sum_k |x^ w^|   the sum in f32 as a random walk
//   integers:  e = 2^-24 * (groups + 4) * sum_k |x^ w^|               exact sums of groups, scaled and added in f32
//   s8s8:      e = 0
//
// and a term for what denormals lose. Sparse rows make e small, so that a single wrong weight is noticed. Problems
// above 4 Mi weights are looked at in every panel of 32 columns once and at both edges; smaller ones everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "codegen/check/expected.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/launch.h"
#include "graph/oracle/reference.h"
#include "runtime/kernel_runner.h"

namespace qcg {

// Random tensors for one call of a problem's kernel, and the call's argument list.
class KernelInputs {
 public:
  KernelInputs(const Problem& problem, int64_t m, uint64_t seed);

  int64_t m() const { return m_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // xs, x_scale, x_zero, operands: the kernel's order
  // Arguments without packed weights and outputs, and params.
  std::vector<qcg_arg> args() const;
  const std::vector<int64_t>& params() const { return params_; }

 private:
  void place_windows(const Problem& problem);
  int64_t m_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> params_;
  std::vector<std::vector<std::byte>> images_;  // windowed: where each x lies
};

// Output memory: each row followed by a gap, the whole framed; gaps and frame must survive, elements must be written.
class GuardedOutputs {
 public:
  GuardedOutputs(const Problem& problem, int64_t m);
  void append_args(std::vector<qcg_arg>& args);
  // The memory of each output, whose first element is `first` bytes behind its begin: for a device that has its own.
  struct Memory {
    std::span<std::byte> bytes;
    int64_t first, stride;
  };
  std::vector<Memory> memory();
  double value(size_t output, int64_t row, int64_t column) const;
  // Empty: every write went where it belongs. Otherwise what was written outside, or (floats of several bytes only) never
  // written.
  std::string find_stray_write() const;
  std::string find_unwritten() const;

 private:
  struct Block {
    DType dtype;
    int64_t n, stride;
    std::vector<std::byte> bytes;
  };
  int64_t m_;
  std::vector<Block> blocks_;
};

// One call of a problem's kernel; problem.h says what comes when. `vendor` may be null.
struct KernelCall {
  KernelCall(const KernelInputs& inputs, std::span<const std::byte> packed, GuardedOutputs& outputs,
             const VendorCall* vendor);
  qcg_call call() const { return {args.data(), params.data(), nullptr}; }

  std::vector<qcg_arg> args;
  std::vector<int64_t> params;
};

class KernelOracle {
 public:
  // All m at once: the weights, most of the work, are read and converted once.
  KernelOracle(const Problem& problem, const std::vector<SegmentTensors>& tensors, std::span<const int64_t> ms,
               uint64_t seed);

  // Runs the kernel at every m and checks it; stops at the first that is wrong.
  OracleReport run_and_check(ThreadPool& pool, const qcg_kernel& kernel, std::span<const std::byte> packed,
                             const VendorCall* vendor = nullptr) const;
  // The same of whatever `run` does with the inputs, on a device for example. Error of `run`: it becomes the reason.
  OracleReport run_and_check(const std::function<Status(const KernelInputs&, GuardedOutputs&)>& run) const;

 private:
  // One m: its inputs, the rows that are looked at, and where they begin among all rows of all m.
  struct Call {
    KernelInputs inputs;
    std::vector<int64_t> rows;
    size_t first_row = 0;
  };
  // The points of one output: row-major over (rows of all calls) x columns.
  struct Expected {
    std::vector<int64_t> columns;
    std::vector<double> want, bound;
  };
  std::vector<int64_t> choose_rows(int64_t m, std::mt19937_64& rng) const;
  std::vector<int64_t> choose_columns(const Output& output, std::mt19937_64& rng) const;
  LinearOperands gather_operands(const std::vector<SegmentTensors>& tensors) const;
  Status compute(const std::vector<SegmentTensors>& tensors);
  void add_expected(size_t output, const std::vector<LinearReference>& segments);
  OracleReport check(const Call& call, const GuardedOutputs& outputs) const;

  const Problem& problem_;
  std::vector<Call> calls_;
  std::vector<Expected> expected_;
  std::string failure_;  // of the reference itself: nothing can be right then
};

}  // namespace qcg
