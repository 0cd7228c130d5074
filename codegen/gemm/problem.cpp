#include "codegen/gemm/problem.h"

#include <fmt/format.h>

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

}  // namespace qcg
