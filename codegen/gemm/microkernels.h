// The tables of the CPU's GEMMs: packed forms of weights, instructions, and microkernels, which multiply the one by the
// other.
//
// Why here: microkernels.cpp holds the rows; schedules, packing and rendering look up what a row says.
//
//   for (const Microkernel& row : microkernel_table())
//     if (runs_on(row.isa, target.isa) && serves(row, problem)) …
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "codegen/gemm/problem.h"
#include "codegen/kernel/target.h"
#include "graph/ir/scheme.h"

namespace qcg {

struct LayoutKind {
  std::string_view kind;
  int k_step;                 // consecutive k of one column
  int bits;                   // per weight
  std::string_view computes;  // instructions that a vector of it can be unpacked for: <compute>_weight_<kind>
  std::string_view picture;
  std::string_view header;  // that unpacks it, if it is not gemm_<isa>.h: templates/quant/<header>
  int raised = 0;           // added to every stored weight, for instructions whose weight operand is unsigned
  double factor = 1;        // what a sum of unpacked weights has to be multiplied by
  // Side by side: `run` bytes of each, before the next ones of the first. Codes are then unpacked in the order of k.
  int columns = 1;
  int run = 1;                             // bytes
  std::string_view rounded_computes = {};  // instructions that multiply it once it is rounded to bf16, not as it is
  bool takes_scales = false;               // <compute>_scaled_<kind>: unpacked to bf16 times a scale of a byte, exactly
  bool looks_up_codes() const { return bits < 8 && columns > 1; }
  // Whether codes are unpacked to floats in the order in which they lie: k = 0 4 1 5 2 6 3 7.
  bool is_shuffled() const { return bits < 8 && columns == 1; }
};
const LayoutKind& layout_kind(std::string_view kind);  // precondition: a row of the table

// How one instruction family multiplies: a unit is kd consecutive k of one row, 4 bytes of packed activations.
struct Compute {
  std::string_view name;
  int kd;
  std::string_view element;  // what activations are packed to: pack_<element>_<dtype> in gemm_common.h
  std::string_view cpp_element;
  bool integer;        // accumulates int32
  bool tiles = false;  // AMX: multiplies 16 units of 16 rows at once
  int units = 1;       // of a column and row that one dot takes at most, as <compute>_units{first, …}
};
const Compute& compute_info(std::string_view name);  // precondition: a row of the table

// A row of the microkernel table: which template and instruction serve which scheme, dtypes and ISA.
struct Microkernel {
  std::string_view name;  // "avx512_fma", "avx512_vnni", …: in kernel names and logs
  Isa isa;
  std::string_view source;  // "cpu/gemm.cpp.j2", in templates/
  Scheme scheme;
  DType activation;
  DType weight;              // as Problem::weight
  std::string_view compute;  // the instruction it lives on: "fma", "vnni", "bf16dot", "amx_int8"
  bool rounds = false;       // multiplies weights only after rounding them to bf16
};
std::span<const Microkernel> microkernel_table();
// Whether code for `isa` may run where `target` runs and shares its vector width.
bool runs_on(Isa isa, Isa target);
// Whether a row multiplies what the problem has, whatever the target.
bool serves(const Microkernel& row, const Problem& problem);
// Whether the row's instruction multiplies weights of this form.
bool unpacks_for(const LayoutKind& form, const Microkernel& row);
// Integers that stand for one activation: 2 where an instruction of integers multiplies floats (quant/slices.h), else
// 1.
int slices_of(const Microkernel& row);
// The longest group that slices serve: its sums of a high slice, 256 times themselves, are within int32.
inline constexpr int64_t kLongestSliced = 256;

// The one packed layout of a problem's weights on a target: every M bucket's kernel reads these bytes.
//
//   for each strip, for each panel of nr columns, for each segment of that strip (layout.h):
//     [K / kr][nr][kr] + parameters
struct PackedLayout {
  int nr = 32;       // columns per panel
  int kr = 1;        // consecutive k of one column stored together
  std::string kind;  // names the byte order within a panel; part of kernel names and keys
  friend bool operator==(const PackedLayout&, const PackedLayout&) = default;
};
PackedLayout layout_for(const Problem& problem, const Target& target);

}  // namespace qcg
