// GemmShape: the numbers of one GEMM kernel that more than one part of its source depends on.
//
// Why here: render_packing.cpp, render_tile.cpp, render_multiply.cpp and render_outputs.cpp each print a part of one
// source, and the parts must agree on how K is padded, blocked and iterated over.
//
//   const GemmShape shape(problem, schedule);
//   shape.mr, shape.nv       // 8 rows x 2 vectors
//   shape.block_k()          // K of one block: whole groups, whole iterations
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gemm/layout.h"
#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/schedules.h"

namespace qcg {

// Where each kind of argument begins (problem.h states the order).
struct ArgumentOrder {
  int x_scale = -1, x_zero = -1, operands = 0, weights = 0, outputs = 0;
  explicit ArgumentOrder(const Problem& p);
};

// Why K has groups, if it has.
enum class Groups : uint8_t {
  none,
  of_slices,  // slices have an exponent per group; weights have one scale per column
  of_scales,  // weights have a scale per group
};

// `count` of K from `k` on, which begin at `in_source` of the x number `source` where activations are read in place.
struct KBlock {
  int64_t k, count;
  int source;
  int64_t in_source;
};

struct GemmShape {
  GemmShape(const Problem& p, const GemmSchedule& c);

  const Problem& problem;
  const GemmSchedule& schedule;
  PanelLayout panel;
  ArgumentOrder args;
  const Compute& compute;
  int mr, vl, nv;        // rows of a tile, floats of a vector, vectors of a panel
  bool sliced;           // whether integers stand for floats
  int slices;            // of each that a tile multiplies: 2, and 1 where it multiplies what those leave over
  Groups groups;         // what cuts K into the groups of `panel`
  bool ordered = false;  // activations are packed in the order in which weights of less than a byte are unpacked
  int used_step = 1;     // k of one step of weights, at least those of one instruction
  int units = 1;         // of one dot: the instruction's, or as many as divide every group
  int k_iteration = 8;   // k of one iteration of the inner loop
  int tile_units = 16;   // of a product of tiles: fewer where groups have fewer and their sums are finished one by one
  int groups_per_step =
      1;  // of weights that are scaled before tiles multiply 16 units of them: these need not be of one group
  int64_t x_group = 0, x_k = 0;  // padded k of the packed activations: of a group, of a row

