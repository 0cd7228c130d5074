// Problem + GemmSchedule -> C++ source. Every number is computed here and in render_*.cpp; templates/cpu/gemm*.j2 print
// them.
#include "codegen/gemm/render.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/gemm/layout.h"
#include "codegen/gemm/render_parts.h"
#include "codegen/gemm/shape.h"
#include "codegen/kernel/render_template.h"
#include "codegen/kernel/target.h"

namespace qcg {
namespace {

using V = TemplateValue;

template <class Add>
void add_vector_picture(const GemmShape& shape, Add add) {
  add(fmt::format("           {} columns = {} vectors", shape.panel.nr, shape.nv));
  add(fmt::format("         +{0}+{0}+", "--------"));
  add(fmt::format(" {:>2} rows |  acc   |  acc   |  += {} weight units x broadcast activation units of {} k{}",
                  shape.mr, shape.compute.name, shape.compute.kd,
                  shape.sliced ? fmt::format(", {} slices of each", shape.slices) : ""));
  add(fmt::format("         +{0}+{0}+", "--------"));
}

template <class Add>
void add_tile_picture(const GemmShape& shape, Add add) {
  add(fmt::format("           {} columns = 2 tiles", shape.panel.nr));
  add(fmt::format("         +{0}+{0}+", "--------"));
  for (int t = 0; t < shape.mr / 16; ++t)
    add(fmt::format(" 16 rows |  C {}   |  C {}   |  += A {} x B 6, B 7: {} k a step", 2 * t, 2 * t + 1, 4 + t,
                    shape.tile_units * shape.compute.kd));
  add(fmt::format("         +{0}+{0}+", "--------"));
}

V comment(const GemmShape& shape) {
  const Problem& problem = shape.problem;
  std::vector<V> lines;
  auto add = [&](std::string_view line) { lines.push_back(V(sanitize_comment(line))); };
  add("");
  add(problem.signature());
  add("candidate: " + shape.schedule.describe());
  add(fmt::format("weights: {} packed as {}, panels of {} columns", scheme_name(problem.scheme),
                  shape.panel.kind->picture, shape.panel.nr));
  add("");
  if (shape.compute.tiles) add_tile_picture(shape, add);
  else add_vector_picture(shape, add);
  if (problem.segments.size() > 1) add("");
  for (size_t i = 0; problem.segments.size() > 1 && i < problem.segments.size(); ++i)
    add(fmt::format("segment {}: {}", i, problem.segments[i].name));
  const V provenance = comment_lines(problem.comment);
  for (const V& line : provenance.items()) lines.push_back(line);
  return V::from_items(std::move(lines));
}

V build_context(const GemmShape& shape, std::string_view symbol) {
  const Problem& problem = shape.problem;
  const PanelLayout& panel = shape.panel;
  V out;
  out["symbol"] = symbol;
  out["name"] = kernel_name(problem, shape.schedule);
  out["gemm_header"] = fmt::format("gemm_{}.h", isa_info(shape.schedule.microkernel->isa).name);
  out["quant_header"] = panel.kind->header;
  out["compute"] = shape.compute.name;
  out["acc_type"] = shape.compute.integer ? "vi" : "vf";
  out["integer"] = shape.compute.integer;
  out["whole_integer"] = shape.compute.integer && !shape.has_groups();
  out["grouped"] = shape.has_group_scales(), out["by_groups"] = shape.has_groups();
  out["sums_groups"] = shape.sums_groups();
  out["scales_weights"] = shape.scales_weights();
  out["channel_scales"] = scheme_info(problem.scheme).has_scales && !shape.has_group_scales();
  out["factor"] = panel.kind->factor == 1 ? "" : fmt::format("{:.1f}f", panel.kind->factor);
  out["mr"] = shape.mr, out["nr"] = panel.nr, out["nv"] = shape.nv, out["kd"] = shape.compute.kd;
  std::vector<V> tails;
  for (int rows : shape.schedule.tails) tails.push_back(V(rows));
  out["tails"] = V::from_items(std::move(tails));
  out["rows"] = shape.schedule.tails.empty() ? "MR" : "rows";
  out["ahead"] = shape.schedule.ahead_bytes;
  out["units_per_row"] = shape.x_units(shape.x_k);
  out["comment"] = comment(shape);
  add_packing(shape, out);
  out["tile_registers"] = shape.compute.tiles;
  out["unpacked_block"] = shape.schedule.unpacks_block, out["first_tile_unpacks"] = shape.first_tile_unpacks();
  out["group_bytes"] = panel.group_at(1) - panel.group_at(0);
  out["block_bytes"] = shape.schedule.unpacks_block ? shape.block_units() * panel.nr * 4 : 0;
  out["block_store"] = shape.compute.element == "f32" ? "fma_store" : "int_store";
  out["has_zeros"] = shape.has_zeros();
  out["zeros_per_panel"] = shape.has_panel_zeros();
  out["zeros_per_group"] = shape.has_group_zeros();
  std::vector<V> vectors;
  for (int v = 0; v < shape.nv; ++v) {
    if (shape.subtracts_zeros()) vectors.push_back(V(fmt::format("z{}", v)));
    if (shape.scales_weights()) vectors.push_back(V(fmt::format("s{}", v)));
    if (shape.rounds_weights() && panel.has_offset) vectors.push_back(V(fmt::format("o{}", v)));
  }
  out["unpack_vectors"] = V::from_items(std::move(vectors));
  out["zeros_in_header"] = panel.zeros_in_header;
  out["header_bytes"] = panel.header_bytes;
  out["group_steps"] = shape.group_steps();
  if (shape.compute.tiles) add_tile_registers(shape, out);
  else add_vector_tiles(shape, out);
  add_prefetch(shape, out);
  add_multiply(shape, out);
  add_outputs(shape, out);
  return out;
}

// The functions of an epilogue in evaluation order: "silu_mul"; empty for a plain result.
void collect_functions(const Expr& expr, std::string& out) {
  for (const Expr& arg : expr.args) collect_functions(arg, out);
  if (expr.kind == ExprKind::call) out += "_" + std::string(expr.function);
}

bool printable_dtype(DType d, bool output) {
  switch (d) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::f64:
    case DType::i8:
    case DType::u8:
    case DType::i32:
    case DType::i64:
    case DType::f8e4m3:
    case DType::f8e5m2: return true;
    case DType::boolean:
    case DType::f8e8m0: return !output;
    default: return false;
  }
}

Status check_renderable(const Problem& problem) {
  QCG_CHECK(check_integer_range(problem));
  for (const Output& o : problem.outputs)
    if (!printable_dtype(o.dtype, true))
      return Error::unsupported("output", "a GEMM cannot store " + std::string(dtype_name(o.dtype)),
                                "cast to a float dtype first");
  for (const Operand& o : problem.operands)
    if (!printable_dtype(o.dtype, false))
      return Error::unsupported("operand", "an epilogue cannot read " + std::string(dtype_name(o.dtype)),
                                "cast to a float dtype first");
  return {};
}

}  // namespace

