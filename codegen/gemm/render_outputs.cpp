// Where the results of a GEMM go: panels and work items of each strip, the epilogues of its outputs.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/gemm/layout.h"
#include "codegen/gemm/problem.h"
#include "codegen/gemm/render_parts.h"
#include "codegen/gemm/schedules.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/render_template.h"

namespace qcg {
namespace {

using V = TemplateValue;

V describe_output(const GemmShape& shape, const Strip& strip, int index) {
  const PanelLayout& panel = shape.panel;
  const Problem& problem = shape.problem;
  const Output& output = problem.outputs[size_t(index)];
  V o = V::dict({{"index", index},
                 {"arg", shape.args.outputs + index},
                 {"n", output.n},
                 {"expr", sanitize_comment(output.expr.str())},
                 {"dtype", dtype_name(output.dtype)},
                 {"type", dtype_info(output.dtype).cpp}});
  std::vector<V> segments, row_operands, operands;
  bool biased = false;
  for (const int s : output.segments) {
    const Segment& segment = problem.segments[size_t(s)];
    const int64_t slot = std::ranges::find(strip.segments, s) - strip.segments.begin();
    const int64_t at = slot * panel.segment_bytes;
    biased |= segment.has_bias;
    segments.push_back(V::dict({{"index", s},
                                {"slot", slot},
                                {"bias", segment.has_bias},
                                {"scale_at", at + panel.scale_at},
                                {"offset_at", at + panel.offset_at},
                                {"column_sum_at", at + panel.column_sum_at},
                                {"bias_at", at + panel.bias_at}}));
  }
  for (int i : output.expr.leaves(ExprKind::in)) {
    const Operand& operand = problem.operands[size_t(i)];
    const bool splat = operand.broadcast == Broadcast::column || operand.broadcast == Broadcast::scalar;
    V v = V::dict({{"name", fmt::format("in{}", i)},
                   {"arg", shape.args.operands + i},
                   {"dtype", dtype_name(operand.dtype)},
                   {"type", dtype_info(operand.dtype).cpp},
                   {"by_row", operand.broadcast == Broadcast::full || operand.broadcast == Broadcast::column}});
    (splat ? row_operands : operands).push_back(std::move(v));
  }
  o["segments"] = V::from_items(std::move(segments));
  o["row_operands"] = V::from_items(std::move(row_operands));
  o["operands"] = V::from_items(std::move(operands));
  o["store_sum"] =
      problem.scheme == Scheme::s8s8 && output.dtype == DType::i32 && output.expr.kind == ExprKind::acc && !biased;
  std::vector<std::string> acc_names, in_names;
  for (size_t i = 0; i < problem.segments.size(); ++i) acc_names.push_back(fmt::format("acc{}", i));
  for (size_t i = 0; i < problem.operands.size(); ++i) in_names.push_back(fmt::format("in{}", i));
  o["code"] = print_expr(output.expr, acc_names, in_names);
  return o;
}

// Blocks of K: where their weights and units begin, how many groups or iterations they have.
void add_k_blocks(const GemmShape& shape, V& out) {
  const PanelLayout& panel = shape.panel;
  std::vector<V> weights, units, counts, sources;
  const int64_t longest = shape.block_k(),
                groups_per_block = longest == panel.k_padded ? panel.groups : longest / panel.group_padded;
  for (const KBlock& block : shape.blocks()) {
    const int64_t g = shape.has_groups() ? block.k / panel.group_padded : 0;
    weights.push_back(V(shape.has_groups() ? panel.group_at(g) : panel.k_bytes(block.k)));
    units.push_back(V(shape.x_units(shape.has_groups() ? g * shape.x_group : block.in_source)));
    counts.push_back(
        V(shape.has_groups() ? std::min(groups_per_block, panel.groups - g) : block.count / shape.k_iteration));
    sources.push_back(V(block.source));
    if (shape.has_groups() && g + groups_per_block >= panel.groups) break;
  }
  out["blocks_outside"] = shape.blocks_outside();
  out["has_blocks"] = shape.has_blocks();
  out["k_blocks"] = V::from_items(std::move(weights));
  out["k_units"] = V::from_items(std::move(units));
  out["k_sources"] = V::from_items(std::move(sources));
  out["k_counts"] = V::from_items(std::move(counts));
  out["fetches_per_count"] = shape.next_lines() * (shape.has_groups() ? panel.group_padded / shape.k_iteration : 1);
  out["bytes_per_count"] =
      shape.has_groups() ? panel.header_bytes + panel.k_bytes(panel.group_padded) : shape.iteration_bytes();
}

}  // namespace

void add_outputs(const GemmShape& shape, V& out) {
  const PanelLayout& panel = shape.panel;
  const Problem& problem = shape.problem;
  const GemmSchedule& schedule = shape.schedule;
  out["x_scale_arg"] = shape.args.x_scale;
  out["has_x_zero"] = shape.compute.integer && has_x_zero(problem) && (!shape.has_groups() || panel.zeros_by_column);
  out["x_zero"] = x_zero(shape, "row0 + r");
  out["weights_arg"] = shape.args.weights;
  out["segment_bytes"] = panel.segment_bytes;
  std::vector<V> strips;
  int64_t chunk = 0, most_segments = 1;
  for (const Strip& strip : panel.strips) {
    std::vector<V> outputs;
    for (const int o : strip.outputs) outputs.push_back(describe_output(shape, strip, o));
    V v = V::dict({{"outputs", V::from_items(std::move(outputs))},
                   {"segments", strip.segments.size()},
                   {"weights_at", strip.at},
                   {"panels", strip.panels},
                   {"chunk_begin", chunk}});
    chunk += (strip.panels + schedule.panels_per_item - 1) / schedule.panels_per_item;
    v["chunk_end"] = chunk;
    most_segments = std::max(most_segments, std::ssize(strip.segments));
    strips.push_back(std::move(v));
  }
  out["strips"] = V::from_items(std::move(strips));
  out["chunks"] = chunk;
  out["panels_per_item"] = schedule.panels_per_item;
  out["tiles_per_item"] = (schedule.rows_per_item + shape.mr - 1) / shape.mr;
  out["scratch_tiles"] = most_segments * (shape.blocks_outside() ? schedule.panels_per_item : 1);
  add_k_blocks(shape, out);
}

}  // namespace qcg
