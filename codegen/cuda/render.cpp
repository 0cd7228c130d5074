#include "codegen/gemm/render.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/layout.h"
#include "codegen/kernel/print_expr.h"
#include "codegen/kernel/render_template.h"

namespace qcg {
namespace {

using V = TemplateValue;

// Arguments of a kernel, in problem.h's order.
struct ArgPlaces {
  bool quantized;
  size_t x_scale, x_zero, operands, weights, outputs, count;
  explicit ArgPlaces(const Problem& p)
      : quantized(scheme_info(p.scheme).quantized_activation),
        x_scale(p.k_segments.size()),
        x_zero(x_scale + quantized),
        operands(x_zero + p.x_has_zero),
        weights(operands + p.operands.size()),
        outputs(weights + 1),
        count(outputs + p.outputs.size()) {}
};

std::string operand_offset(Broadcast broadcast, size_t arg) {
  switch (broadcast) {
    case Broadcast::full: return fmt::format("row * args.at[{}].stride + column", arg);
    case Broadcast::row: return "column";
    case Broadcast::column: return fmt::format("row * args.at[{}].stride", arg);
    case Broadcast::scalar: break;
  }
  return "0";
}

V segments_of(const Problem& p, const CudaLayout& layout, const Output& o) {
  std::vector<V> out;
  for (const int j : o.segments) {
    const CudaSegment& at = layout.segments[static_cast<size_t>(j)];
    const Segment& s = p.segments[static_cast<size_t>(j)];
    out.push_back(V::dict({{"index", j},
                           {"weight_at", at.weight},
                           {"scale_at", at.scale},
                           {"offset_at", at.offset},
                           {"has_offset", s.has_offset},
                           {"zero_at", at.zero},
                           {"has_zero", s.has_zero},
                           {"correction_at", at.correction},
                           {"bias_at", at.bias},
                           {"has_bias", s.has_bias}}));
  }
  return V::from_items(std::move(out));
}

// Whether scalar_math.cuh stores it; elements.cuh has all other dtypes.
bool is_native(const Problem& p, const Output& o) { return is_exact_sum(p, o) || is_compute_float(o.dtype); }

V output_context(const Problem& p, const CudaLayout& layout, size_t index) {
  const Output& o = p.outputs[index];
  const ArgPlaces args(p);
  std::vector<V> operands;
  std::vector<std::string> acc_names, in_names;
  for (size_t j = 0; j < p.segments.size(); ++j) acc_names.push_back(fmt::format("acc{}", j));
  for (size_t i = 0; i < p.operands.size(); ++i) in_names.push_back(fmt::format("in{}", i));
  for (const int i : o.expr.leaves(ExprKind::in)) {
    const Operand& operand = p.operands[static_cast<size_t>(i)];
    const size_t arg = args.operands + static_cast<size_t>(i);
    operands.push_back(
        V::dict({{"index", i},
                 {"arg", arg},
                 {"dtype", dtype_name(operand.dtype)},
                 {"native", is_compute_float(operand.dtype)},
                 {"full", operand.broadcast == Broadcast::full},
                 {"bytes", dtype_bytes(operand.dtype)},
                 {"splat", operand.broadcast == Broadcast::column || operand.broadcast == Broadcast::scalar},
                 {"offset", operand_offset(operand.broadcast, arg)}}));
  }
  auto any = [&](bool Segment::*has) {
    return std::any_of(o.segments.begin(), o.segments.end(),
                       [&](int j) { return p.segments[static_cast<size_t>(j)].*has; });
  };
  V v;
  v["text"] = sanitize_comment(o.expr.str());
  v["n"] = o.n;
  v["dtype"] = dtype_name(o.dtype);
  v["is_sum"] = is_exact_sum(p, o);
  v["native"] = is_native(p, o);
  v["bytes"] = dtype_bytes(o.dtype);
  v["arg"] = args.outputs + index;
  v["segments"] = segments_of(p, layout, o);
  v["has_offset"] = any(&Segment::has_offset), v["has_zero"] = any(&Segment::has_zero);
  v["operands"] = V::from_items(std::move(operands));
  v["code"] = print_expr_cuda(o.expr, acc_names, in_names);
  return v;
}

// The tensors that x is made of, and whether a stage always lies within one and rows come in whole chunks.
void add_x(const Problem& p, const CudaLayout& layout, V& v) {
  std::vector<V> xs;
  int64_t begin = 0;
  bool plain = layout.group == layout.group_padded && p.k % (layout.form->mma_k / 2) == 0;
  for (const int64_t width : p.k_segments) {
    plain &= begin % layout.form->stage_k() == 0;
    xs.push_back(V::dict({{"begin", begin}, {"end", begin + width}}));
    begin += width;
  }
  v["xs"] = V::from_items(std::move(xs));
  v["plain"] = plain;
}

void add_groups(const Problem& p, const CudaLayout& layout, const CudaSchedule& s, V& v) {
  const bool grouped = layout.group > 0;
  v["group"] = layout.group, v["group_padded"] = layout.group_padded, v["groups"] = layout.groups;
  v["grouped"] = grouped;
  v["channel_scales"] = !grouped && scheme_info(p.scheme).has_scales;
  // Zero points of x: subtracted from the sums of a group, or from those over all of K.
  v["group_zeros"] = p.x_has_zero && grouped && !layout.by_column;
  v["row_zeros"] = p.x_has_zero && (!grouped || layout.by_column);
  v["scale_pair"] = layout.scale == DType::f32 ? "float2" : "unsigned";
  const bool whole = !grouped || layout.group_padded % s.bk == 0;
  v["span"] = whole ? int64_t{s.bk} : std::min<int64_t>(layout.group_padded, layout.form->stage_k());
}

// Of x, as templates/cuda/weights.cuh names it.
std::string_view element_of(DType activation) {
  switch (activation) {
    case DType::bf16: return "BF16";
    case DType::f16: return "F16";
    case DType::u8: return "U8";
    default: return "S8";
  }
}

// An 8-bit float as PTX names it.
std::string_view float8_name(DType d) { return d == DType::f8e4m3 ? "e4m3" : "e5m2"; }

// Types of wgmma's operands, and the numbers behind them: no sign is changed, nothing is transposed.
void add_product(const Problem& p, const CudaLayout& layout, V& v) {
  const bool floats = is_floating(p.activation), float8 = layout.form->float8;
  const std::string_view half = p.activation == DType::f16 ? "f16" : "bf16";
  v["wgmma_sum"] = floats ? "f32" : "s32";
  v["wgmma_w"] = float8 ? float8_name(p.weight) : floats ? half : "s8";
  v["wgmma_x"] = float8 ? float8_name(p.activation) : floats ? half : p.activation == DType::u8 ? "u8" : "s8";
  v["wgmma_flags"] = !floats ? "" : float8 ? ", 1, 1" : layout.in_rows ? ", 1, 1, 0, 0" : ", 1, 1, 0";
}

}  // namespace

Result<std::string> render_gemm_cuda(const Problem& p, const CudaSchedule& s, std::string_view symbol) {
  QCG_CHECK(check_cuda_support(p, isa_info(s.microkernel->isa).device));
  const CudaLayout layout = cuda_layout(p);
  const ArgPlaces args(p);
  V v;
  v["symbol"] = symbol;
  v["name"] = kernel_name(p, s);
  v["signature"] = sanitize_comment(p.signature());
  v["comment"] = comment_lines(p.comment);
  v["element"] = layout.form->float8 ? fmt::format("{}_{}", float8_name(p.weight), float8_name(p.activation))
                                     : std::string(element_of(p.activation));
  v["form"] = layout.form->name, v["mma_k"] = layout.form->mma_k, v["words"] = layout.form->words();
  v["in_rows"] = layout.in_rows, v["float8"] = layout.form->float8;
  v["parts"] = s.is_fma() ? 1 : layout.form->parts;
  v["integer"] = layout.form->is_integer(), v["raised"] = layout.form->raised;
  v["x_scale_arg"] = args.quantized ? static_cast<int64_t>(args.x_scale) : -1;
  v["x_zero_arg"] = p.x_has_zero ? static_cast<int64_t>(args.x_zero) : -1;
  v["bm"] = s.bm, v["bn"] = s.bn, v["wgmma"] = s.is_wgmma();
  v["k"] = p.k, v["k_padded"] = layout.k_padded, v["tile_bytes"] = layout.tile_bytes();
  v["weights_arg"] = args.weights, v["arg_count"] = args.count;
  if (s.is_fma()) {
    v["element"] = fmt::format("Widened<Stored_{}>", dtype_name(p.activation));
    v["threads"] = s.threads(), v["depth"] = s.bk;
    if (layout.form->float8) v["form"] = float8_name(p.weight);
    v["unpacked"] = element_of(unpacked_dtype(p)), v["unpacked_dtype"] = dtype_name(unpacked_dtype(p));
  } else if (s.is_decode()) {
    v["warps"] = s.warps_k, v["depth"] = s.bk, v["x_tile"] = s.lanes() / 4;
  } else if (s.is_wgmma()) {
    v["stages"] = s.stages, v["bulk"] = copies_in_bulk(s);
    add_product(p, layout, v);
  } else {
    v["warps_m"] = s.warps_m, v["warps_n"] = s.warps_n, v["stages"] = s.stages;
  }
  add_x(p, layout, v);
  add_groups(p, layout, s, v);
  std::vector<V> outputs;
  int64_t tiles = 0;
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    V o = output_context(p, layout, i);
    o["tile_begin"] = tiles;
    tiles += (p.outputs[i].n + s.bn - 1) / s.bn;
    o["tile_end"] = tiles;
    outputs.push_back(std::move(o));
  }
  v["outputs"] = V::from_items(std::move(outputs));
  v["other_dtypes"] = std::ranges::any_of(p.outputs, [&](const Output& o) { return !is_native(p, o); }) ||
                      std::ranges::any_of(p.operands, [](const Operand& o) { return !is_compute_float(o.dtype); });
  return render_template(s.microkernel->source, v,
                         {"cuda/mma_decode.cu.j2", "cuda/mma_tile.cu.j2", "cuda/fma_tile.cu.j2", "cuda/wgmma.cu.j2"});
}

