// The judgement of GEMM kernels: every element against exact sums, nothing written beside, any cut of the work the
// same.
//
// Why here: tests/kernels/*_test.cpp state cases (gemm_case.h); this file says whether their kernels (gemm_call.h) are
// right.
//
//   build_cases(cases);                       // few compiler runs for all of them
//   for (Case& c : cases) check_case(c, 7);   // m = 7
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "gemm_call.h"

namespace qcg::test {

// One accumulator of segment s: its value, the sum of absolute products, and of the terms that dequantization adds.
struct Sum {
  double value = 0, magnitude = 0, terms = 0;
};
// What a weight less its zero point becomes where it is scaled before the product: rounded to f32, then to bf16.
inline double rounded_weight(const Case& c, const SegmentTensors& t, int64_t n, int64_t g, double w) {
  const Problem& p = c.problem;
  const auto read = [&](const Tensor& tensor) {
    return tensor.bound() ? element_to_double(p.scale, tensor.storage->bytes.data() +
                                                           size_t(n * p.groups() + g) * dtype_bytes(p.scale))
                          : 0;
  };
  return round_to_dtype(DType::bf16, std::fma(float(w), float(read(t.scales)), float(read(t.offsets))));
}

inline Sum exact_sum(const Case& c, const CallData& d, size_t s, int64_t row, int64_t n) {
  const Problem& p = c.problem;
  const SegmentTensors& t = c.tensors[s];
  const size_t wb = dtype_bytes(p.weight), xb = dtype_bytes(p.activation);
  const int64_t groups = p.groups(), group = p.group > 0 ? p.group : p.k;
  const WeightInfo& info = scheme_info(p.scheme).weight;
  const bool rounded = c.candidate.scaling == Scaling::rounded_weights;
  Sum sum;
  int64_t k = 0;
  // Where zero points are corrected once per column, what they add to a group is a term of its own.
  const bool apart = zeros_by_column(p);
  double group_sum = 0, group_magnitude = 0, x_sum = 0, zero_sum = 0;
  for (size_t i = 0; i < d.xs.size(); ++i)
    for (int64_t j = 0; j < p.k_segments[i]; ++j, ++k) {
      const std::byte* xp = d.xs[i].storage->bytes.data() + size_t(row * p.k_segments[i] + j) * xb;
      const std::byte* wp = t.weight.storage->bytes.data() + size_t(n * p.k + k) * wb;
      double x =
          is_floating(p.activation) ? element_to_double(p.activation, xp) : double(element_to_int(p.activation, xp));
      double w = is_floating(p.weight) ? element_to_double(p.weight, wp) : double(element_to_int(p.weight, wp));
      if (info.values) w = value_of(info, int(w));
      const int64_t g = k / group;
      if (t.zeros.bound())
        w -= double(element_to_int(DType::i32, t.zeros.storage->bytes.data() + size_t(n * groups + g) * 4));
      const double zero = d.x_zero.empty() ? 0 : double(d.x_zero[size_t(row)]);
      x -= zero;
      if (apart) zero_sum += zero * w;
      if (rounded) w = rounded_weight(c, t, n, g, w);
      group_sum += x * w, group_magnitude += std::abs(x * w), x_sum += x;
      if (k + 1 == p.k || (k + 1) % group == 0) {
        const size_t at = size_t(n * groups + g) * dtype_bytes(p.scale);
        const double scale =
            t.scales.bound() && !rounded ? element_to_double(p.scale, t.scales.storage->bytes.data() + at) : 1;
        const double offset =
            t.offsets.bound() && !rounded ? element_to_double(p.scale, t.offsets.storage->bytes.data() + at) : 0;
        sum.value += group_sum * scale + offset * x_sum,
            sum.magnitude += group_magnitude * std::abs(scale) + std::abs(offset * x_sum);
        sum.terms += std::abs((group_sum + zero_sum) * scale) + std::abs(zero_sum * scale);
        group_sum = group_magnitude = x_sum = zero_sum = 0;
      }
    }
  if (!d.x_scale.empty()) {
    const double x_scale = d.x_scale[size_t(row)];
    sum.value *= x_scale, sum.magnitude *= std::abs(x_scale), sum.terms *= std::abs(x_scale);
  }
  if (t.bias.bound()) {
    const double b = element_to_double(DType::f32, t.bias.storage->bytes.data() + size_t(n) * 4);
    sum.value += b, sum.magnitude += std::abs(b), sum.terms += std::abs(b);
  }
  return sum;
}

inline double ulp_of(DType d, double v) {
  if (!is_floating(d)) return 0;
  const int digits = d == DType::bf16 ? 8 : d == DType::f16 ? 11 : 24;
  const int exponent = v == 0 ? -126 : std::max(std::ilogb(v), d == DType::f16 ? -14 : -126);
  return std::ldexp(1.0, exponent - digits + 1);
}

// Every output element against the oracle. Returns the number of wrong ones and reports the first.
inline int count_wrong(const Case& c, CallData& d, int64_t m) {
  const Problem& p = c.problem;
  const bool exact = c.powers || (!is_floating(p.activation) && p.scheme == Scheme::s8s8);
  // Integer sums are exact; what is left are a few roundings of the dequantization, one of them per group.
  const double gamma = (is_floating(p.activation) ? double(p.k) + 8 : double(p.groups()) + 4) * 0x1p-24;
  int wrong = 0;
  for (size_t o = 0; o < p.outputs.size(); ++o) {
    const Output& output = p.outputs[o];
    const size_t bytes = dtype_bytes(output.dtype);
    for (int64_t row = 0; row < m; ++row)
      for (int64_t n = 0; n < output.n; ++n) {
        std::vector<double> accs(p.segments.size()), bounds(p.segments.size()), ins;
        for (int s : output.segments) {
          const Sum sum = exact_sum(c, d, size_t(s), row, n);
          accs[size_t(s)] = sum.value;
          bounds[size_t(s)] = is_floating(p.activation) ? gamma * sum.magnitude : gamma * sum.terms;
        }
        for (size_t i = 0; i < p.operands.size(); ++i) {
          const Tensor& t = d.operands[i];
          const int64_t at = (t.shape[0] == 1 ? 0 : row) * t.shape[1] + (t.shape[1] == 1 ? 0 : n);
          ins.push_back(element_to_double(t.dtype, t.storage->bytes.data() + size_t(at) * dtype_bytes(t.dtype)));
        }
        const double want = output.expr.evaluate(accs, ins);
        double bound = 0;
        for (unsigned corner = 0; corner < 1u << output.segments.size(); ++corner) {
          std::vector<double> moved = accs;
          for (size_t j = 0; j < output.segments.size(); ++j) {
            const auto s = size_t(output.segments[j]);
            moved[s] += (corner >> j & 1 ? 1 : -1) * bounds[s];
          }
          bound = std::max(bound, std::abs(output.expr.evaluate(moved, ins) - want));
        }
        // Roundings in it may go either way.
        bound += evaluate_with_tolerance(output.expr, accs, std::vector<double>(accs.size()), ins).tolerance;
        const bool plain = output.expr.kind == ExprKind::acc;
        const double denormal = (double(p.groups()) + 4) * 0x1p-149;  // below, f32 rounds in steps of one size
        bound = 1.5 * bound + denormal + ulp_of(output.dtype, want) + (plain ? 0 : 1e-6 * (1 + std::abs(want)));
        const std::byte* at =
            d.buffers[d.first_output + o].data() + size_t(row * d.strides[d.first_output + o] + n) * bytes;
        const double got = element_to_double(output.dtype, at);
        if (exact && plain) bound = 0;
        const double target = exact && plain && is_floating(output.dtype) ? round_to_dtype(output.dtype, want) : want;
        if (!(std::abs(got - target) <= bound) && wrong++ == 0)
          MESSAGE(fmt::format("{} m={} output {} [{}, {}]: got {} want {} bound {} (seed {})", c.what, m, o, row, n,
                              got, want, bound, c.seed));
      }
  }
  return wrong;
}

inline std::string output_bytes(const Case& c, CallData& d, int64_t m, int64_t only_row = -1) {
  std::string all;
  for (size_t o = 0; o < c.problem.outputs.size(); ++o) {
    const size_t bytes = dtype_bytes(c.problem.outputs[o].dtype), row_bytes = size_t(c.problem.outputs[o].n) * bytes;
    for (int64_t r = 0; r < m; ++r)
      if (only_row < 0 || r == only_row)
        all.append(reinterpret_cast<const char*>(d.buffers[d.first_output + o].data()) +
                       size_t(r * d.strides[d.first_output + o]) * bytes,
                   row_bytes);
  }
  return all;
}

inline bool gaps_untouched(const Case& c, CallData& d, int64_t m) {
  for (size_t o = 0; o < c.problem.outputs.size(); ++o) {
    const size_t bytes = dtype_bytes(c.problem.outputs[o].dtype);
    const int64_t n = c.problem.outputs[o].n, stride = d.strides[d.first_output + o];
    for (int64_t r = 0; r + 1 < m; ++r)
      for (size_t i = size_t(r * stride + n) * bytes; i < size_t((r + 1) * stride) * bytes; ++i)
        if (d.buffers[d.first_output + o].data()[i] != std::byte(0xff)) return false;
  }
  return true;
}

// The whole judgement for one m: oracle, untouched gaps, ranges cut in any way, NaN in every other row.
inline void check_case(Case& c, int64_t m) {
  INFO(c.what, " m=", m, " seed=", c.seed);
  CallData whole = make_call(c, m, true);
  run_kernel(c, whole, true, 1);
  CHECK(count_wrong(c, whole, m) == 0);
  CHECK(gaps_untouched(c, whole, m));
  CallData cut = make_call(c, m, false);
  run_kernel(c, cut, false, 1000);
  CHECK(output_bytes(c, whole, m) == output_bytes(c, cut, m));
  if (m > 1 && is_floating(c.problem.activation)) {
    const int64_t row = int64_t(c.seed % uint64_t(m));
    CallData tainted = make_call(c, m, true, row);
    run_kernel(c, tainted, true, 3);
    CHECK(output_bytes(c, whole, m, row) == output_bytes(c, tainted, m, row));
  }
}

}  // namespace qcg::test
