#include "codegen/sample_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

namespace qcg {

namespace {

// What the codes of a weight may be, and the groups it usually comes with. Other schemes hold any int8 or float, ungrouped.
struct Codes {
  Scheme scheme;
  int64_t group;
  DType scale;
  std::array<int8_t, 16> values;
};
constexpr std::array<int8_t, 16> kInt4 = {-8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 7};
constexpr std::array<int8_t, 16> kTwiceE2m1 = {1, 2, 3, 4, 6, 8, 12, -1, -2, -3, -4, -6, -8, -12, 1, -1};
constexpr std::array<int8_t, 16> kNormal = {0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 15};  // code 7 means zero
constexpr Codes kCodes[] = {{Scheme::w4, 128, DType::bf16, kInt4},   {Scheme::da8w4, 128, DType::bf16, kInt4},
                            {Scheme::f4, 32, DType::bf16, kTwiceE2m1}, {Scheme::da8f4, 32, DType::bf16, kTwiceE2m1},
                            {Scheme::nf4, 64, DType::f32, kNormal}};

const Codes* codes_of(Scheme scheme) {
  for (const Codes& row : kCodes)
    if (row.scheme == scheme) return &row;
  return nullptr;
}

constexpr size_t kPeriod = 1'000'003;  // a prime: no two rows of a matrix begin at the same place of the pattern

Tensor repeat(DType dtype, std::vector<int64_t> shape, const std::function<double()>& next) {
  size_t total = dtype_bytes(dtype);
  for (int64_t d : shape) total *= static_cast<size_t>(d);
  std::vector<std::byte> bytes(total);
  const size_t period = std::min(total, kPeriod * dtype_bytes(dtype));
  for (size_t at = 0; at < period; at += dtype_bytes(dtype)) double_to_element(dtype, next(), bytes.data() + at);
  for (size_t at = period; at < total; at += period) std::memcpy(bytes.data() + at, bytes.data(), std::min(period, total - at));
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
  const Codes* codes = codes_of(info.scheme);
  const bool integer = info.quantized_activation || !info.has_scales;
  return {{info.scheme, integer ? DType::i8 : DType::bf16, info.float_weight ? DType::f8e4m3 : DType::i8, codes ? codes->group : 0}};
}

Problem sample_problem(const SampleScheme& s, const LayerShape& shape) {
  Problem p;
  p.scheme = s.scheme, p.activation = s.activation, p.weight = s.weight, p.group = s.group;
  if (const Codes* codes = codes_of(s.scheme)) p.scale = codes->scale;
  p.k = shape.k;
  p.k_segments = {shape.k};
  p.nodes = {std::string(shape.name)};
  for (int64_t n : shape.n)
    if (n > 0) p.segments.push_back({n, false, false, fmt::format("{}_{}", shape.name, p.segments.size())});
  const bool exact = !scheme_info(s.scheme).has_scales && !is_floating(s.activation);
  const DType out = exact ? DType::i32 : is_floating(s.activation) ? s.activation : DType::bf16;
  auto add_output = [&](Expr expr, std::vector<int> segments) {
    p.outputs.push_back({exact ? Expr::acc(segments[0]) : std::move(expr), out, p.segments[static_cast<size_t>(segments[0])].n, segments});
  };
  if (p.segments.size() == 2 && !exact) {
    add_output(Expr::call("mul", {Expr::call("silu", {Expr::acc(0)}), Expr::acc(1)}), {0, 1});
  } else if (p.segments.size() == 1 && !exact) {
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
  const Codes* codes = codes_of(problem.scheme);
  auto number = [&] { return (rng() & 1 ? 1 : -1) * magnitude(rng); };
  auto integer = [&] { return static_cast<double>(rng() % 127 + 1) * (rng() & 1 ? 1 : -1); };
  auto code = [&] { return static_cast<double>(codes->values[rng() % codes->values.size()]); };
  std::vector<SegmentTensors> out;
  for (const Segment& segment : problem.segments) {
    SegmentTensors t;
    const std::vector<int64_t> shape = {segment.n, problem.k};
    if (is_floating(problem.weight)) t.weight = repeat(problem.weight, shape, number);
    else if (codes) t.weight = repeat(problem.weight, shape, code);
    else t.weight = repeat(problem.weight, shape, integer);
    if (scheme_info(problem.scheme).has_scales)
      t.scales = repeat(problem.scale, {segment.n, problem.groups()}, [&] { return magnitude(rng) / 64; });
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace qcg
