// CUDA GEMM cases: problems, data, their meaning by the oracle, and the judgement of a result.
//
// Why here: the executor of PTX (no GPU) and the run on a device check the same cases.
//
//   for (const Problem& p : gemm_problems()) …  GemmData data(p, {.m = 5}); … data.check();
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "codegen/cuda/cuda.h"
#include "codegen/gemm/problem.h"
#include "graph/oracle/reference.h"

namespace qcg::test {

inline Expr parse_expr(std::string_view text) {
  auto e = Expr::parse(text);
  REQUIRE_MESSAGE(e.ok(), text);
  return *e;
}

// One segment after another, each its own output.
inline Problem plain_problem(Scheme scheme, DType activation, DType weight, std::vector<int64_t> k_segments,
                             std::vector<Segment> segments, int64_t group = 0, DType scale = DType::f32) {
  Problem p;
  p.scheme = scheme, p.activation = activation, p.weight = weight, p.group = group, p.scale = scale;
  p.k_segments = std::move(k_segments);
  for (const int64_t width : p.k_segments) p.k += width;
  p.segments = std::move(segments);
  const DType out = is_floating(activation) ? activation : scheme == Scheme::s8s8 ? DType::i32 : DType::f32;
  for (size_t j = 0; j < p.segments.size(); ++j)
    p.outputs.push_back({Expr::acc(static_cast<int>(j)), out, p.segments[j].n, {static_cast<int>(j)}});
  p.comment = "node\\\n#error";
  return p;
}

inline Problem with_x_zero(Problem p) {
  p.x_has_zero = true;
  return p;
}

inline Problem with_outputs(Problem p, std::vector<Operand> operands, std::vector<Output> outputs) {
  p.operands = std::move(operands), p.outputs = std::move(outputs);
  return p;
}

// Odd N, K, groups and tails; merged siblings of unequal width, concatenated x, zero points, offsets, biases, operands.
inline std::vector<Problem> gemm_problems() {
  using enum DType;
  const std::vector<Operand> operands = {
      {bf16, Broadcast::row}, {f16, Broadcast::column}, {f32, Broadcast::scalar}, {bf16, Broadcast::full}};
  const std::vector<Output> gate_up = {{parse_expr("mul(max(acc0, in3), mul(acc1, in0))"), bf16, 70, {0, 1}},
                                       {parse_expr("add(mul(acc2, in1), in2)"), f32, 1, {2}}};
  return {
      with_outputs(plain_problem(Scheme::dense, bf16, bf16, {136},
                                 {{70, false, false, "gate"}, {70, false, true, "up"}, {1, false, true, "one"}}),
                   operands, gate_up),
      plain_problem(Scheme::dense, f16, f16, {37}, {{33, false, true, "odd"}}),
      plain_problem(Scheme::dense, bf16, bf16, {64, 40}, {{40, false, false, "cat"}}),
      plain_problem(Scheme::w8, bf16, i8, {100}, {{20, true, true, "zero"}, {35, false, false, "none"}}),
      plain_problem(Scheme::w8, f16, i8, {136}, {{33, false, false, "grouped"}}, 32),
      with_outputs(
          plain_problem(Scheme::w4, bf16, i8, {200},
                        {{70, true, true, "gate"}, {70, false, false, "up"}, {1, false, false, "one"}}, 32, bf16),
          operands, gate_up),
      plain_problem(Scheme::w4, f16, i8, {64, 33, 31}, {{30, true, false, "odd groups"}}, 24),
      plain_problem(Scheme::w4, bf16, i8, {264}, {{40, false, false, "real zeros", true}}, 128, bf16),
      plain_problem(Scheme::w8, bf16, i8, {264}, {{40, false, false, "real zeros", true}}, 32),
      plain_problem(Scheme::w4, bf16, i8, {192}, {{20, false, false, "half a turn"}}, 64),
      plain_problem(Scheme::f8, bf16, f8e4m3, {72}, {{20, false, true, "e4m3"}}),
      plain_problem(Scheme::f8, f16, f8e4m3, {72}, {{20, false, false, "e4m3"}}),
      plain_problem(Scheme::f8, bf16, f8e5m2, {72}, {{20, false, false, "e5m2"}}),
      plain_problem(Scheme::f4, bf16, i8, {96}, {{24, false, false, "mxfp4"}}, 32, f8e8m0),
      plain_problem(Scheme::f4, f16, i8, {96}, {{24, false, false, "nvfp4"}}, 16, f8e4m3),
      plain_problem(Scheme::nf4, bf16, i8, {200}, {{70, false, true, "nf4"}, {1, false, false, "one"}}, 64, bf16),
      plain_problem(Scheme::nf4, f16, i8, {100}, {{20, false, false, "odd groups"}}, 20),
      with_x_zero(plain_problem(Scheme::da8w8, i8, i8, {100}, {{20, true, true, "zero"}, {35, false, false, "none"}})),
      plain_problem(Scheme::da8w8, u8, i8, {128, 40}, {{40, true, false, "unsigned"}}, 40),
      with_x_zero(plain_problem(Scheme::da8w8, u8, i8, {144}, {{33, false, false, "grouped"}}, 32)),
      with_outputs(with_x_zero(plain_problem(
                       Scheme::da8w4, i8, i8, {208},
                       {{70, true, true, "gate"}, {70, false, false, "up"}, {1, false, false, "one"}}, 32, bf16)),
                   operands, gate_up),
      with_x_zero(plain_problem(Scheme::da8w4, i8, i8, {272}, {{40, true, false, "long groups"}}, 256)),
      with_x_zero(plain_problem(Scheme::da8w4, i8, i8, {200}, {{40, false, true, "by column"}}, 64, bf16)),
      plain_problem(Scheme::da8w4, u8, i8, {96}, {{20, true, false, "per channel"}}),
      with_x_zero(plain_problem(Scheme::da8f4, i8, i8, {160}, {{70, false, true, "mxfp4"}}, 32, f8e8m0)),
      plain_problem(Scheme::da8f4, u8, i8, {200}, {{20, false, false, "odd groups"}}, 20),
      with_outputs(plain_problem(Scheme::w8, bf16, i8, {72},
                                 {{33, false, true, "u8"}, {33, false, false, "i8"}, {33, false, false, "e4m3"}}),
                   {{u8, Broadcast::full}, {i64, Broadcast::row}, {boolean, Broadcast::column}},
                   {{parse_expr("clamp(add(round_even(acc0), in0), 0, 255)"), u8, 33, {0}},
                    {parse_expr("clamp(round_even(mul(acc1, in2)), -128, 127)"), i8, 33, {1}},
                    {parse_expr("add(mul(acc2, 0.0625), in1)"), f8e4m3, 33, {2}}}),
      with_outputs(plain_problem(Scheme::da8w8, i8, i8, {70}, {{24, true, false, "i32"}, {20, false, false, "i64"}}),
                   {}, {{parse_expr("round_even(acc0)"), i32, 24, {0}}, {parse_expr("floor(acc1)"), i64, 20, {1}}}),
      plain_problem(Scheme::s8s8, i8, i8, {136}, {{33, false, false, "exact"}}),
      with_outputs(plain_problem(Scheme::s8s8, u8, i8, {70}, {{24, false, true, "scaled later"}}),
                   {{f32, Broadcast::row}}, {{parse_expr("mul(acc0, in0)"), bf16, 24, {0}}}),
  };
}

// Both operands 8-bit floats: tensor cores of sm_90a multiply them, sm_80 in f32.
inline std::vector<Problem> float8_problems() {
  using enum DType;
  const std::vector<Output> gate_up = {{parse_expr("mul(acc0, mul(acc1, in0))"), bf16, 70, {0, 1}},
                                       {parse_expr("add(mul(acc2, in0), in1)"), f32, 1, {2}}};
  std::vector<Problem> out = {
      plain_problem(Scheme::f8, f8e4m3, f8e4m3, {336}, {{40, false, true, "tensorwise"}}),
      with_outputs(plain_problem(Scheme::f8, f8e4m3, f8e4m3, {400},
                                 {{70, false, false, "gate"}, {70, false, true, "up"}, {1, false, false, "one"}}),
                   {{f32, Broadcast::column}, {bf16, Broadcast::scalar}}, gate_up),
      plain_problem(Scheme::f8, f8e5m2, f8e4m3, {128, 72}, {{33, false, false, "cat"}}),
      plain_problem(Scheme::f8, f8e4m3, f8e5m2, {77}, {{20, false, false, "odd"}}),
      plain_problem(Scheme::f8, f8e4m3, f8e4m3, {520}, {{40, false, false, "blocks"}}, 128),
      plain_problem(Scheme::f8, f8e4m3, f8e4m3, {500}, {{20, false, true, "blocks of 100"}}, 100),
      plain_problem(Scheme::f8, f8e4m3, f8e4m3, {320}, {{33, false, false, "blocks of 64"}}, 64),
      plain_problem(Scheme::f8, f8e4m3, f8e4m3, {160}, {{20, false, false, "blocks of 32"}}, 32),
  };
  for (Problem& p : out)
    for (Output& o : p.outputs)
      if (o.dtype == p.activation) o.dtype = f32;
  return out;
}

// What is multiplied in f32 everywhere: f32 activations.
inline std::vector<Problem> fma_problems() {
  using enum DType;
  std::vector<Problem> out = {
      plain_problem(Scheme::dense, f32, f32, {136}, {{70, false, false, "gate"}, {1, false, true, "one"}}),
      plain_problem(Scheme::dense, f32, f32, {64, 33}, {{40, false, true, "cat"}}),
      plain_problem(Scheme::w8, f32, i8, {100}, {{20, true, true, "zero"}}),
      with_outputs(
          plain_problem(Scheme::w4, f32, i8, {192},
                        {{70, true, true, "gate"}, {70, false, false, "up"}, {1, false, false, "one"}}, 32),
          {{bf16, Broadcast::row}, {f16, Broadcast::column}, {f32, Broadcast::scalar}, {bf16, Broadcast::full}},
          {{parse_expr("mul(max(acc0, in3), mul(acc1, in0))"), f32, 70, {0, 1}},
           {parse_expr("add(mul(acc2, in1), in2)"), f32, 1, {2}}}),
      plain_problem(Scheme::w4, f32, i8, {264}, {{40, false, false, "real zeros", true}}, 128, bf16),
      plain_problem(Scheme::f4, f32, i8, {96}, {{24, false, false, "mxfp4"}}, 32, f8e8m0),
      plain_problem(Scheme::f8, f32, f8e5m2, {72}, {{20, false, false, "e5m2"}}),
      plain_problem(Scheme::nf4, f32, i8, {128}, {{20, false, true, "nf4"}}, 64),
  };
  for (Problem& p : out)
    for (Output& o : p.outputs) o.dtype = f32;
  return out;
}

struct GemmCall {
  int64_t m = 1;
  int64_t gap = 0;        // elements between rows of x
  uint64_t shift = 0;     // bytes by which x misses its alignment
  bool poisoned = false;  // all rows of x but one are NaN
  bool sparse = false;    // a row of x has one number other than 0, a power of two: a sum of any numbers is exact
};

// Tensors of small integers, and of scales that are powers of two: every order of summation is exact in f32, so that a
// sum is right to the bit or wrong.
class GemmData {
 public:
  struct Bytes {
    DType dtype = DType::f32;
    int64_t stride = 0;
    std::vector<std::byte> bytes;
    Bytes() = default;
    Bytes(DType d, int64_t n, int64_t s) : dtype(d), stride(s), bytes(static_cast<size_t>(n) * dtype_bytes(d)) {}
    int64_t count() const { return static_cast<int64_t>(bytes.size() / dtype_bytes(dtype)); }
    double get(int64_t i) const {
      return element_to_double(dtype, bytes.data() + i * static_cast<int64_t>(dtype_bytes(dtype)));
    }
    void set(int64_t i, double v) {
      double_to_element(dtype, v, bytes.data() + i * static_cast<int64_t>(dtype_bytes(dtype)));
    }
  };

