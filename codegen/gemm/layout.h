// The byte layout of packed weights, as numbers.
//
// Why here: pack.cpp writes these offsets, render*.cpp print them, and nothing else may compute them a second time.
//
// Outputs whose epilogues read a common segment are one strip: their columns are multiplied once. The panels of a strip
// follow each other; a panel holds the segments that the epilogues of the strip read:
//
//   panel p:  [ segment 0 | segment 1 ]                      columns p * nr … of each segment
//   segment:  [ group 0 | group 1 | … ][ scale | zero | offset | column sum | bias ]     (one "group" where ungrouped)
//   group:    [ scales | offsets or corrections | zeros ][ steps ]        (grouped only)
//   step:     k_step consecutive k of nr columns: [nr][k_step], bits each
//
// A group of integers has corrections when there is a zero point on either side. Per column they are C = sum_k (w -
// zero) and `above`, by how much a stored weight exceeds w - zero: two int16 (groups up to 128) or two rows of int32.
// The kernel adds -zx C - above sum_k q to the group's sum. Where only activations have a zero point, `above` is the
// same for all weights, and one int16 holds C. Narrow scales say that the graph rounds to 8 bits: then a column has one
// correction for all groups, C' = sum_g scale_g C_g in f32, in place of the column sum (zeros_by_column()).
//
// K is padded to kPadK within every group, columns to nr; padding is zero and never reaches a result.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"

namespace qcg {

inline constexpr int kPadK = 8;
// Unpacking loads may look at so many bytes behind the last step.
inline constexpr int64_t kTrailingBytes = 64;

// How a group of integers is corrected: not at all, by what weights are raised by alone, or from its header: by an
// int16 per column, two of them, or two int32.
enum class Corrections : uint8_t { none, raised, sums, pairs, wide };

// Columns that are multiplied together.
struct Strip {
  std::vector<int> outputs;   // of Problem::outputs, ascending
  std::vector<int> segments;  // that they read, ascending
  int64_t n = 0;              // columns of each
  int64_t panels = 0;
  int64_t at = 0;  // of the first panel, bytes
  int64_t panel_bytes = 0;
};

struct PanelLayout {
  const LayoutKind* kind = nullptr;
  int nr = 0;
  int64_t groups = 1, group = 0, group_padded = 0, k_padded = 0;
  bool grouped = false;
  bool has_zero = false;    // any segment: all have room for zero points (0 where a segment has none)
  bool has_offset = false;  // likewise
  Corrections corrections = Corrections::none;  // of a group of integers
  bool zeros_by_column = false;                 // the zero point of activations is no part of them
  int64_t header_bytes = 0, offsets_in_header = 0, zeros_in_header = 0;  // of a group
  int64_t weights_bytes = 0;
  int64_t scale_at = 0, zero_at = 0, offset_at = 0, column_sum_at = 0, bias_at = 0;  // from the start of the segment
  int64_t segment_bytes = 0;
  std::vector<Strip> strips;  // by their first outputs
  int64_t bytes = 0;          // all of it

  int64_t step_bytes() const { return int64_t{nr} * kind->k_step * kind->bits / 8; }
  int64_t k_bytes(int64_t k) const { return k / kind->k_step * step_bytes(); }  // k a multiple of k_step
  // Where group g begins within a segment, and how many padded k it has.
  int64_t group_at(int64_t g) const { return g * (header_bytes + k_bytes(group_padded)); }
  int64_t group_k(int64_t g) const { return g + 1 == groups ? k_padded - g * group_padded : group_padded; }
};
PanelLayout panel_layout(const Problem& problem, const PackedLayout& layout);
// Whether the same segment has the same bytes in a panel of either.
bool same_segments(const PanelLayout& a, const PanelLayout& b);

}  // namespace qcg