namespace {

// Of a stage of an output: x, weights, and what 16 columns have of parameters (templates/cuda/mma_tile.cu.j2, Stage).
int64_t stage_bytes(const Problem& p, const CudaLayout& layout, const CudaSchedule& s, const Output& o) {
  const CudaForm& form = *layout.form;
  const int64_t stage_k = form.stage_k(), tiles = s.bn / 16;
  const int64_t spans = layout.group ? stage_k / std::min(layout.group_padded, stage_k) : 1;
  const int64_t scale = spans * 16 * static_cast<int64_t>(dtype_bytes(layout.scale));
  bool offsets = false, zeros = false;
  for (const int j : o.segments) {
    offsets |= p.segments[static_cast<size_t>(j)].has_offset;
    zeros |= p.segments[static_cast<size_t>(j)].has_zero;
  }
  int64_t parameters = layout.group ? scale * (1 + offsets) : 0;
  if (zeros && (layout.group || !form.is_integer())) parameters += spans * (form.is_integer() ? 64 : 32);
  if (layout.group && p.x_has_zero && !layout.by_column) parameters += spans * 64;
  const int64_t bytes =
      s.bm * 128 + static_cast<int64_t>(o.segments.size()) * tiles * (512 * form.words() + parameters);
  return s.is_wgmma() ? (bytes + 1023) / 1024 * 1024 : bytes;
}

}  // namespace

CudaLaunch cuda_launch(const Problem& p, const CudaSchedule& s) {
  const CudaLayout layout = cuda_layout(p);
  CudaLaunch launch;
  launch.threads = s.threads();
  launch.rows = s.bm;
  for (const Output& o : p.outputs) {
    const auto segments = static_cast<int64_t>(o.segments.size());
    launch.column_tiles += static_cast<int>((o.n + s.bn - 1) / s.bn);
    int64_t bytes = 0;
    if (s.is_fma()) bytes = s.bk * (s.bm + 1 + segments * (s.bn + 4)) * 4;
    else if (s.is_decode()) bytes = segments * s.warps_k * s.bm * s.bn * 4;
    else bytes = std::max(s.stages * stage_bytes(p, layout, s, o), segments * s.bm * (s.bn + 4) * 4);
    if (s.is_wgmma()) bytes += s.stages * 16 + 2 * s.bm * 4;  // barriers, sums of rows of x
    launch.shared_bytes = std::max(launch.shared_bytes, static_cast<int>(bytes));
  }
  return launch;
}

}  // namespace qcg