  GemmData(const Problem& p, const GemmCall& call) : p_(p), call_(call) {
    for (const int64_t width : p.k_segments) {
      Bytes& x =
          xs.emplace_back(p.activation, call.m == 0 ? 0 : (call.m - 1) * (width + call.gap) + width, width + call.gap);
      for (int64_t i = 0; i < x.count(); ++i) {
        const bool real = i % x.stride < width && (!call.poisoned || i / x.stride == call.m / 2);
        const bool absent = call.sparse && i % x.stride != i / x.stride * 7 % width;
        x.set(i, absent          ? 0
                 : call.sparse   ? std::copysign(std::exp2(small(0, 2)), small(-1, 0))  // times 24 bits: 24 bits
                 : is_integer(p) ? small(p.activation == DType::u8 ? 0 : -8, 8)
                 : real          ? small(-4, 4)
                                 : std::nan(""));
      }
    }
    if (scheme_info(p.scheme).quantized_activation) {
      x_scale = Bytes(DType::f32, call.m, 1);
      for (int64_t i = 0; i < call.m; ++i) x_scale.set(i, std::exp2(small(-2, 1)));
    }
    if (p.x_has_zero) {
      x_zero = Bytes(DType::i32, call.m, 1);
      for (int64_t i = 0; i < call.m; ++i) x_zero.set(i, small(-8, 8));
    }
    for (const Segment& s : p.segments) tensors.push_back(make_segment(s));
    packed.resize(static_cast<size_t>(packed_bytes_cuda(p, {})));
    const Status status = pack_weights_cuda(p, {}, tensors, packed);
    REQUIRE_MESSAGE(status.ok(), status.error().to_string());
    for (const Operand& o : p.operands) {
      const int64_t n = p.outputs[0].n,
                    rows = o.broadcast == Broadcast::full || o.broadcast == Broadcast::column ? call.m : 1,
                    columns = o.broadcast == Broadcast::full || o.broadcast == Broadcast::row ? n : 1;
      operands.emplace_back(o.dtype, rows * columns, columns);
      for (int64_t i = 0; i < rows * columns; ++i) operands.back().set(i, small(-2, 2));
    }
    for (const Output& o : p.outputs) outputs.emplace_back(o.dtype, call.m * o.n, o.n);
  }

