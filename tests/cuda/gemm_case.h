// CUDA GEMM cases: problems, data, the meaning in double, and the judgement of a result.
//
// Why here: the executor of PTX (no GPU) and the run on a device check the same cases.
//
//   for (const GemmCase& c : gemm_cases()) …  GemmData data(c, m, stride, poison); … data.check(read_y);
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "codegen/cuda/cuda.h"
#include "codegen/gemm/problem.h"

namespace qcg::test {

inline Expr parse_expr(std::string_view text) {
  auto e = Expr::parse(text);
  REQUIRE_MESSAGE(e.ok(), text);
  return *e;
}

inline std::vector<Problem> gemm_problems() {
  std::vector<Problem> problems;
  auto add = [&](DType dtype, int64_t k, std::vector<Segment> segments, std::vector<Operand> operands,
                 std::vector<Output> outputs) {
    Problem p;
    p.activation = p.weight = dtype;
    p.k = k;
    p.k_segments = {k};
    p.segments = std::move(segments);
    p.operands = std::move(operands);
    p.outputs = std::move(outputs);
    p.comment = "node\\\n#error";
    problems.push_back(std::move(p));
  };
  add(DType::bf16, 100, {{70, false, false, "plain"}}, {}, {{Expr::acc(0), DType::bf16, 70, {0}}});
  add(DType::f16, 37, {{33, false, true, "odd"}}, {{DType::f32, Broadcast::full}},
      {{parse_expr("add(gelu(acc0), in0)"), DType::f16, 33, {0}}});
  add(DType::bf16, 136, {{70, false, true, "gate"}, {70, false, false, "up"}, {1, false, true, "one"}},
      {{DType::bf16, Broadcast::row}, {DType::f16, Broadcast::column}, {DType::f32, Broadcast::scalar}},
      {{parse_expr("mul(silu(acc0), mul(acc1, in0))"), DType::bf16, 70, {0, 1}},
       {parse_expr("add(mul(acc2, in1), in2)"), DType::f32, 1, {2}}});
  return problems;
}

// Integers from -4 to 4: every order of summation is exact in f32, so that a sum is right to the bit or wrong.
enum class Values { real, integers };

// One call: x, operands, weights and outputs as host arrays of the problem's dtypes.
class GemmData {
 public:
  GemmData(const Problem& p, int64_t m, int64_t x_stride, bool poisoned, Values values = Values::real)
      : p_(p), m_(m), x_stride_(x_stride), poisoned_(poisoned), values_(values) {
    std::mt19937_64 random(17);
    auto uniform = [&](double low, double high) {
      if (values == Values::integers) return static_cast<double>(random() % 9) - 4;
      return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
    };
    x = Bytes(p.activation, m == 0 ? 0 : (m - 1) * x_stride + p.k);
    for (int64_t i = 0; i < x.count; ++i) x.set(i, std::nan(""));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t k = 0; k < p.k; ++k) x.set(i * x_stride + k, poisoned && i != m / 2 ? std::nan("") : uniform(-1, 1));
    for (const Segment& s : p.segments) {
      std::vector<std::byte> w(static_cast<size_t>(s.n * p.k) * 2), b(static_cast<size_t>(s.n) * 4);
      for (int64_t i = 0; i < s.n * p.k; ++i) double_to_element(p.weight, uniform(-1, 1), w.data() + i * 2);
      for (int64_t i = 0; i < s.n; ++i) double_to_element(DType::f32, uniform(-2, 2), b.data() + i * 4);
      SegmentTensors t;
      t.weight = Tensor::from_bytes(p.weight, {s.n, p.k}, std::move(w));
      if (s.has_bias) t.bias = Tensor::from_bytes(DType::f32, {s.n}, std::move(b));
      tensors.push_back(std::move(t));
    }
    packed.resize(static_cast<size_t>(packed_bytes_cuda(p, {})));
    const Status status = pack_weights_cuda(p, {}, tensors, packed);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string());
    for (const Operand& o : p.operands) {
      const int64_t n = p.outputs[0].n;
      operands.emplace_back(o.dtype, o.broadcast == Broadcast::full     ? m * n
                                     : o.broadcast == Broadcast::row    ? n
                                     : o.broadcast == Broadcast::column ? m
                                                                        : 1);
      for (int64_t i = 0; i < operands.back().count; ++i) operands.back().set(i, uniform(-2, 2));
    }
    for (const Output& o : p.outputs) outputs.emplace_back(o.dtype, m * o.n);
  }

  struct Bytes {
    DType dtype = DType::f32;
    int64_t count = 0;
    std::vector<std::byte> bytes;
    Bytes() = default;
    Bytes(DType d, int64_t n) : dtype(d), count(n), bytes(static_cast<size_t>(n) * dtype_bytes(d)) {}
    double get(int64_t i) const {
      return element_to_double(dtype, bytes.data() + i * static_cast<int64_t>(dtype_bytes(dtype)));
    }
    void set(int64_t i, double v) {
      double_to_element(dtype, v, bytes.data() + i * static_cast<int64_t>(dtype_bytes(dtype)));
    }
  };

  // Every element within c (K 2^-24 sum |x w| + ulp of the output), c = 4 through an epilogue; a sum of integers
  // exactly.
  void check() const {
    for (size_t o = 0; o < p_.outputs.size(); ++o)
      for (int64_t i = 0; i < m_; ++i)
        for (int64_t n = 0; n < p_.outputs[o].n; ++n)
          if (!poisoned_ || i == m_ / 2) check_element(o, i, n);
          else CHECK(std::isnan(outputs[o].get(i * p_.outputs[o].n + n)));
  }

  int64_t operand_stride(size_t i) const {
    return p_.operands[i].broadcast == Broadcast::full     ? p_.outputs[0].n
           : p_.operands[i].broadcast == Broadcast::column ? 1
                                                           : 0;
  }

  Bytes x;
  std::vector<SegmentTensors> tensors;
  std::vector<std::byte> packed;
  std::vector<Bytes> operands, outputs;

 private:
  void check_element(size_t o, int64_t i, int64_t n) const {
    std::vector<double> accs(p_.segments.size()), ins;
    double magnitude = 0;
    for (const int j : p_.outputs[o].segments) {
      const SegmentTensors& t = tensors[static_cast<size_t>(j)];
      double& acc = accs[static_cast<size_t>(j)];
      if (t.bias.bound()) acc = element_to_double(DType::f32, t.bias.bytes().data() + n * 4);
      for (int64_t k = 0; k < p_.k; ++k) {
        const double product =
            x.get(i * x_stride_ + k) * element_to_double(p_.weight, t.weight.bytes().data() + (n * p_.k + k) * 2);
        acc += product, magnitude += std::fabs(product);
      }
    }
    for (size_t a = 0; a < p_.operands.size(); ++a) {
      const Broadcast b = p_.operands[a].broadcast;
      const int64_t at = b == Broadcast::full     ? i * p_.outputs[0].n + n
                         : b == Broadcast::row    ? n
                         : b == Broadcast::column ? i
                                                  : 0;
      ins.push_back(at < operands[a].count ? operands[a].get(at) : 0);
    }
    const double want = p_.outputs[o].expr.evaluate(accs, ins), got = outputs[o].get(i * p_.outputs[o].n + n);
    const DType d = p_.outputs[o].dtype;
    const double unit = d == DType::bf16 ? 0x1p-8 : d == DType::f16 ? 0x1p-11 : 0x1p-23;
    const bool exact = values_ == Values::integers && p_.outputs[o].expr.kind == ExprKind::acc;
    if (exact) {
      std::byte rounded[8];
      double_to_element(d, want, rounded);
      if (got == element_to_double(d, rounded)) return;
      FAIL("output ", o, " [", i, ", ", n, "] is ", got, ", not exactly ", want);
    }
    const double bound =
        4 * (static_cast<double>(p_.k) * 0x1p-24 * magnitude * (1 + std::fabs(want)) + unit * std::fabs(want)) + 1e-6;
    if (!(std::fabs(got - want) <= bound)) FAIL("output ", o, " [", i, ", ", n, "] is ", got, ", not ", want);
  }

  const Problem& p_;
  int64_t m_, x_stride_;
  bool poisoned_;
  Values values_;
};

}  // namespace qcg::test