  // One product of tiles multiplies `tile_units` units. The activations of a group are padded to whole products with
  // zeros, unless several groups share a product. Weights are not padded.
  int64_t pad_activations(int64_t k) const;
  bool has_groups() const { return groups != Groups::none; }
  bool has_group_scales() const { return groups == Groups::of_scales; }
  // Whether weights are scaled as they are unpacked, and whether they are rounded to bf16 then.
  bool scales_weights() const { return schedule.scaling != Scaling::sums; }
  bool rounds_weights() const { return schedule.scaling == Scaling::rounded_weights; }
  // Whether each group's sum is finished on its own.
  bool sums_groups() const { return has_groups() && !scales_weights(); }
  // Groups whose sums wait until tiles scale them together: results are loaded and stored once for all of them. They
  // take 8 KiB.
  int groups_at_once() const { return (8 << 10) / (mr * panel.nr * 4); }
  // Units that so many k of a row are packed to.
  int64_t x_units(int64_t k) const { return k / compute.kd * slices; }
  // Whether the scales of weights round nothing if weights take them as they are unpacked.
  bool can_scale() const;
  // Whether weights take them as they are looked up, as numbers of bf16.
  bool looks_up_scaled() const { return schedule.scaling == Scaling::weights && compute.element == "bf16"; }
  // Whether rows of activations are what tiles broadcast from, as they are: of the element type, in the order of K,
  // without padding or sums, and so few at a time that each has a register for its address.
  bool can_read_in_place() const;
  // … and whether they are of one x, or of several that a block of K never straddles.
  bool can_read_sources() const;
  bool in_place() const { return schedule.in_place && can_read_in_place(); }
  // K of the longest block: whole groups, whole iterations.
  int64_t block_k() const;
  std::vector<KBlock> blocks() const;
  int64_t part_of_source(int64_t width) const;
  // The number of k whose products are summed before the sum is added to the sums before it; 0: a whole block. Runs are
  // for activations of f32 alone. The rounding of narrower activations is larger than the error of a long sum.
  int64_t run_k() const;
  bool has_blocks() const { return block_k() < panel.k_padded; }
  // Whether all panels of an item pass over a block before the next block: else each panel passes over all of its
  // blocks.
  bool blocks_outside() const { return has_blocks() && schedule.ahead_bytes == 0; }
  // Units of the longest block, every group padded as activations are.
  int64_t block_units() const;
  // Lines of the next block that one iteration fetches: its share of what the fewest rows of an item take.
  int64_t next_lines() const;
  int dots_of_iteration() const { return k_iteration / compute.kd / units; }
  // Independent sums of one accumulator, so that enough multiply chains are in flight to hide their latency.
  int splits(int rows) const;
  // Whether the scaled sums of groups find registers beside those of the group at hand: else they wait in memory, which
  // costs a group of 32 a fifth of its time.
  bool keeps_sums(int rows) const;
  // Whether accumulators take three quarters of the registers, so that unpacking several k of some columns would spill.
  bool is_crowded() const {
    return !compute.tiles && panel.kind->columns > 1 && mr * slices * nv * 4 >= registers() * 3;
  }
  // Whether a block is unpacked by its first row tile while that multiplies, which costs less than a pass of its own.
  bool first_tile_unpacks() const { return schedule.unpacks_block && !is_crowded(); }
  // The shape of the tiles that multiply what slices leave over, sliced again.
  GemmShape of_layer() const;
  // Words of a group and row beside its units, made when activations are packed: what its sums are corrected by.
  int x_words() const;
  int registers() const { return isa_info(schedule.microkernel->isa).registers; }
  // Zero points of weights that multiply floats, whatever instruction does it: integers have corrections in their
  // headers.
  bool has_zeros() const { return panel.has_zero && !is_integer(problem); }
  bool has_panel_zeros() const { return has_zeros() && !has_group_scales(); }
  bool has_group_zeros() const { return has_zeros() && has_group_scales(); }
  // Whether a tile goes through its weights group by group; what reads a block that was unpacked scaled does not.
  bool loops_over_groups(bool of_block) const { return sums_groups() || (scales_weights() && !of_block); }
  // Whether a tile subtracts zero points, reading weights as they are packed or a block that was unpacked without them.
  bool zeros_in_tile(bool of_block) const { return has_zeros() && !(of_block && !sliced); }
  // Whether weights lose their zero points as they are unpacked: integers are corrected instead.
  bool subtracts_zeros() const { return panel.has_zero && !compute.integer; }
  // Whether integers are lowered again as they are unpacked, because tiles multiply signed bytes as well. A header with
  // zero points holds what weights are raised by, too.
  bool lowers_weights() const {
    return compute.tiles && compute.integer && panel.kind->bits < 8 &&
           (panel.corrections == Corrections::raised || panel.corrections == Corrections::sums);
  }
  // What weights have become larger by when an unsigned operand of an instruction holds them.
  int raised() const { return lowers_weights() ? 0 : panel.kind->bits == 8 && sliced ? 128 : panel.kind->raised; }
  // How the sum of a group is corrected.
  Corrections corrections() const {
    return lowers_weights() && panel.corrections == Corrections::raised ? Corrections::none : panel.corrections;
  }
  // Iterations of group g, as an expression.
  std::string group_steps() const;
  // Of one step of weights, the columns of one vector.
  int64_t vector_bytes() const { return int64_t{vl} * panel.kind->k_step * panel.kind->bits / 8; }
  int64_t iteration_bytes() const { return panel.k_bytes(k_iteration); }
};

}  // namespace qcg
