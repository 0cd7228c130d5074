#include "codegen/gemm/shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace qcg {
namespace {

// Slices have an exponent for each group; where weights have no groups, sums are finished every so many k: half as many
// where zero points of a channel, which reach 255, make sums larger.
void cut_groups(PanelLayout& panel) {
  panel.group = panel.group_padded = std::min(panel.k_padded, panel.has_zero ? kLongestSliced / 2 : kLongestSliced);
  panel.groups = (panel.k_padded + panel.group - 1) / panel.group;
}

}  // namespace

ArgumentOrder::ArgumentOrder(const Problem& p) {
  int next = int(p.k_segments.size());
  if (scheme_info(p.scheme).quantized_activation) x_scale = next++;
  if (p.x_has_zero) x_zero = next++;
  operands = next;
  weights = operands + int(p.operands.size());
  outputs = weights + 1;
}

GemmShape::GemmShape(const Problem& p, const GemmSchedule& c)
    : problem(p),
      schedule(c),
      panel(panel_layout(p, c.layout)),
      args(p),
      compute(compute_info(c.microkernel->compute)),
      mr(c.mr),
      vl(isa_info(c.microkernel->isa).vector_bytes / 4),
      nv(c.layout.nr / vl),
      sliced(slices_of(*c.microkernel) > 1),
      slices(slices_of(*c.microkernel)),
      groups(panel.grouped ? Groups::of_scales
             : sliced      ? Groups::of_slices
                           : Groups::none) {
  if (groups == Groups::of_slices) cut_groups(panel);
  used_step = std::max(panel.kind->k_step, compute.kd);
  units = compute.units;
  const auto divides = [&](int64_t k) { return k % (units * compute.kd) == 0; };
  while (units > 1 && !(divides(panel.group_padded) && divides(panel.group_k(panel.groups - 1)))) units /= 2;
  k_iteration = !compute.tiles && mr * slices * nv > 8 && used_step <= 4 ? 4 : 8;
  k_iteration = std::max(k_iteration, units * compute.kd);
  if (compute.tiles && sums_groups()) tile_units = int(std::min<int64_t>(tile_units, panel.group_padded / compute.kd));
  ordered = panel.kind->is_shuffled() && compute.kd < 4;
  const int64_t step = pad_activations(1);
  if (has_group_scales() && scales_weights() && step % panel.group_padded == 0)
    groups_per_step = int(step / panel.group_padded);
  x_group = groups_per_step > 1 ? panel.group_padded : pad_activations(panel.group_padded);
  x_k = pad_activations((panel.groups - 1) * x_group + panel.group_k(panel.groups - 1));
}

int64_t GemmShape::pad_activations(int64_t k) const {
  const int64_t step = compute.tiles ? tile_units * compute.kd : 1;
  return (k + step - 1) / step * step;
}

bool GemmShape::can_scale() const {
  const DType scale = problem.scale;
  if (compute.element == "bf16") return is_float8(scale) && panel.kind->takes_scales && !panel.has_zero;
  // f32 holds products of at most 9 bits of a weight and 8 of a scale.
  return compute.element == "f32" && has_group_scales() && scale != DType::f32 && !panel.has_offset &&
         !scheme_info(problem.scheme).weight.values;
}

bool GemmShape::can_read_in_place() const {
  constexpr int kMostRows = 8;
  return compute.element == dtype_name(problem.activation) && !compute.integer && !compute.tiles && !sliced &&
         !ordered && mr <= kMostRows && x_k == problem.k && x_words() == 0 && can_read_sources();
}

bool GemmShape::can_read_sources() const {
  if (problem.k_segments.size() == 1) return true;
  return problem.windowed && !has_groups() &&
         std::ranges::all_of(problem.k_segments, [&](int64_t width) { return width % k_iteration == 0; });
}

