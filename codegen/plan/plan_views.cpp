#include <fmt/format.h>

#include "codegen/plan/planner.h"
#include "graph/ops/op_table.h"
#include "graph/ops/strides.h"

namespace qcg {

namespace {

constexpr Op kReshapes[] = {"aten.reshape.default",    "aten.view.default",  "aten._unsafe_view.default",
                            "aten.flatten.using_ints", "aten.unflatten.int", "aten.unsqueeze.default",
                            "aten.squeeze.dim",        "aten.squeeze.dims",  "aten.squeeze.default"};
constexpr Op kSplits[] = {"aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default"};

}  // namespace

bool keeps_order(const Node& node) { return is_any_op(node, kReshapes); }

// Decides, from the last node to the first, which values can be born where their consumer wants them: in a graph
// output, in a slice of a concatenation, or under another shape of either.
void Planner::place_outputs() {
  for (size_t n = graph_.nodes.size(); n-- > 0;) {
    const Node& node = graph_.nodes[n];
    if (node.outputs.size() != 1) continue;
    const ValueId out = node.outputs[0];
    if (is_op(node, "aten.cat.default")) place_concat(node);
    if (!placed_[out] || !keeps_order(node)) continue;
    const ValueId in = node.tensor("self");
    if (!is_placeable(in)) continue;
    placed_[in] = reshape_view(*placed_[out], graph_.value(in).shape);
  }
}

bool Planner::is_placeable(ValueId id) const {
  return id != kNoValue && graph_.value(id).kind == ValueKind::node && !placed_[id];
}

void Planner::place_concat(const Node& node) {
  const ValueId out = node.outputs[0];
  if (!placed_[out]) {
    const Value& value = graph_.value(out);
    placed_[out] = dense_view(add_temp(value.shape, value.dtype), value.shape);
  }
  for_each_slice(node, [&](ValueId source, const View& slice) {
    if (is_placeable(source)) placed_[source] = slice;
  });
}

// Calls visit(source, its slice of the concatenation's placement) in source order.
void Planner::for_each_slice(const Node& node, const std::function<void(ValueId, const View&)>& visit) {
  const View whole = *placed_[node.outputs[0]];
  const size_t axis = normalize_axis(constant_int(node, "dim", 0), whole.shape.size());
  View slice = whole;
  for (ValueId source : *node.arg("tensors").get<std::vector<ValueId>>()) {
    slice.shape = graph_.value(source).shape;
    visit(source, slice);
    slice.offset = slice.offset + whole.strides[axis] * slice.shape[axis];
  }
}

Status Planner::lower_concat(const Node& node) {
  views_[node.outputs[0]] = *placed_[node.outputs[0]];
  for_each_slice(node, [&](ValueId source, const View& slice) {
    const View from = view(source);
    if (from.buffer == slice.buffer && from.offset == slice.offset && from.strides == slice.strides) return;
    add_copy(from, slice, graph_.value(source).dtype, "into " + graph_.value(node.outputs[0]).name);
  });
  return {};
}

void Planner::lower_split(const Node& node) {
  const View whole = view(node.tensor("self"));
  const size_t axis = normalize_axis(constant_int(node, "dim", 0), whole.shape.size());
  View part = whole;
  for (ValueId out : node.outputs) {
    part.shape = graph_.value(out).shape;
    views_[out] = part;
    part.offset = part.offset + whole.strides[axis] * part.shape[axis];
  }
}

Status Planner::lower_view(const Node& node) {
  if (is_any_op(node, kSplits)) return lower_split(node), Status{};
  const View in = view(node.tensor("self"));
  const Shape& shape = graph_.value(node.outputs[0]).shape;
  if (keeps_order(node)) {
    auto out = reshape_view(in, shape);
    if (!out && is_read_by_windows(node, in)) return windows_[node.outputs[0]] = in, Status{};
    if (!out) out = dense_view(copy_to_temp(in, graph_.value(node.outputs[0]).dtype), shape);
    views_[node.outputs[0]] = *out;
    return {};
  }
  StrideRule* rule = Op(node.op).row().strides;
  if (!rule)
    return Error::unsupported(node.where, fmt::format("view operator {} has no lowering", node.op->name),
                              "add .contiguous() or a reshape before it and export again");
  QCG_TRY(out, rule({graph_, node}, {in.shape, in.strides, in.offset}));
  views_[node.outputs[0]] = {in.buffer, out.offset, out.shape, out.strides};
  return {};
}

// Whether a copy to rows is read by linears alone, whose kernels on CPUs find the rows in what would be copied.
bool Planner::is_read_by_windows(const Node& node, const View& in) {
  const ValueId out = node.outputs[0];
  if (plan_.target.device != Device::cpu || placed_[out]) return false;
  if (uses_as_x_.empty()) {
    uses_as_x_.resize(graph_.values.size());
    for (const Node& reader : graph_.nodes)
      if (const auto* xs = is_op(reader, "qcg.linear") ? reader.arg("xs").get<std::vector<ValueId>>() : nullptr;
          xs && xs->size() == 1)
        ++uses_as_x_[xs->front()];
  }
  const Shape& shape = graph_.value(out).shape;
  return uses_as_x_[out] == uses()[out] && !shape.empty() && shape.back().is_constant() &&
         window_rows_of(in, shape.back().constant());
}

// The same bytes as another dtype: a copy, since writes in place look for views of their own dtype.
void Planner::lower_bits(const Node& node) {
  const ValueId x = node.tensor("self"), y = node.outputs[0];
  const DType from = graph_.value(x).dtype, to = graph_.value(y).dtype;
  View in = view(x);
  if (dtype_bytes(from) != dtype_bytes(to)) in = dense_view(copy_to_temp(in, from), graph_.value(y).shape);
  const View out = output_view(y, is_dense);
  add_copy(in, out, to, "the bits of " + graph_.value(x).name);
  finish_output(y, out);
}

}  // namespace qcg
