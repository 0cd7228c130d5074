// How the activations of a GEMM are packed, and what is summed on the way.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/gemm/layout.h"
#include "codegen/gemm/render_parts.h"

namespace qcg {
namespace {

using V = TemplateValue;

// How a kernel holds the scales of a group, a vector of columns (templates/quant/e2m1.h).
struct ScaleForm {
  std::string load;
  std::string_view vector = "vf";
};

ScaleForm scale_form(const GemmShape& shape) {
  const bool looked_up = shape.looks_up_scaled();
  switch (shape.problem.scale) {
    case DType::f8e8m0: return looked_up ? ScaleForm{"exponents_load", "vi"} : ScaleForm{"power_load"};
    case DType::f8e4m3: return looked_up ? ScaleForm{"e4m3_scales_load", "e4m3_scales"} : ScaleForm{"e4m3_load"};
    default: return {fmt::format("v_load_{}", dtype_name(shape.problem.scale))};
  }
}

// What a group adds to sums that depends on the row: x_sums[group][word][row], made when activations are packed.
void add_group_sums(const GemmShape& shape, V& out) {
  const PanelLayout& panel = shape.panel;
  static constexpr std::string_view kNames[] = {"none", "raised", "sums", "pairs", "wide"};
  out["corrections"] = kNames[size_t(shape.corrections())];
  out["has_offset"] = panel.has_offset;
  out["groups"] = panel.groups;
  out["x_words"] = shape.x_words();
  out["raised"] = shape.raised();
  out["x_zero_of_row"] = shape.compute.integer ? x_zero(shape, "i") : "";
  out["last_group"] = shape.pad_activations(panel.group_k(panel.groups - 1));
  const ScaleForm scale = scale_form(shape);
  out["load_scale"] = scale.load, out["scale_vector"] = scale.vector;
  out["scale_type"] = dtype_info(shape.problem.scale).cpp;
  out["offsets_in_header"] = panel.offsets_in_header;
}

// So many rests of a row are listed however short it is.
constexpr int64_t kFewRests = 16;

// What slices leave over is multiplied one k at a time: where its weights are.
void add_rests(const GemmShape& shape, V& out) {
  const LayoutKind& kind = *shape.panel.kind;
  out["most_rests"] = std::max(kFewRests, shape.x_k / 32);
  out["weight_kind"] = kind.kind;
  out["weight_k_step"] = kind.k_step;
  out["weight_step_bytes"] = shape.panel.step_bytes();
  out["weight_vector_bytes"] = shape.vector_bytes();
  // A class is the k of a step that one unpacking function serves. Rows of bytes as long as a vector need one function
  // for all k: the load begins at the row. Shuffled nibbles need two, for low and high nibbles, the units 0 and 1: the
  // load begins at the byte. Any other layout needs one for each k.
  const bool rows = kind.bits == 8 && kind.columns == shape.vl;
  const int classes = rows ? 1 : kind.is_shuffled() ? 2 : kind.k_step;
  out["k_of_class"] = kind.k_step / classes;
  out["bytes_of_class"] = rows ? kind.columns : kind.is_shuffled() ? 1 : 0;
  std::vector<V> unit_of_class;
  for (int unit = 0; unit < classes; ++unit) unit_of_class.push_back(V(unit));
  out["unit_of_class"] = V::from_items(std::move(unit_of_class));
}

}  // namespace

// Activations are packed signed: u8 values and their zero points move down by 128 together.
std::string x_zero(const GemmShape& shape, std::string_view row) {
  const std::string given = shape.args.x_zero < 0
                                ? ""
                                : fmt::format("((const int32_t*)call->args[{0}].data)[({1}) * call->args[{0}].stride]",
                                              shape.args.x_zero, row);
  if (shape.problem.activation != DType::u8) return given.empty() ? "0" : given;
  return given.empty() ? "-128" : given + " - 128";
}

void add_packing(const GemmShape& shape, V& out) {
  const PanelLayout& panel = shape.panel;
  const Problem& problem = shape.problem;
  const bool sliced = shape.sliced;
  out["sliced"] = sliced;
  out["in_place"] = shape.in_place(), out["windowed"] = problem.windowed;
  out["activation_bytes"] = dtype_bytes(problem.activation);
  if (sliced) add_rests(shape, out), out["slices"] = shape.slices;
  out["element"] = sliced ? "float" : shape.compute.cpp_element;
  out["activation_dtype"] = dtype_name(problem.activation);
  out["row_bytes"] = sliced ? std::to_string(shape.x_k * 4) : "UNITS * 4";
  out["pack_bytes"] =
      shape.compute.tiles ? "UNITS * 4"
      : sliced ? fmt::format("(MR * (UNITS + LAYERS * LAYER_UNITS) + {}) * 4", std::max(shape.x_k, 2 * kFewRests))
               : "MR * UNITS * 4";
  out["activation"] = dtype_info(problem.activation).cpp;
  out["pack_function"] =
      fmt::format("pack_{}_{}", sliced ? "f32" : shape.compute.element, dtype_name(problem.activation));
  out["k_padded"] = shape.x_k;
  out["group"] = panel.group, out["group_padded"] = shape.x_group;
  out["group_gaps"] = panel.groups > 1 && panel.group != shape.x_group;
  out["pack_has_gaps"] = shape.x_k != problem.k;
  out["pack_direct"] = shape.mr == 1 && !shape.ordered && !sliced;
  out["row_sums"] = shape.compute.integer && !shape.has_groups();
  add_group_sums(shape, out);
  std::vector<V> sources;
  int64_t begin = 0;
  for (size_t i = 0; i < problem.k_segments.size(); ++i) {
    sources.push_back(V::dict({{"arg", i}, {"begin", begin}, {"width", problem.k_segments[i]}}));
    begin += problem.k_segments[i];
  }
  out["sources"] = V::from_items(std::move(sources));
  std::vector<V> order;
  if (shape.ordered && shape.compute.kd == 1)
    for (int u = 0; u < 8; ++u) order.push_back(V(fmt::format("((const qcg_unit*)row)[u + {}]", u / 2 + 4 * (u % 2))));
  if (shape.ordered && shape.compute.kd == 2)
    for (int first : {0, 4, 1, 5})
      order.push_back(V(fmt::format("pack_pair(row[u * 2 + {}], row[u * 2 + {}])", first, first + 2)));
  out["pack_order"] = V::from_items(std::move(order));
}

}  // namespace qcg
