#include "codegen/gemm/sample_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

namespace qcg {

namespace {

// Every int8 that a weight may be and that does not stand for zero.
std::vector<int8_t> nonzero_weights(const WeightInfo& weight) {
  std::vector<int8_t> out;
  for (int q = weight.low; q <= weight.high; ++q)
    if (holds(weight, q) && value_of(weight, q) != 0) out.push_back(static_cast<int8_t>(q));
  return out;
}

constexpr size_t kPeriod = 1'000'003;  // a prime: no two rows of a matrix begin at the same place of the pattern

Tensor repeat(DType dtype, std::vector<int64_t> shape, const std::function<double()>& next) {
  size_t total = dtype_bytes(dtype);
  for (int64_t d : shape) total *= static_cast<size_t>(d);
  std::vector<std::byte> bytes(total);
  const size_t period = std::min(total, kPeriod * dtype_bytes(dtype));
  for (size_t at = 0; at < period; at += dtype_bytes(dtype)) double_to_element(dtype, next(), bytes.data() + at);
  for (size_t at = period; at < total; at += period)
    std::memcpy(bytes.data() + at, bytes.data(), std::min(period, total - at));
  return Tensor::from_bytes(dtype, std::move(shape), std::move(bytes));
}

}  // namespace

std::string SampleScheme::label() const {
  if (scheme == Scheme::dense) return fmt::format("{} {}", scheme_name(scheme), dtype_name(weight));
  return fmt::format("{}{}", scheme_name(scheme), group > 0 ? fmt::format(" g{}", group) : "");
}

std::vector<SampleScheme> sample_schemes(const SchemeInfo& info) {
  if (info.scheme == Scheme::dense)
    return {{info.scheme, DType::bf16, DType::bf16}, {info.scheme, DType::f32, DType::f32}};
  const bool integer = info.quantized_activation || !info.has_scales;
  const SampleScheme usual = {info.scheme, integer ? DType::i8 : DType::bf16,
                              info.weight.is_float ? DType::f8e4m3 : DType::i8, info.weight.usual_group,
                              info.weight.usual_scale};
  if (info.weight.usual_scale != DType::f8e8m0) return {usual};
  SampleScheme nvfp4 = usual;
  nvfp4.group = 16, nvfp4.scale = DType::f8e4m3;
  return {usual, nvfp4};
}

Problem sample_problem(const SampleScheme& s, const LayerShape& shape) {
  Problem p;
  p.scheme = s.scheme, p.activation = s.activation, p.weight = s.weight, p.group = s.group, p.scale = s.scale;
  p.k = shape.k;
  p.k_segments = {shape.k};
  p.nodes = {std::string(shape.name)};
  for (int64_t n : shape.n)
    if (n > 0) p.segments.push_back({n, false, false, fmt::format("{}_{}", shape.name, p.segments.size())});
  const bool exact = !scheme_info(s.scheme).has_scales && !is_floating(s.activation);
  const DType out = exact ? DType::i32 : is_floating(s.activation) ? s.activation : DType::bf16;
  auto add_output = [&](Expr expr, std::vector<int> segments) {
    p.outputs.push_back({exact ? Expr::acc(segments[0]) : std::move(expr), out,
                         p.segments[static_cast<size_t>(segments[0])].n, segments});
  };
  const bool fuses = !exact && !shape.plain;
  if (p.segments.size() == 2 && fuses) {
    add_output(Expr::call("mul", {Expr::call("silu", {Expr::acc(0)}), Expr::acc(1)}), {0, 1});
  } else if (p.segments.size() == 1 && fuses) {
    p.operands.push_back({out, Broadcast::full});
    add_output(Expr::call("add", {Expr::acc(0), Expr::in(0)}), {0});
  } else {
    for (size_t j = 0; j < p.segments.size(); ++j) add_output(Expr::acc(static_cast<int>(j)), {static_cast<int>(j)});
  }
  return p;
}

std::vector<SegmentTensors> sample_tensors(const Problem& problem, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> magnitude(0.25, 1);
  const std::vector<int8_t> weights = nonzero_weights(scheme_info(problem.scheme).weight);
  auto number = [&] { return (rng() & 1 ? 1 : -1) * magnitude(rng); };
  auto integer = [&] { return static_cast<double>(weights[rng() % weights.size()]); };
  std::vector<SegmentTensors> out;
  for (const Segment& segment : problem.segments) {
    SegmentTensors t;
    const std::vector<int64_t> shape = {segment.n, problem.k};
    if (is_floating(problem.weight)) t.weight = repeat(problem.weight, shape, number);
    else t.weight = repeat(problem.weight, shape, integer);
    const double unit = problem.scale == DType::f8e4m3 ? 1 : 1.0 / 64;  // numbers of e4m3 that are normal
    if (scheme_info(problem.scheme).has_scales)
      t.scales = repeat(problem.scale, {segment.n, problem.groups()}, [&] { return magnitude(rng) * unit; });
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace qcg
