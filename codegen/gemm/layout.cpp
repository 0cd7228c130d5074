#include "codegen/gemm/layout.h"

#include <algorithm>
#include <tuple>

namespace qcg {
namespace {

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Up to here the sums of a group fit int16: |w - zero| <= 255, |q| <= 128.
constexpr int64_t kLongestPairs = 128;

Corrections corrections_of(const Problem& problem, const PanelLayout& p) {
  if (!is_integer(problem)) return Corrections::none;
  if (p.has_zero || (has_x_zero(problem) && !p.zeros_by_column))
    return p.group > kLongestPairs ? Corrections::wide : p.has_zero ? Corrections::pairs : Corrections::sums;
  return p.kind->raised != 0 ? Corrections::raised : Corrections::none;
}

void add_group_header(const Problem& problem, PanelLayout& p) {
  const int64_t scale_row = p.nr * int64_t(dtype_bytes(problem.scale));
  p.zeros_by_column = zeros_by_column(problem);
  p.corrections = corrections_of(problem, p);
  p.offsets_in_header = scale_row;
  p.zeros_in_header = p.offsets_in_header;
  if (p.has_offset) p.zeros_in_header += scale_row;
  if (p.corrections == Corrections::sums) p.zeros_in_header += p.nr * 2;
  if (p.corrections == Corrections::pairs) p.zeros_in_header += p.nr * 4;
  if (p.corrections == Corrections::wide) p.zeros_in_header += p.nr * 8;
  p.header_bytes = round_up(p.zeros_in_header + (p.has_zero && !is_integer(problem) ? p.nr : 0),
                            std::min<int64_t>(scale_row, p.nr * 2));
}

// An output joins the strips that hold a segment of its own; these become one.
std::vector<Strip> strips_of(const Problem& problem) {
  std::vector<Strip> strips;
  for (size_t o = 0; o < problem.outputs.size(); ++o) {
    const Output& output = problem.outputs[o];
    Strip joined{.outputs = {static_cast<int>(o)}, .segments = output.segments, .n = output.n};
    std::erase_if(strips, [&](const Strip& strip) {
      if (std::ranges::find_first_of(strip.segments, output.segments) == strip.segments.end()) return false;
      joined.outputs.insert(joined.outputs.end(), strip.outputs.begin(), strip.outputs.end());
      joined.segments.insert(joined.segments.end(), strip.segments.begin(), strip.segments.end());
      return true;
    });
    std::ranges::sort(joined.outputs);
    std::ranges::sort(joined.segments);
    joined.segments.erase(std::ranges::unique(joined.segments).begin(), joined.segments.end());
    strips.push_back(std::move(joined));
  }
  std::ranges::sort(strips, {}, [](const Strip& strip) { return strip.outputs.front(); });
  return strips;
}

}  // namespace

PanelLayout panel_layout(const Problem& problem, const PackedLayout& layout) {
  PanelLayout p;
  p.kind = &layout_kind(layout.kind);
  p.nr = layout.nr;
  p.has_zero = has_zeros(problem);
  p.has_offset =
      std::any_of(problem.segments.begin(), problem.segments.end(), [](const Segment& s) { return s.has_offset; });
  p.grouped = problem.group > 0 || p.kind->bits < 8 || p.has_offset;
  p.group = problem.group > 0 ? std::min(problem.group, problem.k) : problem.k;
  p.groups = (problem.k + p.group - 1) / p.group;
  p.group_padded = round_up(p.group, kPadK);
  p.k_padded = (p.groups - 1) * p.group_padded + round_up(problem.k - (p.groups - 1) * p.group, kPadK);
  if (p.grouped) add_group_header(problem, p);
  p.weights_bytes = p.group_at(p.groups - 1) + p.header_bytes + p.k_bytes(p.group_k(p.groups - 1));

  const int64_t row = int64_t{p.nr} * 4;
  p.scale_at = p.weights_bytes;
  p.zero_at = p.scale_at + row;
  p.offset_at = p.zero_at + row;
  p.column_sum_at = p.offset_at + row;
  p.bias_at = p.column_sum_at + row;
  p.segment_bytes = round_up(p.bias_at + row, 64);

  p.strips = strips_of(problem);
  for (Strip& strip : p.strips) {
    strip.at = p.bytes;
    strip.panels = (strip.n + p.nr - 1) / p.nr;
    strip.panel_bytes = p.segment_bytes * std::ssize(strip.segments);
    p.bytes += strip.panels * strip.panel_bytes;
  }
  p.bytes += kTrailingBytes;
  return p;
}

bool same_segments(const PanelLayout& a, const PanelLayout& b) {
  auto fields = [](const PanelLayout& p) {
    return std::tuple(p.kind, p.nr, p.groups, p.group, p.k_padded, p.grouped, p.has_zero, p.has_offset, p.corrections,
                      p.zeros_by_column, p.offsets_in_header, p.segment_bytes);
  };
  return fields(a) == fields(b);
}

}  // namespace qcg