  // Every element of every output.
  void check() const {
    const std::string wrong = what_is_wrong();
    if (!wrong.empty()) FAIL(wrong);
  }

  // The first element that is; empty: none.
  std::string what_is_wrong() const {
    if (call_.m == 0) return "";
    if (expected_.empty()) expect();
    for (size_t o = 0; o < p_.outputs.size(); ++o)
      for (int64_t i = 0; i < outputs[o].count(); ++i) {
        const double got = outputs[o].get(i), nearest = expected_[o][static_cast<size_t>(i)];
        if (std::isnan(nearest) ? std::isnan(got) : got == nearest) continue;  // an integer output holds no NaN
        const int64_t n = p_.outputs[o].n;
        return fmt::format("output {} [{}, {}] is {}, not exactly {}", o, i / n, i % n, got, nearest);
      }
    return "";
  }

  std::vector<Bytes> xs;
  Bytes x_scale, x_zero;  // without elements where the problem has none
  std::vector<SegmentTensors> tensors;
  std::vector<std::byte> packed;
  std::vector<Bytes> operands, outputs;

 private:
  double small(int low, int high) {
    return low + static_cast<double>(random_() % static_cast<uint64_t>(high - low + 1));
  }

  Tensor tensor(DType dtype, std::vector<int64_t> shape, auto&& next) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    Bytes all(dtype, n, 0);
    for (int64_t i = 0; i < n; ++i) all.set(i, next());
    return Tensor::from_bytes(dtype, std::move(shape), std::move(all.bytes));
  }