std::vector<KBlock> GemmShape::blocks() const {
  const int64_t longest = block_k();
  std::vector<KBlock> out;
  if (!in_place() || problem.k_segments.size() == 1) {
    for (int64_t k = 0; k < panel.k_padded; k += longest)
      out.push_back({k, std::min(longest, panel.k_padded - k), 0, k});
    return out;
  }
  int64_t begin = 0;
  for (size_t source = 0; source < problem.k_segments.size(); begin += problem.k_segments[source++]) {
    const int64_t width = problem.k_segments[source], each = part_of_source(width);
    for (int64_t k = 0; k < width; k += each)
      out.push_back({begin + k, std::min(each, width - k), static_cast<int>(source), k});
  }
  return out;
}

// Of the width of an x, in parts that differ little: at most `kc` of them, whole iterations.
int64_t GemmShape::part_of_source(int64_t width) const {
  const int64_t most = schedule.kc > 0 ? std::max<int64_t>(schedule.kc, k_iteration) : width;
  const int64_t parts = (width + most - 1) / most;
  return ((width + parts - 1) / parts + k_iteration - 1) / k_iteration * k_iteration;
}

int64_t GemmShape::block_k() const {
  if (problem.k_segments.size() > 1 && in_place()) {
    int64_t longest = 0;
    for (const int64_t width : problem.k_segments) longest = std::max(longest, part_of_source(width));
    return longest;
  }
  if (schedule.kc <= 0 || schedule.kc >= panel.k_padded) return panel.k_padded;
  const int64_t unit = has_groups() ? panel.group_padded * groups_per_step : pad_activations(kPadK);
  return std::min(panel.k_padded, std::max(unit, schedule.kc / unit * unit));
}

int64_t GemmShape::run_k() const {
  // Additions of runs cost many rows 4 %; a block of 512 is a run of its own, as long as those of other libraries. They
  // sum a short K in several chains. N has no say here: merged siblings have the bits that they have alone.
  constexpr int64_t kRun = 64, kLong = 512, kShortRun = 16, kShort = 64;
  if (compute.element != "f32" || problem.activation != DType::f32 || has_groups()) return 0;
  return block_k() > kLong ? kRun : block_k() > kShortRun && block_k() <= kShort ? kShortRun : 0;
}

int64_t GemmShape::block_units() const {
  const int64_t block = block_k();
  return pad_activations(has_groups() ? (block + panel.group_padded - 1) / panel.group_padded * x_group : block) /
         compute.kd;
}

int64_t GemmShape::next_lines() const {
  const int64_t tiles = std::max(1, schedule.rows_per_item / 2 / mr);
  return std::clamp<int64_t>((iteration_bytes() + 64 * tiles - 1) / (64 * tiles), 1, dots_of_iteration());
}

int GemmShape::x_words() const {
  // A correction of each slice, 2^e, and where there are offsets the sum of activations.
  if (sliced) return slices + 1 + (panel.has_offset && slices > 1 ? 1 : 0);
  if (corrections() == Corrections::wide) return 2;
  return corrections() != Corrections::none || (panel.has_offset && !rounds_weights()) ? 1 : 0;
}

GemmShape GemmShape::of_layer() const {
  GemmShape out = *this;
  out.slices = 1;
  return out;
}

int GemmShape::splits(int rows) const {
  // Two at a time that take four cycles each; dots of bf16 take six, which shows where memory does not hide it. Byte
  // tables of floats want registers, and take longer than one row.
  const int chains = compute.name == "bf16dot" && rows > 2                          ? 16
                     : panel.kind->looks_up_codes() && compute.kd == 1 && rows == 1 ? 4
                                                                                    : 8;
  return std::clamp(chains / (rows * slices * nv), 1, dots_of_iteration());
}

bool GemmShape::keeps_sums(int rows) const {
  // A broadcast, the table or mask of unpacking, one to work in; the weights of a dot of several units.
  const int operands = 3 + (units > 1 ? units : 0);
  return sums_groups() && !compute.tiles && (splits(rows) * slices + 1) * rows * nv + nv + operands <= registers();
}

std::string GemmShape::group_steps() const {
  const int64_t full = panel.group_padded / k_iteration, last = panel.group_k(panel.groups - 1) / k_iteration;
  return full == last || panel.groups == 1 ? std::to_string(last)
                                           : fmt::format("(g + 1 == {} ? {} : {})", panel.groups, last, full);
}

}  // namespace qcg
