#include "codegen/gemm/rounded_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace qcg {

namespace {

double value_or(const Tensor& t, int64_t n, int64_t column, double absent) {
  if (!t.bound()) return absent;
  const int64_t index[2] = {n, column};
  return element_to_double(t.dtype, t.element(std::span<const int64_t>(index, t.shape.size())));
}

// The value of each byte that a weight of one byte can be.
std::array<float, 256> values_of(Scheme scheme, DType dtype) {
  std::array<float, 256> out;
  for (int byte = 0; byte < 256; ++byte) {
    const auto raw = static_cast<std::byte>(byte);
    const double number = element_to_double(dtype, &raw);
    out[size_t(byte)] =
        dtype == DType::i8 ? value_of(scheme_info(scheme).weight, int(number)) : static_cast<float>(number);
  }
  return out;
}

Tensor round_weight(const Problem& problem, const SegmentTensors& t, int64_t n) {
  const std::array<float, 256> values = values_of(problem.scheme, problem.weight);
  const int64_t groups = problem.groups(), group = problem.group > 0 ? problem.group : problem.k;
  std::vector<std::byte> bytes(size_t(n * problem.k) * 2);
  std::byte* out = bytes.data();
  for (int64_t row = 0; row < n; ++row)
    for (int64_t g = 0; g < groups; ++g) {
      const float scale = float(value_or(t.scales, row, g, 1)), zero = float(value_or(t.zeros, row, g, 0)),
                  offset = float(value_or(t.offsets, row, g, 0));
      for (int64_t k = g * group; k < std::min(problem.k, (g + 1) * group); ++k, out += 2) {
        const int64_t index[2] = {row, k};
        const float value = values[std::to_integer<size_t>(*t.weight.element(index))];
        double_to_element(DType::bf16, std::fma(value - zero, scale, offset), out);
      }
    }
  return Tensor::from_bytes(DType::bf16, {n, problem.k}, std::move(bytes));
}

}  // namespace

RoundedProblem round_weights(const Problem& problem, const std::vector<SegmentTensors>& tensors) {
  RoundedProblem out{problem, {}};
  out.problem.scheme = Scheme::dense;
  out.problem.weight = DType::bf16;
  out.problem.group = 0;
  out.problem.scale = DType::f32;
  out.problem.may_round = false;
  for (size_t s = 0; s < tensors.size(); ++s) {
    Segment& segment = out.problem.segments[s];
    segment.has_zero = segment.has_offset = false;
    out.tensors.push_back({round_weight(problem, tensors[s], segment.n), {}, {}, tensors[s].bias, {}});
  }
  return out;
}

}  // namespace qcg
