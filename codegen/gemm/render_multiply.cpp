// How the blocks of K call what multiplies them: the parameters of multiply_tile, unpack_block and add_rests, and the
// arguments for them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/gemm/render_parts.h"

namespace qcg {
namespace {

using V = TemplateValue;

constexpr std::string_view kSegmentWeights = "weights + p * PANEL + j * SEGMENT";
constexpr std::string_view kTile = "panel_c + (j * tiles + t) * TILE * 4";

// One parameter, or two that go together, and what is passed for it.
struct Parameter {
  std::string declared, passed;
};

// What counts the iterations of a block that is not counted by groups.
std::string_view counter(const GemmShape& shape) { return shape.compute.tiles ? "int64_t count" : "int64_t steps"; }

// The groups or iterations of a block.
std::string block_range(const GemmShape& shape) {
  if (!shape.has_groups()) return "count";
  if (!shape.has_blocks()) return "0, count";
  const int64_t groups = shape.block_k() / shape.panel.group_padded;
  return fmt::format("b * {0}, b * {0} + count", groups);
}

std::string panel_zeros(const GemmShape& shape) { return fmt::format("{} + {}", kSegmentWeights, shape.panel.zero_at); }

// `unpacks`: of the first tile, where it leaves a block for the others. `is_layer`: of what slices leave over.
std::vector<Parameter> tile_parameters(const GemmShape& shape, bool unpacks, bool is_layer = false) {
  const bool reads_block = shape.schedule.unpacks_block && !unpacks;
  const bool tails = !shape.schedule.tails.empty();
  const bool in_place = shape.in_place(), windowed = in_place && shape.problem.windowed;
  std::string first = "true", x = is_layer   ? "layer_units(call, layer, t0 + t)"
                                  : windowed ? "x"
                                  : in_place ? "x + t * (MR * x_bytes)"
                                             : "x + t * (UNITS * MR)";
  if (shape.has_blocks()) {
    x += fmt::format(" + kUnitsAt[b]{} * {}", is_layer ? " / SLICES" : "",
                     in_place ? "4"
                     : tails  ? "rows_of(call, t0 + t)"
                              : "MR");
    first = "b == 0";
  }
  std::vector<Parameter> out = {{"const uint8_t* w", reads_block ? "block" : "w"},
                                {in_place ? "const uint8_t* x" : "const qcg_unit* x", x},
                                {"uint8_t* c", std::string(kTile)}};
  if (windowed) out.insert(out.begin() + 2, {"const int64_t* rows", "rows + t * MR"});
  else if (in_place) out.insert(out.begin() + 2, {"int64_t x_bytes, int64_t last", "x_bytes, last_row(call, t0 + t)"});
  if (unpacks) out.insert(out.begin(), {"uint8_t* to", "block"});
  if (shape.loops_over_groups(reads_block)) out.push_back({"int64_t g0, int64_t g1", block_range(shape)});
  else out.push_back({std::string(counter(shape)), shape.scales_weights() ? "block_steps" : block_range(shape)});
  out.push_back({"bool first", is_layer ? "false" : first});
  if (shape.zeros_in_tile(reads_block) && !shape.has_group_scales())
    out.push_back({"const uint8_t* zeros", panel_zeros(shape)});
  if (reads_block && shape.sums_groups()) out.push_back({"const uint8_t* header", "w"});
  if (shape.x_words() > 0)
    out.push_back({"const qcg_unit* x_sums", is_layer ? "layer_sums(call, layer, t0 + t)" : "sums_of(call, t0 + t)"});
  if (shape.compute.tiles && shape.sums_groups()) out.push_back({"int64_t rows", "rows_of(call, t0 + t)"});
  out.push_back({"const uint8_t* next, int64_t next_step", "next + t * fetches * next_step, next_step"});
  return out;
}

std::string joined(const std::vector<Parameter>& parameters, std::string Parameter::*part) {
  std::vector<std::string> parts;
  for (const Parameter& p : parameters) parts.push_back(p.*part);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<Parameter> unpack_parameters(const GemmShape& shape) {
  std::vector<Parameter> out = {{"uint8_t* __restrict to", "block"}, {"const uint8_t* w", "w"}};
  out.push_back({std::string(shape.has_groups() ? "int64_t g0, int64_t g1" : counter(shape)), block_range(shape)});
  if (shape.has_panel_zeros()) out.push_back({"const uint8_t* zeros", panel_zeros(shape)});
  return out;
}

// Of add_rests: what the slices of a row tile left over.
std::vector<Parameter> rests_parameters(const GemmShape& shape) {
  std::vector<Parameter> out = {{"const qcg_call* call, int64_t tile", "call, t0 + t"},
                                {"const uint8_t* w", std::string(kSegmentWeights)},
                                {"uint8_t* c", std::string(kTile)}};
  if (shape.has_panel_zeros()) out.push_back({"const uint8_t* zeros", panel_zeros(shape)});
  return out;
}

}  // namespace

void add_multiply(const GemmShape& shape, V& out) {
  const bool tails = !shape.schedule.tails.empty();
  const std::string function = tails ? "multiply_of(rows_of(call, t0 + t))" : "multiply_tile";
  const auto call = [&](std::string_view callee, bool unpacks, bool is_layer = false) {
    return fmt::format("{}({});", callee, joined(tile_parameters(shape, unpacks, is_layer), &Parameter::passed));
  };
  std::vector<V> calls;
  const bool first = shape.first_tile_unpacks();
  if (first) calls.emplace_back("if (t == 0) " + call("unpack_and_multiply", true));
  calls.emplace_back((first ? "else " : "") + call(function, false));
  if (shape.sliced)
    calls.emplace_back("for (int layer = 0; layer < layers_of(call, t0 + t); ++layer) " +
                       call(tails ? "layer_of(rows_of(call, t0 + t))" : "multiply_layer", false, true));
  out["tile_calls"] = V::from_items(std::move(calls));
  out["block_range"] = shape.schedule.unpacks_block && shape.scales_weights() ? block_range(shape) : "";
  out["tile_parameters"] = joined(tile_parameters(shape, false), &Parameter::declared);
  out["first_tile_parameters"] = joined(tile_parameters(shape, true), &Parameter::declared);
  out["block_parameters"] = joined(unpack_parameters(shape), &Parameter::declared);
  out["block_arguments"] = joined(unpack_parameters(shape), &Parameter::passed);
  out["rests_parameters"] = joined(rests_parameters(shape), &Parameter::declared);
  out["rests_arguments"] = joined(rests_parameters(shape), &Parameter::passed);
}

}  // namespace qcg
