// KernelOracle: whether a kernel's outputs are right, from the problem's logical tensors alone.
//
// Why here: no candidate is timed before it matches, so this stands between building and timing. It computes in double
// (integers exactly) from unpacked weights and shares no packing, dequantization or rounding code with the kernels.
//
//   KernelOracle oracle(problem, tensors, m, seed);          // random inputs, never zeros; some rows sparse
//   OracleReport r = oracle.check(oracle.run(pool, kernel, packed));
//   if (!r.ok) log(r.reason);                                // "max error 3.1 > 0.02 at output 0, m=3, n=1401"
//
// Bound, per element: |y - want| <= change of the epilogue when every acc moves by e, + half an ulp of the output dtype,
// with e = 2^-24 * min(K, 8 sqrt K) * sum_k |x^ w^|  (float accumulation in f32; a random walk, far below the worst case)
// and e = 2^-22 * sum |x^ w^| where the sum over k is an exact integer. Sparse rows make e small, so that a single wrong
// weight is noticed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/problem.h"
#include "runtime/kernel_runner.h"

namespace qcg {

// Random tensors for one call of a problem's kernel, and the call's argument list.
class KernelInputs {
 public:
  KernelInputs(const Problem& problem, int64_t m, uint64_t seed);

  int64_t m() const { return m_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // xs, x_scale, x_zero, operands: the kernel's order
  // Arguments without packed weights and outputs.
  std::vector<qcg_arg> args() const;

 private:
  int64_t m_;
  std::vector<Tensor> tensors_;
};

// Output memory: each row followed by a gap, the whole framed; gaps and frame must survive, elements must be written.
class GuardedOutputs {
 public:
  GuardedOutputs(const Problem& problem, int64_t m);
  void append_args(std::vector<qcg_arg>& args);
  double value(size_t output, int64_t row, int64_t column) const;
  std::string find_stray_write() const;  // empty: none

 private:
  struct Block {
    DType dtype;
    int64_t n, stride;
    std::vector<std::byte> bytes;
  };
  int64_t m_;
  std::vector<Block> blocks_;
};

struct OracleReport {
  bool ok = true;
  double max_error = 0;  // the largest of error / bound, as an absolute error …
  double bound = 0;      // … and the bound there
  std::string reason;
};

class KernelOracle {
 public:
  KernelOracle(const Problem& problem, const std::vector<SegmentTensors>& tensors, int64_t m, uint64_t seed);

  const KernelInputs& inputs() const { return inputs_; }
  OracleReport check(const GuardedOutputs& outputs) const;
  // Runs the kernel on this oracle's inputs and checks it.
  OracleReport run_and_check(ThreadPool& pool, const qcg_kernel& kernel, std::span<const std::byte> packed) const;

 private:
  // The points of one output that are looked at, row-major over rows_ x columns.
  struct Expected {
    std::vector<int64_t> columns;
    std::vector<double> want, bound;
  };
  void choose_points(uint64_t seed);
  void compute(const std::vector<SegmentTensors>& tensors);
  void add_expected(Expected& out, size_t output, size_t row_index, int64_t column, std::vector<double>& accs,
                    const std::vector<double>& errors) const;
  double operand(size_t index, int64_t row, int64_t column) const;

  const Problem& problem_;
  KernelInputs inputs_;
  std::vector<int64_t> rows_;
  std::vector<Expected> expected_;
};

}  // namespace qcg
