#include "codegen/gemm_layout.h"

#include <algorithm>
#include <tuple>

namespace qcg {
namespace {

constexpr LayoutKind kKinds[] = {
    {"f32", 1, 32, "[K][nr] f32"},
    {"f16", 1, 16, "[K][nr] f16"},
    {"bf16x2", 2, 16, "[K/2][nr][2] bf16"},
    {"i8", 1, 8, "[K][nr] s8"},
    {"i8x2", 2, 8, "[K/2][nr][2] s8"},
    {"u8x4", 4, 8, "[K/4][nr][4] u8 = s8 xor 0x80", "", 128},
    {"e4m3", 1, 8, "[K][nr] e4m3", "fp8.h", 0, 256},
    {"e5m2", 1, 8, "[K][nr] e5m2", "fp8.h"},
    {"i4x8", 8, 4, "[K/8][nr][8] s4: byte j of a dword has k = j (low nibble) and 4 + j (high)", "int4.h"},
    {"i4x8u", 8, 4, "[K/8][nr][8] u4 = s4 + 8: byte j of a dword has k = j (low nibble) and 4 + j (high)", "int4.h", 8},
    {"f4x8", 8, 4, "[K/8][nr][8] e2m1: byte j of a dword has k = j (low nibble) and 4 + j (high)", "e2m1.h"},
    {"f4x8u", 8, 4, "[K/8][nr][8] e2m1: byte j of a dword has k = j (low nibble) and 4 + j (high)", "e2m1.h", 12},
    {"n4x8", 8, 4, "[K/8][nr][8] nf4: byte j of a dword has k = j (low nibble) and 4 + j (high)", "nf4.h"},
};

constexpr Compute kComputes[] = {
    {"fma", 1, "f32", "float", false},
    {"bf16dot", 2, "bf16", "qcg_bf16", false},
    {"madd16", 2, "s16", "int16_t", true},
    {"maddubs", 4, "s8", "int8_t", true},
    {"vnni", 4, "s8", "int8_t", true},
    {"amx_bf16", 2, "bf16", "qcg_bf16", false, true},
    {"amx_int8", 4, "s8", "int8_t", true, true},
};

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Up to here the sums of a group fit two int16: |w - zero| <= 255, |q| <= 128.
constexpr int64_t kLongestPairs = 128;

Corrections corrections_of(const Problem& problem, const PanelLayout& p) {
  if (!is_integer(problem)) return Corrections::none;
  if (p.has_zero || problem.x_has_zero || problem.activation == DType::u8)
    return p.group <= kLongestPairs ? Corrections::pairs : Corrections::wide;
  return p.kind->raised != 0 ? Corrections::raised : Corrections::none;
}

void add_group_header(const Problem& problem, PanelLayout& p) {
  const int64_t scale_row = p.nr * int64_t(dtype_bytes(problem.scale));
  p.corrections = corrections_of(problem, p);
  p.offsets_in_header = scale_row;
  p.zeros_in_header = p.offsets_in_header;
  if (p.has_offset) p.zeros_in_header += scale_row;
  if (p.corrections == Corrections::pairs) p.zeros_in_header += p.nr * 4;
  if (p.corrections == Corrections::wide) p.zeros_in_header += p.nr * 8;
  p.header_bytes = round_up(p.zeros_in_header + (p.has_zero && !is_integer(problem) ? p.nr : 0), p.nr * 2);
}

}  // namespace

const LayoutKind& layout_kind(std::string_view kind) {
  return *std::find_if(std::begin(kKinds), std::end(kKinds), [&](const LayoutKind& row) { return row.kind == kind; });
}

const Compute& compute_info(std::string_view name) {
  return *std::find_if(std::begin(kComputes), std::end(kComputes), [&](const Compute& row) { return row.name == name; });
}

bool is_integer(const Problem& problem) { return !is_floating(problem.activation); }

bool has_zeros(const Problem& problem) {
  return std::any_of(problem.segments.begin(), problem.segments.end(), [](const Segment& s) { return s.has_zero; });
}

PanelLayout panel_layout(const Problem& problem, const PackedLayout& layout) {
  PanelLayout p;
  p.kind = &layout_kind(layout.kind);
  p.nr = layout.nr;
  p.has_zero = has_zeros(problem);
  p.has_offset = std::any_of(problem.segments.begin(), problem.segments.end(), [](const Segment& s) { return s.has_offset; });
  p.grouped = problem.group > 0 || p.kind->bits == 4;
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

  for (const Output& output : problem.outputs) {
    p.output_at.push_back(p.bytes);
    p.panels.push_back((output.n + p.nr - 1) / p.nr);
    p.panel_bytes.push_back(p.segment_bytes * int64_t(output.segments.size()));
    p.bytes += p.panels.back() * p.panel_bytes.back();
  }
  p.bytes += kTrailingBytes;
  return p;
}

bool same_segments(const PanelLayout& a, const PanelLayout& b) {
  auto fields = [](const PanelLayout& p) {
    return std::tuple(p.kind, p.nr, p.groups, p.group, p.k_padded, p.grouped, p.has_zero, p.has_offset, p.corrections, p.segment_bytes);
  };
  return fields(a) == fields(b);
}

Status check_integer_range(const Problem& problem) {
  if (!is_integer(problem)) return {};
  const bool four = scheme_info(problem.scheme).weight_bits == 4;
  const int64_t x = problem.x_has_zero || problem.activation == DType::u8 ? 255 : 128;
  const int64_t w = has_zeros(problem) ? (four ? 143 : 255) : four ? 12 : 128;
  const int64_t longest = INT32_MAX / (x * w);
  if ((problem.group > 0 ? std::min(problem.group, problem.k) : problem.k) <= longest) return {};
  return Error::unsupported(std::string(scheme_name(problem.scheme)),
                            "K = " + std::to_string(problem.k) + " could overflow the exact int32 sum",
                            "split the layer along K into parts of at most " + std::to_string(longest));
}

}  // namespace qcg