std::string kernel_name(const Problem& problem, std::string_view tile, std::string_view microkernel) {
  const Output& first = problem.outputs.front();
  std::string epilogue;
  collect_functions(first.expr, epilogue);
  return fmt::format(
      "qgemm_{}_{}{}_{}_n{}_k{}_{}_{}{}", dtype_name(problem.activation),
      scheme_info(problem.scheme).weight.is_float ? dtype_name(problem.weight) : scheme_name(problem.scheme),
      problem.group > 0 ? fmt::format("_g{}", problem.group) : "", dtype_name(first.dtype), problem.n_total(),
      problem.k, tile, microkernel, epilogue.substr(0, 60));
}

std::string kernel_name(const Problem& problem, const GemmSchedule& schedule) {
  const PackedLayout& layout = schedule.layout;
  return kernel_name(problem, fmt::format("{}x{}x{}", schedule.mr, layout.nr, layout.kr), schedule.microkernel->name);
}

Result<std::string> render_gemm(const Problem& problem, const GemmSchedule& schedule, std::string_view symbol) {
  QCG_CHECK(check_renderable(problem));
  const GemmShape shape(problem, schedule);
  return render_template(schedule.microkernel->source, build_context(shape, symbol),
                         {"cpu/gemm.cpp.j2", "cpu/gemm_amx.cpp.j2"});
}

}  // namespace qcg