  // All integers of a scheme; of 8-bit floats those whose sums are exact.
  double weight() {
    const WeightInfo& info = scheme_info(p_.scheme).weight;
    if (info.numbers) return (*info.numbers)[random_() % 16];
    if (!is_floating(p_.weight)) return small(info.low, info.high);
    if (p_.scheme == Scheme::dense || is_float8(p_.activation)) return small(-4, 4);
    const std::byte code{static_cast<uint8_t>(
        (random_() % 2 << 7) + (p_.weight == DType::f8e4m3 ? random_() % 0x40 : 0x30 + random_() % 0x18))};
    return element_to_double(p_.weight, &code);
  }

  SegmentTensors make_segment(const Segment& s) {
    SegmentTensors t;
    t.weight = tensor(p_.weight, {s.n, p_.k}, [&] { return weight(); });
    auto power = [&] { return std::exp2(small(-2, 1)); };
    if (scheme_info(p_.scheme).has_scales) t.scales = tensor(DType::f32, {s.n, p_.groups()}, power);
    if (s.has_zero) t.zeros = tensor(DType::i8, {s.n, p_.groups()}, [&] { return small(-128, 127); });
    if (s.has_offset) t.offsets = tensor(DType::f32, {s.n, p_.groups()}, [&] { return small(-3, 3) / 2; });
    if (s.has_bias) t.bias = tensor(DType::f32, {s.n}, [&] { return small(-2, 2); });
    return t;
  }

