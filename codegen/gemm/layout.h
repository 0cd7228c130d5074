// The byte layout of packed weights and the instructions that consume it, as numbers.
//
// Why here: pack.cpp writes these offsets, render*.cpp print them, and nothing else may compute them a second time. The rows
// of LayoutKind and Compute are in microkernels.cpp.
//
// One output's panels follow each other; a panel holds the segments that the output's epilogue reads:
//
//   panel p:  [ segment 0 | segment 1 ]                      columns p * nr … of each segment
//   segment:  [ group 0 | group 1 | … ][ scale | zero | offset | column sum | bias ]     (one "group" where ungrouped)
//   group:    [ scales | offsets or corrections | zeros ][ steps ]        (grouped only)
//
// A group of integers has corrections, when there is a zero point on either side: per column C = sum_k (w - zero) and what
// stored weights lie above w - zero, as two int16 (groups up to 128) or two rows of int32. The kernel starts the group's sum
// at -zx C - above sum_k q.
//   step:     k_step consecutive k of nr columns: [nr][k_step], bits each
//
// K is padded to kPadK within every group, columns to nr; padding is zero and never reaches a result.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/gemm/problem.h"

namespace qcg {

inline constexpr int kPadK = 8;
// Unpacking loads may look at so many bytes behind the last step.
inline constexpr int64_t kTrailingBytes = 64;

struct LayoutKind {
  std::string_view kind;
  int k_step;  // consecutive k of one column
  int bits;    // per weight
  std::string_view computes;  // instructions that a vector of it can be unpacked for: <compute>_weight_<kind>
  std::string_view picture;
  std::string_view header;    // that unpacks it, if it is not gemm_<isa>.h: templates/quant/<header>
  int raised = 0;           // added to every stored weight, for instructions whose weight operand is unsigned
  double factor = 1;        // what a sum of unpacked weights has to be multiplied by
  // Side by side: `run` bytes of each, before the next ones of the first. Codes are then unpacked in the order of k.
  int columns = 1;
  int run = 1;      // bytes
  std::string_view rounded_computes = {};  // instructions that multiply it once it is rounded to bf16, not as it is
  bool takes_scales = false;               // <compute>_scaled_<kind>: unpacked to bf16 times a scale of a byte, exactly
  bool looks_up_codes() const { return bits < 8 && columns > 1; }
  // Whether codes are unpacked to floats in the order in which they lie: k = 0 4 1 5 2 6 3 7.
  bool is_shuffled() const { return bits < 8 && columns == 1; }
};
// Whether the row's instruction multiplies weights of this form.
bool unpacks_for(const LayoutKind& form, const Microkernel& row);
const LayoutKind& layout_kind(std::string_view kind);  // precondition: a row of the table

// How one instruction family multiplies: a unit is kd consecutive k of one row, 4 bytes of packed activations.
struct Compute {
  std::string_view name;
  int kd;
  std::string_view element;      // what activations are packed to: pack_<element>_<dtype> in gemm_common.h
  std::string_view cpp_element;
  bool integer;                  // accumulates int32
  bool tiles = false;            // AMX: multiplies 16 units of 16 rows at once
  int units = 1;                 // of a column and row that one dot takes at most, as <compute>_units{first, …}
};
const Compute& compute_info(std::string_view name);  // precondition: a row of the table

// How a group of integers is corrected: not at all, by what weights are raised by alone, or from its header.
enum class Corrections : uint8_t { none, raised, pairs, wide };

struct PanelLayout {
  const LayoutKind* kind = nullptr;
  int nr = 0;
  int64_t groups = 1, group = 0, group_padded = 0, k_padded = 0;
  bool grouped = false;
  bool has_zero = false;    // any segment: all have room for zero points (0 where a segment has none)
  bool has_offset = false;  // likewise
  Corrections corrections = Corrections::none;  // of a group of integers
  int64_t header_bytes = 0, offsets_in_header = 0, zeros_in_header = 0;  // of a group
  int64_t weights_bytes = 0;
  int64_t scale_at = 0, zero_at = 0, offset_at = 0, column_sum_at = 0, bias_at = 0;  // from the start of the segment
  int64_t segment_bytes = 0;
  std::vector<int64_t> output_at;   // of each output's panels
  std::vector<int64_t> panels;
  std::vector<int64_t> panel_bytes;
  int64_t bytes = 0;                // all of it

  int64_t step_bytes() const { return int64_t{nr} * kind->k_step * kind->bits / 8; }
  int64_t k_bytes(int64_t k) const { return k / kind->k_step * step_bytes(); }  // k a multiple of k_step
  // Where group g begins within a segment, and how many padded k it has.
  int64_t group_at(int64_t g) const { return g * (header_bytes + k_bytes(group_padded)); }
  int64_t group_k(int64_t g) const { return g + 1 == groups ? k_padded - g * group_padded : group_padded; }
};
PanelLayout panel_layout(const Problem& problem, const PackedLayout& layout);
// Whether the same segment has the same bytes in a panel of either.
bool same_segments(const PanelLayout& a, const PanelLayout& b);

// Refuses K so long that an exact int32 result could overflow (2^31 / (largest |x - zx| * largest |w - zw|)).
Status check_integer_range(const Problem& problem);

bool is_integer(const Problem& problem);  // integer activations: int8 and da8*
bool has_zeros(const Problem& problem);   // any segment
bool can_round(const Problem& problem);   // weights with scales under float activations: --dequant=rounded

}  // namespace qcg
