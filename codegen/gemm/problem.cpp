#include "codegen/gemm/problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/kernel/source_graph.h"

namespace qcg {

std::string Problem::label() const {
  std::string out;
  for (const Segment& segment : segments) out += (out.empty() ? "" : "+") + short_label(module_of_weight(segment.name));
  return out;
}

int64_t Problem::n_total() const {
  int64_t n = 0;
  for (const Segment& segment : segments) n += segment.n;
  return n;
}

double Problem::operations(int64_t m) const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n_total());
}

std::string Problem::signature() const {
  static constexpr std::string_view kBroadcasts[] = {"full", "row", "column", "scalar"};
  std::string s =
      fmt::format("gemm {} x={} w={} k={}", scheme_name(scheme), dtype_name(activation), dtype_name(weight), k);
  if (group > 0) s += fmt::format(" group={}", group);
  if (scale != DType::f32) s += fmt::format(" scale={}", dtype_name(scale));
  if (x_has_zero) s += " x_zero";
  if (may_round) s += " may_round";
  if (by_group_of_rows) s += " by_group_of_rows";
  if (windowed) s += " windowed";
  s += " k_segments=";
  for (size_t i = 0; i < k_segments.size(); ++i) s += fmt::format("{}{}", i ? "+" : "", k_segments[i]);
  for (const Segment& segment : segments)
    s += fmt::format(" segment({}{}{}{})", segment.n, segment.has_zero ? " zero" : "",
                     segment.has_offset ? " offset" : "", segment.has_bias ? " bias" : "");
  for (const Operand& operand : operands)
    s += fmt::format(" operand({} {})", dtype_name(operand.dtype), kBroadcasts[size_t(operand.broadcast)]);
  for (const Output& output : outputs)
    s += fmt::format(" output({} {} = {})", dtype_name(output.dtype), output.n, output.expr.str());
  s += m_max == INT64_MAX ? fmt::format(" m={}..", m_min) : fmt::format(" m={}..{}", m_min, m_max);
  return s;
}

bool is_integer(const Problem& problem) { return !is_floating(problem.activation); }

bool can_round(const Problem& problem) { return !is_integer(problem) && scheme_info(problem.scheme).has_scales; }

bool has_zeros(const Problem& problem) {
  return std::any_of(problem.segments.begin(), problem.segments.end(), [](const Segment& s) { return s.has_zero; });
}

bool has_x_zero(const Problem& problem) { return problem.x_has_zero || problem.activation == DType::u8; }

bool zeros_by_column(const Problem& problem) {
  return problem.activation == DType::i8 && problem.x_has_zero && problem.group > 0 && !has_zeros(problem) &&
         problem.scale != DType::f32;
}

Status check_integer_range(const Problem& problem) {
  if (!is_integer(problem)) return {};
  const WeightInfo& weight = scheme_info(problem.scheme).weight;
  const int64_t x = has_x_zero(problem) ? 255 : 128;
  const int64_t zero_low = has_zeros(problem) ? -128 : 0, zero_high = has_zeros(problem) ? 127 : 0;
  const int64_t w = std::max(weight.high - zero_low, zero_high - weight.low);
  const int64_t longest = INT32_MAX / (x * w);
  if ((problem.group > 0 ? std::min(problem.group, problem.k) : problem.k) <= longest) return {};
  return Error::unsupported(std::string(scheme_name(problem.scheme)),
                            "K = " + std::to_string(problem.k) + " could overflow the exact int32 sum",
                            "split the layer along K into parts of at most " + std::to_string(longest));
}

bool is_same_segment(const SegmentTensors& a, const SegmentTensors& b) {
  const auto same = [](const Tensor& x, const Tensor& y) {
    return x.storage == y.storage && x.dtype == y.dtype && x.shape == y.shape && x.strides == y.strides &&
           x.offset == y.offset;
  };
  return a.weight.bound() && same(a.weight, b.weight) && same(a.scales, b.scales) && same(a.zeros, b.zeros) &&
         same(a.bias, b.bias) && same(a.offsets, b.offsets);
}

}  // namespace qcg