  Tensor rows_of(const Bytes& x, int64_t width) const {
    Bytes dense(x.dtype, call_.m * width, width);
    for (int64_t i = 0; i < dense.count(); ++i) dense.set(i, x.get(i / width * x.stride + i % width));
    return Tensor::from_bytes(x.dtype, {call_.m, width}, std::move(dense.bytes));
  }

  // Once for all kernels that are given this data.
  void expect() const {
    LinearOperands linear;
    linear.scheme = p_.scheme, linear.group = p_.group;
    for (size_t i = 0; i < xs.size(); ++i) linear.xs.push_back(rows_of(xs[i], p_.k_segments[i]));
    if (x_scale.count()) linear.x_scale = rows_of(x_scale, 1);
    if (x_zero.count()) linear.x_zero = rows_of(x_zero, 1);
    for (const SegmentTensors& t : tensors) linear.segments.push_back({t.weight, t.scales, t.zeros, t.bias, t.offsets});
    std::vector<LinearReference> sums;
    for (size_t j = 0; j < tensors.size(); ++j) {
      auto sum = reference_linear(linear, j);
      REQUIRE_MESSAGE(sum.ok(), sum.error().to_string());
      sums.push_back(std::move(*sum));
    }
    for (size_t o = 0; o < p_.outputs.size(); ++o) {
      std::vector<double>& all = expected_.emplace_back();
      for (int64_t i = 0; i < call_.m; ++i)
        for (int64_t n = 0; n < p_.outputs[o].n; ++n) all.push_back(nearest(sums, o, i, n));
    }
  }

  double nearest(const std::vector<LinearReference>& sums, size_t o, int64_t i, int64_t n) const {
    const Output& out = p_.outputs[o];
    std::vector<double> accs(p_.segments.size()), errors(p_.segments.size()), ins;
    for (const int j : out.segments)
      accs[static_cast<size_t>(j)] = sums[static_cast<size_t>(j)].y[static_cast<size_t>(i * out.n + n)];
    for (const Bytes& b : operands) {
      const int64_t at = (b.count() > b.stride ? i * b.stride : 0) + (b.stride > 1 ? n : 0);
      ins.push_back(at < b.count() ? b.get(at) : 0);
    }
    const double want = evaluate_with_tolerance(out.expr, accs, errors, ins).value;
    std::byte rounded[8];
    double_to_element(out.dtype, want, rounded);
    return element_to_double(out.dtype, rounded);
  }

  const Problem& p_;
  GemmCall call_;
  std::mt19937_64 random_{17};
  mutable std::vector<std::vector<double>> expected_;  // of each output, once asked for
};

// Kernels of every kind with little to translate: that of few rows, and the smallest tile.
inline std::vector<CudaSchedule> small_schedules(const Problem& p, const Target& target) {
  std::vector<CudaSchedule> out;
  for (const int64_t m : {8, 16, 64}) {
    std::vector<CudaSchedule> all = cuda_schedules(p, target, 1, m);
    std::erase_if(all, [&](const CudaSchedule& s) { return s.is_decode() != (m <= 16); });
    REQUIRE(!all.empty());
    const auto least = std::min_element(
        all.begin(), all.end(), [](const CudaSchedule& a, const CudaSchedule& b) { return a.bm * a.bn < b.bm * b.bn; });
    if (m != 16 || p.outputs.size() == 2) out.push_back(*least);
  }
  return out;
}

// Arguments of a call in problem.h's order: add(name, bytes, bytes by which the address misses its alignment).
template <class Add>
void add_inputs(const GemmData& data, const GemmCall& call, Add add) {
  for (const GemmData::Bytes& x : data.xs) add("x", x, call.shift);
  for (const GemmData::Bytes* of_rows : {&data.x_scale, &data.x_zero})
    if (of_rows->count()) add("of rows", *of_rows, 0);
  for (const GemmData::Bytes& o : data.operands) add("operand", o, 0);
  GemmData::Bytes weights;
  weights.bytes = data.packed;
  add("weights", weights, 0);
}

}  // namespace qcg::test
